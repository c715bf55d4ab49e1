/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes of one user share UDP port 4791 of an address (SO_REUSEPORT). A classic BPF
 * program of the whole group, which any member may replace, picks the socket of a packet by the
 * slot in its destination QPN. It needs to know at which position of the group each process is, and
 * positions move when a member leaves. So every program also lets through a question to a given
 * position, and whoever meets a packet that is not his asks all positions who is there:
 *
 *   asker                              member at position i
 *   FIND to each position       --->   (only the asker's own comes back: now it knows its own)
 *   ASK to each position        --->
 *   new program when all came   <---   ANSWER to the asker's position: my slots
 *
 * Whoever joins waits for the answers, though not for ever: a member may be stopped, and what reaches
 * its socket stays there. For that reason packets for QP 1, which anybody passes on, go to a member by
 * chance, one that answered: those that are sent again meet another one. A packet at the wrong process is forwarded, which takes longer:
 * then UC and UD may see it too late.
 */
#ifndef VB_PORT_STEER_H
#define VB_PORT_STEER_H

#include <stdbool.h>
#include <stdint.h>

enum { VB_STEER_MEMBERS = 64, VB_STEER_ENTRIES = 256 };

struct vb_steer_entry {
	uint32_t slot, position;
};

struct vb_steer {
	uint64_t nonce;       /* of the questions under way */
	uint64_t next_ns;     /* not asked again before */
	uint64_t interval_ns; /* grows while asking changes nothing */
	uint32_t members, own_position, answers;
	uint32_t entry_count, installed_count;
	uint64_t answered; /* positions, one bit each */
	bool moved;        /* the kernel gave us another position, and nobody else */
	struct vb_steer_entry entries[VB_STEER_ENTRIES];
	struct vb_steer_entry installed[VB_STEER_ENTRIES];
};

struct vb_port;
struct vb_endpoint;

/* The endpoint was bound. */
void vb_steer_joined(struct vb_port *port, struct vb_endpoint *endpoint);
/* A packet for another process came here. */
void vb_steer_missed(struct vb_port *port, struct vb_endpoint *endpoint);
/* Our position is no more: we are at another one now, and nobody else is. */
void vb_steer_moved(struct vb_port *port, struct vb_endpoint *endpoint);
/* steer_watch.c: from now on vb_steer_left is called when a member of some group has left. */
void vb_steer_watch(struct vb_port *port);
void vb_steer_left(struct vb_port *port);
/* Is this one of our own questions or answers? Then it is taken. */
bool vb_steer_input(struct vb_port *port, struct vb_endpoint *endpoint, const uint8_t *bytes,
		    uint32_t length);

/* Attaches the program for the entries to a socket of a group of so many. 0 or -errno. */
int vb_steer_install(int fd, const struct vb_steer_entry *entries, uint32_t count,
		     uint32_t members);
/* How many sockets of this network namespace are bound to the address; 0: cannot be told. */
uint32_t vb_steer_count_members(const struct vb_endpoint *endpoint);

#endif
