/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes of one user share UDP port 4791 of an address (SO_REUSEPORT). A classic BPF
 * program picks the socket of a packet by the slot in its destination QPN. The whole group has one
 * program, and any member may replace it. The program needs the position of each process in the
 * group, and positions move when a member leaves. So every program also lets a question through to
 * a given position. A process that meets a packet of another process asks all positions:
 *
 *   asker                              member at position i
 *   FIND to each position       --->   (one of them reaches the asker: that is its position)
 *   ASK to each position        --->
 *   new program, after all came <---   ANSWER to the asker's position: the member's slots
 *
 * A process that joins waits for the answers, but not for ever: a member may be stopped. Packets
 * that reach the socket of a stopped member stay there. For that reason packets for QP 1, which
 * every process passes on, go to a random member among those that answered: a repeated packet meets
 * another member. A packet at the wrong process is forwarded. That takes longer, so packets of UC
 * and UD may come too late.
 *
 * A member is the socket of a lane. That of the first lane has the slots of its process, and gets
 * all packets that name them. That of a further lane has the rows of the lane (nic/lane.h), which
 * the program looks for first. Packets for a row without a member, because there are too many or
 * an older version answered, come to the first lane of the process, which hands them over.
 */
#ifndef VB_PORT_STEER_H
#define VB_PORT_STEER_H

#include <stdbool.h>
#include <stdint.h>

enum {
	VB_STEER_MEMBERS = 128,
	VB_STEER_LANES = 64, /* further lanes join only while there are fewer members */
	VB_STEER_DRAWN = 64, /* members among which packets for QP 1 are spread */
	VB_STEER_ENTRIES = 256,
	VB_STEER_ROW = 1 << 16, /* added to a row: it is no slot */
};

struct vb_steer_entry {
	uint32_t key; /* a slot, or a row: VB_STEER_ROW + (slot << 4 | row) */
	uint32_t position;
};

struct vb_steer {
	uint64_t nonce;       /* of the questions under way */
	uint64_t next_ns;     /* no further question before this time */
	uint64_t interval_ns; /* grows while the answers change nothing */
	uint32_t members, own_position, answers;
	uint32_t entry_count, installed_count;
	uint64_t answered[VB_STEER_MEMBERS / 64]; /* positions that have answered, one bit each */
	bool moved; /* the kernel moved this process, and no other, to another position */
	struct vb_steer_entry entries[VB_STEER_ENTRIES];   /* from the answers so far */
	struct vb_steer_entry installed[VB_STEER_ENTRIES]; /* in the program */
};

struct vb_port;
struct vb_endpoint;

/* The endpoint was bound: this process is a member now. */
void vb_steer_joined(struct vb_port *port, struct vb_endpoint *endpoint);
/* A packet for another process came here. */
void vb_steer_missed(struct vb_port *port, struct vb_endpoint *endpoint);
/* The kernel moved this process, and no other, to another position. */
void vb_steer_moved(struct vb_port *port, struct vb_endpoint *endpoint);
/* steer_watch.c: the port calls vb_steer_left from now on when a member of some group leaves. */
void vb_steer_watch(struct vb_port *port);
void vb_steer_left(struct vb_port *port);
/* True: the message is a question or an answer of a member, and was handled. */
bool vb_steer_input(struct vb_port *port, struct vb_endpoint *endpoint, const uint8_t *bytes,
		    uint32_t length);

/* Attaches the program for the entries to a socket of a group with so many members. 0 or -errno. */
int vb_steer_install(int fd, const struct vb_steer_entry *entries, uint32_t count,
		     uint32_t members);
/* The number of sockets in this network namespace that are bound to the address; 0: unknown. */
uint32_t vb_steer_count_members(const struct vb_endpoint *endpoint);

#endif
