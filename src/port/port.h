/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port: how packets leave this process and reach it. UDP sockets on this host's addresses,
 * the slot sockets of peers whose memory we may not touch, or memory (for tests). It knows nothing
 * of QPs but that the destination QPN names the slot of the process a packet belongs to. Packets
 * get lost here for many reasons, and none of them is an error.
 *
 * One per process. Everything is called under the wire lock (engine/wire/wire.h).
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
	VB_WAY_MEMORY,  /* a queue of this process; what is another's goes on to its slot socket */
	VB_WAY_GROUP,   /* a multicast group within this host */
	VB_WAY_NOWHERE, /* a path that leads nowhere: packets are lost */
};

/* The way to a destination, resolved once per connection or address handle. */
struct vb_way {
	struct vb_icrc_flow flow; /* addresses and ports as the headers carry them */
	union ibv_gid sgid, dgid; /* as the QP or the address handle names them */
	uint16_t dlid;            /* InfiniBand only */
	int ifindex;              /* of the address handle: two interfaces may have the same sgid */
	uint8_t traffic_class, hop_limit;
	uint32_t scope;       /* interface index for a link-local destination */
	struct vb_peer *peer; /* referenced; over its slot socket. NULL: UDP (or memory) */
	int socket;           /* UDP: one of the port's pool; -1 */
	/* InfiniBand to another host: MTU of the interface. Connected QPs keep to it, longer datagrams are
	 * cut by IP. 0: what is too long is lost. */
	uint16_t link_mtu;
	uint8_t kind; /* enum vb_way_kind */
	bool local;   /* the destination is this host */
	bool multicast;
	bool resolved;
};

/* Packets that leave together: all have segment bytes but the last, which may be shorter. */
struct vb_burst {
	const struct vb_way *way;
	const uint8_t *bytes;
	uint32_t length, segment;
	uint32_t qpn; /* whose packets they are */
};

/* One packet that came in. Nothing of it is to be believed. */
struct vb_arrival {
	const struct vb_icrc_flow *flow; /* from the sender's point of view; flow_init was called */
	const uint8_t *bytes;
	uint32_t length;
	uint8_t traffic_class; /* its lower two bits are ECN */
	uint8_t hop_limit;
	uint32_t scope;    /* UDP: the interface it came by, if its source is link-local; else 0 */
	uint16_t position; /* in the burst that it came in */
	struct vb_peer *peer; /* through whose slot socket it came, or NULL */
	bool forwarded;  /* it came to another process's UDP port, which gave it to us; no peer */
	uint16_t fabric; /* it came to a multicast group (nic/group.h): on this link; else 0 */
};

/* An address of a flow, its src or dst, as a GID. */
union ibv_gid vb_flow_gid(const struct vb_icrc_flow *flow, const uint8_t address[16]);

typedef void (*vb_port_input)(void *arg, const struct vb_arrival *arrival);

/* Counted since the port was opened. */
struct vb_port_counters {
	uint64_t packets_out, packets_in, bytes_out, bytes_in;
	uint64_t send_errors;    /* the kernel refused: link down, no route, buffers full */
	uint64_t too_big;        /* EMSGSIZE: the interface's MTU is smaller */
	uint64_t forwarded_out;  /* for other processes of this host, given to them */
	uint64_t forwarded_lost; /* there was nobody to give them to */
	uint64_t forwarded_in;
	uint64_t slot_refused; /* malformed messages on slot sockets */
	uint64_t oversized;    /* datagrams that were cut off */
	uint64_t overrun;      /* the kernel dropped them: our receive buffers were full */
	uint64_t memory_full;  /* the queue within this process was */
};

/*
 * epoll is the service thread's. The port is one descriptor in it, with VB_PORT_EVENT as data;
 * peers' sockets that are not read by the port stand there with the address of the peer as data.
 */
#define VB_PORT_EVENT (UINT64_MAX - 1)
struct vb_port *vb_port_new(struct vb_nic *nic, int epoll);
/* The port of this NIC, or NULL; any thread. */
struct vb_port *vb_port_of(const struct vb_nic *nic);
/* attach(nic, slot) begins to attach to the process that holds a slot. */
void vb_port_on_foreign(struct vb_port *port, void (*attach)(struct vb_nic *nic, uint32_t slot));
const struct vb_port_counters *vb_port_counters(const struct vb_port *port);
/* Can a process of this user have what came to this address from outside, and pass it on to us? */
bool vb_port_takes_from(struct vb_port *port, const union ibv_gid *dst, uid_t uid);

/*
 * Makes packets to a destination possible, and packets from it: opens what sockets are missing.
 * entropy picks the UDP source port, 0xc000 | 14 bits of it; peer, if not NULL, is the process of
 * this host to which packets go through its slot socket. 0, -ENETUNREACH, -EADDRNOTAVAIL, ...
 */
int vb_port_resolve(struct vb_port *port, const struct vb_av *av, struct vb_peer *peer,
		    uint32_t entropy, struct vb_way *way);
void vb_way_release(struct vb_way *way);
/*
 * Does this come from where the way leads? Addresses of this host count as one where the way or the
 * packet goes over loopback; from a slot socket only if it is the way's own.
 */
bool vb_way_expects(const struct vb_way *way, const struct vb_arrival *arrival);
/* Packets to an own address are to come in (a UD QP that has sent nothing yet). 0 or -errno. */
int vb_port_listen(struct vb_port *port, const union ibv_gid *own);

/* Packets to a multicast group are to come in, as often as it was joined. 0 or -errno. */
int vb_port_group_join(struct vb_port *port, const struct vb_group *group);
void vb_port_group_leave(struct vb_port *port, const struct vb_group *group);
/* Who joined `from` wants `to`. Where that cannot be had, vb_port_groups_again tries it again. */
void vb_port_group_move(struct vb_port *port, const struct vb_group *from,
			const struct vb_group *to);
void vb_port_groups_again(struct vb_port *port);

/* How many packets a burst on this way may have: 1 where UDP_SEGMENT does not work. */
unsigned vb_port_burst_max(const struct vb_port *port, const struct vb_way *way);
/* The packet at position i of a burst leaves with this IPv4 identification. */
static inline uint16_t vb_port_id(unsigned i)
{
	return (uint16_t)i;
}
/* UC and UD wait for room in a send buffer (port/full.c): it may sleep. */
void vb_port_send(struct vb_port *port, const struct vb_burst *bursts, unsigned count);

/*
 * Takes in what waits, up to most packets (the burst that reaches it is finished); returns how many
 * there were. What belongs to another process goes there and is not shown.
 */
unsigned vb_port_receive(struct vb_port *port, bool polling, unsigned most, vb_port_input input,
			 void *arg);
/* The same for what was sent through memory: it would be lost with this process. */
void vb_port_empty_memory(struct vb_port *port, vb_port_input input, void *arg);

/*
 * Who waits for packets: while somebody polls, the descriptors are not watched by the service
 * thread. Watching them again is for whoever goes to sleep; any thread, no lock.
 */
void vb_port_watch(struct vb_port *port);
/* Does anything wait? Any thread, no lock. */
bool vb_port_ready(struct vb_port *port);

/* --- slot sockets: between attaching, which reads them first, and the port (slot_port.c) --- */

#define VB_SLOT_PACKETS_MAGIC 0x3173746b70616276ull /* begins a message that carries packets */

/* Room for bursts on both sides. */
void vb_slot_socket_tune(int fd);
/*
 * Packets came on the socket of an attached peer: the port reads it from now on. It comes back to
 * the service thread's epoll when the peer hangs up. By the service thread, no lock; 0 or -errno.
 */
int vb_port_adopt(struct vb_port *port, struct vb_peer *peer);
/* The attach is done: what waited for it goes out. By the service thread, no lock. */
void vb_port_attached(struct vb_port *port, struct vb_peer *peer);

#endif
