/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port: packets leave this process and reach it here. Each way of sending has a way in:
 *
 *   vb_port_send                                      vb_port_receive
 *   UDP      udp_send.c    ---- network, loopback --> udp_receive.c  --+
 *   SLOT     slot_port.c   ---- socket of a peer ---> slot_port.c    --+--> input.c --+
 *   GROUP    mcast.c       ---- names in the host --> mcast.c        --+              |
 *   MEMORY   memory_port.c ---- ring in memory -----> memory_port.c  --+              |
 *   NOWHERE  lost                                                                     |
 *                                                                                     |
 *   a QPN of this lane: to the protocol core, through vb_port_input  <----------------+
 *   a QPN of another lane: to the ring of that lane's port (memory_port.c)  <---------+
 *   a QPN of another process: once, to its slot socket (slot_port.c, held.c)  <-------+
 *
 * SLOT is for peers whose memory this process may not touch, MEMORY for the own process, GROUP for
 * multicast within the host (groups on a link go by UDP). The port knows one fact about QPs: the
 * destination QPN names the slot of the process that a packet belongs to. Packets get lost here for
 * many reasons, and none of them is an error.
 *
 * One port per lane. The first lane's port has the multicast groups and the slot sockets, and gets
 * the packets for QP 1. The caller holds the lock of the lane (engine/wire/wire.h) unless a comment
 * says otherwise.
 */
#ifndef VB_PORT_PORT_H
#define VB_PORT_PORT_H

#include "nic/ah.h"
#include "nic/group.h"
#include "shm/peer.h"
#include "wire/icrc.h"

struct vb_port;

enum {
	VB_BURST_PACKETS = 64, /* UDP_SEGMENT's own limit */
	VB_BURST_BYTES = 65000,
};

enum vb_way_kind {
	VB_WAY_UDP,
	VB_WAY_SLOT,    /* the peer's slot socket */
	VB_WAY_MEMORY,  /* a ring of this process; packets for another go on to its slot socket */
	VB_WAY_GROUP,   /* a multicast group within this host */
	VB_WAY_NOWHERE, /* a path that leads nowhere: packets are lost */
};

/* The way to a destination, resolved once per connection or address handle. */
struct vb_way {
	struct vb_icrc_flow flow; /* addresses and ports as in the headers */
	union ibv_gid sgid, dgid; /* as in the QP or the address handle */
	uint16_t dlid;            /* InfiniBand only */
	int ifindex;              /* of the address handle: two interfaces may have the same sgid */
	uint8_t traffic_class, hop_limit;
	uint32_t scope;       /* interface index for a link-local destination */
	struct vb_peer *peer; /* SLOT: the owner of the slot socket, referenced; else NULL */
	int socket;           /* UDP: number of the sending socket; else -1 */
	/*
	 * InfiniBand to another host: MTU of the interface. Connected QPs keep to it; IP cuts
	 * longer datagrams into fragments. 0: packets that are too long are lost.
	 */
	uint16_t link_mtu;
	uint8_t kind; /* enum vb_way_kind */
	bool local;   /* the destination is this host */
	bool multicast;
	bool resolved;
};

/* Packets that leave together. All have segment bytes, except the last, which may be shorter. */
struct vb_burst {
	const struct vb_way *way;
	const uint8_t *bytes;
	uint32_t length, segment;
	uint32_t qpn; /* the QP that sends them */
};

/* One packet that came in. Any field may be forged. */
struct vb_arrival {
	const struct vb_icrc_flow *flow; /* from the sender's point of view; flow_init was called */
	const uint8_t *bytes;
	uint32_t length;
	uint8_t traffic_class; /* its lower two bits are ECN */
	uint8_t hop_limit;
	uint32_t scope; /* UDP: the interface that it came by if its source is link-local; else 0 */
	uint16_t position;    /* in its burst */
	uint64_t burst;       /* a number for all packets that have come with it; 0: none have */
	uint32_t more;        /* packets of the same length that lie behind it and came with it */
	struct vb_peer *peer; /* the owner of the slot socket that it came through, or NULL */
	bool forwarded;       /* another process got it on UDP and gave it to us; peer is NULL */
	uint16_t fabric; /* it came to a multicast group: the link's number (nic/group.h); else 0 */
};

/* An address of a flow, its src or dst, as a GID. */
union ibv_gid vb_flow_gid(const struct vb_icrc_flow *flow, const uint8_t address[16]);

/* Returns the number of packets that were taken: one, and some of those that lie behind it. */
typedef unsigned (*vb_port_input)(void *arg, const struct vb_arrival *arrival);

/* Counted since the port was opened. */
struct vb_port_counters {
	uint64_t packets_out, packets_in, bytes_out, bytes_in;
	uint64_t send_errors;    /* the kernel refused them: link down, no route, buffers full */
	uint64_t too_big;        /* EMSGSIZE: the interface's MTU is smaller */
	uint64_t forwarded_out;  /* given to other processes of this host, their owners */
	uint64_t forwarded_lost; /* not given: no such process, or no room */
	uint64_t forwarded_in;
	uint64_t slot_refused; /* malformed or forbidden messages on slot sockets */
	uint64_t oversized;    /* messages longer than the receive buffer */
	uint64_t overrun;      /* the kernel dropped them: our receive buffers were full */
	uint64_t memory_full;  /* the ring in memory was full */
	uint64_t handed_over;  /* given to other lanes of this process, by the port that got them */
};

/*
 * epoll belongs to the thread that serves the lane, the service thread at first. The port is one
 * descriptor in it, with VB_PORT_EVENT plus the number of the lane as data. Sockets of peers that
 * the port does not read are in the service thread's, too, with the address of the peer as data.
 */
#define VB_PORT_EVENT (UINT64_MAX - 64)
struct vb_port *vb_port_new(struct vb_nic *nic, int epoll, unsigned lane);
/*
 * Closes the port of a further lane that has no QPs. It stays in memory, because ports of other
 * lanes may be about to hand packets over; vb_port_open opens it again. 0 or -errno.
 */
void vb_port_close(struct vb_port *port);
int vb_port_open(struct vb_port *port);
/* The port of the first lane of this NIC, or NULL. Any thread. */
struct vb_port *vb_port_of(const struct vb_nic *nic);
/* Functions that the port calls, under the lock of its lane. */
struct vb_port_calls {
	/* A packet is for a process that the port does not know: begins to attach to it. */
	void (*attach)(struct vb_nic *nic, uint32_t slot);
	/* A packet of an attached process is for a QP whose lane is not open: opens it. */
	void (*open_lane)(struct vb_nic *nic, unsigned lane);
};
void vb_port_on_foreign(struct vb_port *port, const struct vb_port_calls *calls);
const struct vb_port_counters *vb_port_counters(const struct vb_port *port);
/* Packets that came in and left so far; asks no socket. */
uint64_t vb_port_packets(const struct vb_port *port);
/* A process of this user may have received packets for this address and may pass them on to us. */
bool vb_port_takes_from(struct vb_port *port, const union ibv_gid *dst, uid_t uid);

/*
 * Finds the way to a destination, and opens the sockets that packets to it and from it need.
 * entropy picks the UDP source port, 0xc000 | 14 bits of it. peer, if not NULL, is the process of
 * this host to which packets go through its slot socket. 0, -ENETUNREACH, -EADDRNOTAVAIL, ...
 */
int vb_port_resolve(struct vb_port *port, const struct vb_av *av, struct vb_peer *peer,
		    uint32_t entropy, struct vb_way *way);
void vb_way_release(struct vb_way *way);
/*
 * The packet comes from the destination of the way. All addresses of this host count as one if the
 * way or the packet goes over loopback. A packet from a slot socket must come through the way's
 * own.
 */
bool vb_way_expects(const struct vb_way *way, const struct vb_arrival *arrival);
/*
 * Packets to the own address of such a way shall come in. By the first lane, which gets the packets
 * of other lanes until the kernel knows their sockets, and where a lane has none. 0 or -errno.
 */
int vb_port_listen_for(struct vb_port *port, const struct vb_av *av, struct vb_peer *peer);
/* Packets to an own address shall come in (for a UD QP that has sent nothing yet). 0 or -errno. */
int vb_port_listen(struct vb_port *port, const union ibv_gid *own);

/* Packets to a multicast group shall come in. Each join needs a leave. 0 or -errno. */
int vb_port_group_join(struct vb_port *port, const struct vb_group *group);
void vb_port_group_leave(struct vb_port *port, const struct vb_group *group);
/* All joins of `from` become joins of `to`. vb_port_groups_again opens the socket. */
void vb_port_group_move(struct vb_port *port, const struct vb_group *from,
			const struct vb_group *to);
void vb_port_groups_again(struct vb_port *port);

/* The largest number of packets in a burst on this way: 1 if UDP_SEGMENT does not work. */
unsigned vb_port_burst_max(const struct vb_port *port, const struct vb_way *way);
/* The packet at position i of a burst leaves with this IPv4 identification. */
static inline uint16_t vb_port_id(unsigned i)
{
	return (uint16_t)i;
}
/* May sleep: UC and UD wait for room in a send buffer (port/full.c). */
void vb_port_send(struct vb_port *port, const struct vb_burst *bursts, unsigned count);

/* Asks the host at the other end, for a sentence, whether it takes packets (knock.c). */
void vb_port_knock(struct vb_port *port, const struct vb_way *way);
/* The answer of the network: an errno, as ECONNREFUSED; 0: there was none. */
int vb_port_knock_error(struct vb_port *port, const struct vb_way *way);

/*
 * Takes in waiting packets, at most `most` and the rest of the last burst; returns their number.
 * Packets of another process go there, and not to input.
 */
unsigned vb_port_receive(struct vb_port *port, bool polling, unsigned most, vb_port_input input,
			 void *arg);
/* Takes in all packets from the ring in memory: they would be lost with this process. */
void vb_port_empty_memory(struct vb_port *port, vb_port_input input, void *arg);

/*
 * The service thread watches the descriptors of the port from now on, until the next event. While a
 * thread polls, it does not. A thread that goes to sleep calls this. Any thread, no lock.
 */
void vb_port_watch(struct vb_port *port);
/* Another epoll watches the port from now on. */
void vb_port_move(struct vb_port *port, int epoll);
/* Packets wait on some descriptor. Any thread, no lock. */
bool vb_port_ready(struct vb_port *port);

/* --- slot sockets: attaching reads them first, then the port (slot_port.c) --- */

#define VB_SLOT_PACKETS_MAGIC 0x3173746b70616276ull /* begins a message that carries packets */

/* Makes the send buffer large enough for bursts. */
void vb_slot_socket_tune(int fd);
/*
 * Packets came on the socket of an attached peer: the port reads it from now on. The socket returns
 * to the service thread's epoll when the peer hangs up. Service thread, no lock; 0 or -errno.
 */
int vb_port_adopt(struct vb_port *port, struct vb_peer *peer);
/* The attach is done: packets that waited for it leave. Service thread, no lock. */
void vb_port_attached(struct vb_port *port, struct vb_peer *peer);

#endif
