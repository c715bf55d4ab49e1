/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the port, for its own files. */
#ifndef VB_PORT_IMPL_H
#define VB_PORT_IMPL_H

#include <assert.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/delay_line.h"
#include "base/udp_table.h"
#include "nic/nic.h"
#include "port/port.h"
#include "port/steer.h"

enum {
	VB_ENDPOINTS_MAX = 256, /* addresses, including former ones until their place is needed */
	VB_LIVES = 1 << 20,     /* of a place for an endpoint, before the count begins anew */
	VB_SENDERS = 4,         /* source ports per address */
	VB_RECEIVE_BATCH = 8,   /* datagrams, or merged bursts, per system call */
	VB_DATAGRAM_MAX = 65536,
	VB_FLOWS = 64,
	VB_TOO_BIG_QPNS = 64,
	VB_REFUSED_QPNS = 64,
	VB_ATTACHES_MAX = 64,   /* per 100 ms: attaches that packets of strangers may cause */
	VB_GROUP_MEMBERS = 128, /* processes of one host in a group within the host */
	VB_GROUP_LOOKS = 16,
};

union vb_sockaddr {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* An address of this host, as the kernel knows it. */
struct vb_address {
	bool ipv6;
	uint8_t bytes[16]; /* IPv4: the first four */
	uint32_t scope;    /* interface index of a link-local address */
};

struct vb_sender {
	int fd; /* -1: not open */
	uint16_t port;
	bool no_segment;    /* the kernel refused UDP_SEGMENT */
	bool cuts;          /* packets too long for the interface leave in fragments (udp_send.c) */
	bool ignores_route; /* the route's MTU, as the host knows it, does not count (udp_send.c) */
	int group_ifindex;  /* the interface for datagrams to groups; 0: not set */
	int full_bytes;     /* bytes in the buffer when it was full last ... */
	uint64_t full_ns;   /* ... and the time since when it has had so many */
};

/* The user that holds UDP port 4791 at an address that we could not bind (port/holder.c). */
struct vb_holder {
	uint64_t looked_ns; /* time of the last look */
	uid_t uid;
	bool known;   /* uid is set: the look found a socket */
	bool anybody; /* the kernel does not tell: it may be any user */
};

struct vb_endpoint {
	struct vb_address address;
	unsigned life;        /* counts the addresses that had this place: ways know theirs */
	int fd;               /* receives; -1: not bound, another user's process holds the port */
	unsigned lone_streak; /* messages of one packet in a row (udp_receive.c) */
	union vb_sockaddr last_from; /* source of the last message, and its flow */
	struct vb_icrc_flow last_flow;
	struct vb_sender senders[VB_SENDERS];
	struct vb_steer steer;
	uint16_t fabric; /* of a multicast group: the link's number (nic/group.h); else 0 */
	struct vb_holder holder;
};

/* Buffers for messages from UDP sockets, ready for the next call (udp_receive.c). */
struct vb_incoming {
	union vb_sockaddr from;
	struct iovec iov;
	_Alignas(struct cmsghdr) char control[3 * CMSG_SPACE(sizeof(int))];
};

struct vb_inbox {
	struct vb_incoming incoming[VB_RECEIVE_BATCH];
	struct mmsghdr messages[VB_RECEIVE_BATCH];
};

/* The queue of packets to this lane, from all lanes of the process (memory_port.c). */
struct vb_memory {
	pthread_mutex_t lock;   /* of the members below; taken last */
	bool open;              /* records are taken */
	uint8_t *ring;          /* NULL until it is used */
	uint32_t head, tail;    /* offsets */
	_Atomic uint32_t count; /* records between tail and head */
	int event;              /* eventfd, readable while there are records */
};

/* Packets that wait for an attach (port/held.c). */
struct vb_held {
	pthread_mutex_t lock;
	struct vb_delay_line line;   /* under lock; what is due is given up */
	_Atomic uint64_t sent, lost; /* all forwarded packets, also those that did not wait */
};

/* Multicast groups (port/mcast.c). */
struct vb_groups {
	struct vb_list joined;               /* struct vb_port_group */
	int out;                             /* writes to members within the host; -1: not open */
	uint64_t look_ns[VB_GROUP_LOOKS];    /* by group: time of the next look at all names */
	uint64_t stuck_ns[VB_GROUP_MEMBERS]; /* by number: senders do not wait for it until then */
};

struct vb_port {
	struct vb_nic *nic;
	unsigned lane;
	_Atomic int outer;  /* the epoll of the thread that serves the lane */
	int inner;          /* all descriptors of the port */
	int timer;          /* runs while an endpoint is unbound; -1: never needed */
	uint64_t rebind_ns; /* interval of the timer, which grows */
	int leavers;        /* tells of members that left a group (steer_watch.c); -1: none */
	const struct vb_port_calls *calls; /* NULL: none */
	uint64_t attach_window_ns;         /* begin of the window in which attach_count counts */
	unsigned attach_count;
	struct vb_port_counters *counters;
	struct vb_endpoint *endpoints[VB_ENDPOINTS_MAX];
	unsigned endpoint_count;
	struct vb_endpoint *hot; /* the endpoint of the last packets */
	unsigned hot_polls;      /* polls of it; some of them ask the inner epoll instead */
	struct vb_memory memory;
	struct vb_held held;
	struct vb_groups groups;
	uint32_t too_big_qpns[VB_TOO_BIG_QPNS]; /* QPs that were explained already (mtu.c) */
	uint32_t refused_qpns[VB_REFUSED_QPNS]; /* the same (refused.c) */
	int knock;                              /* the socket of the last knock; -1: none */
	int knock_error;                        /* what the network answered; 0: nothing */
	uint64_t knocked_ns;                    /* the time of its first one */
	union ibv_gid knocked;                  /* its host */
	uint8_t *buffers;                       /* VB_RECEIVE_BATCH of VB_DATAGRAM_MAX */
	struct vb_inbox inbox;
	struct vb_icrc_flow flows[VB_FLOWS]; /* of recent arrivals, ready for their ICRC */
	/* while vb_port_receive runs */
	vb_port_input input;
	void *input_arg;
	bool receiving;
	uint64_t burst; /* counts deliveries */
};

/* The kind of a descriptor in the inner epoll: the low bits of the event's data. */
enum vb_source {
	VB_SOURCE_PEER, /* the other bits are the address of the peer */
	VB_SOURCE_UDP,  /* the other bits are the number of the endpoint */
	VB_SOURCE_MEMORY,
	VB_SOURCE_TIMER,
	VB_SOURCE_GROUP, /* the other bits are the address of a joined group */
	VB_SOURCE_LEAVERS,
	VB_SOURCE_MASK = 7,
};
/* A process left: tries to bind unbound endpoints, now and at growing intervals. */
void vb_port_rebind(struct vb_port *port);
int vb_port_watch_source(struct vb_port *port, int fd, uint64_t data);

/* The packets of one burst that came in, by any way. */
struct vb_delivery {
	const struct vb_icrc_flow *flow;
	const uint8_t *bytes;
	uint32_t length, segment;
	uint8_t traffic_class, hop_limit;
	uint32_t scope; /* as in struct vb_arrival, as are the next two */
	struct vb_peer *peer;
	bool forwarded;
	struct vb_endpoint *endpoint; /* UDP only */
	uint16_t fabric;              /* of a multicast group within the host; else 0 */
	uint16_t position;            /* of the first packet in its burst */
};

/* --- port/input.c --- */

/* Gives our packets to port->input and forwards the others. Returns the number of packets. */
unsigned vb_port_deliver(struct vb_port *port, const struct vb_delivery *delivery);
/* An initialized flow with the same addresses and ports, valid until the next call. */
const struct vb_icrc_flow *vb_port_flow(struct vb_port *port, const struct vb_icrc_flow *like);
/* The port of this process that a packet is for; NULL: it is for another process. */
struct vb_port *vb_port_for(const struct vb_port *port, const uint8_t *bytes, uint32_t length);
/* The open port of a lane, else that of the first lane. Any thread. */
struct vb_port *vb_port_of_lane(const struct vb_port *port, unsigned lane);

static inline uint32_t vb_packets_of(uint32_t length, uint32_t segment)
{
	return (length + segment - 1) / segment;
}

/* --- udp_socket.c --- */

/* The endpoint of an own address, opened if it is missing; or NULL and *err. */
struct vb_endpoint *vb_udp_endpoint(struct vb_port *port, const struct vb_address *address,
				    unsigned *number, int *err);
/* A way has the number of its sending socket: of the endpoint's life, the endpoint, the sender. */
static inline int vb_socket_number(const struct vb_endpoint *endpoint, unsigned number,
				   unsigned sender)
{
	return (int)((endpoint->life * VB_ENDPOINTS_MAX + number) * VB_SENDERS + sender);
}
static inline struct vb_endpoint *vb_way_endpoint(const struct vb_port *port,
						  const struct vb_way *way)
{
	return port->endpoints[(unsigned)way->socket / VB_SENDERS % VB_ENDPOINTS_MAX];
}
/* True: the address of the way has left the host, and another one has its place. */
static inline bool vb_way_is_former(const struct vb_port *port, const struct vb_way *way)
{
	return (unsigned)way->socket / VB_SENDERS / VB_ENDPOINTS_MAX !=
	       vb_way_endpoint(port, way)->life;
}
/* The index of the endpoint's sender for some entropy, or -errno. */
int vb_udp_sender(struct vb_endpoint *endpoint, uint32_t entropy);
/*
 * The socket's buffer is full. Packets for a neighbour that does not answer stay in it for seconds:
 * if none has left it for long, another socket with the same port takes its place.
 */
void vb_udp_sender_full(struct vb_endpoint *endpoint, struct vb_sender *sender);
/* Binds the endpoints that are unbound. True: all are bound now. */
bool vb_udp_bind_all(struct vb_port *port);
socklen_t vb_sockaddr_fill(union vb_sockaddr *to, bool ipv6, const uint8_t *bytes, uint32_t scope,
			   uint16_t port);

/* --- udp_send.c, udp_receive.c --- */

/* All bursts leave through the same socket. */
void vb_udp_send(struct vb_port *port, const struct vb_burst *bursts, unsigned count);
void vb_inbox_init(struct vb_inbox *inbox, uint8_t *buffers);
unsigned vb_udp_receive(struct vb_port *port, struct vb_endpoint *endpoint, unsigned most);

/* --- port/full.c --- */

/* Sending failed with err. True: it has waited, try again. *waits is 0 at first. */
bool vb_port_wait_full(int fd, const struct vb_burst *burst, int err, unsigned *waits);
bool vb_port_waits_full(const struct vb_burst *burst);

/* --- port/mtu.c --- */

/* Explains, once per QP, that packets leave in fragments. */
void vb_port_explain_cut(struct vb_port *port, const struct vb_burst *burst);
/* Explains, once per QP, that packets are too long for the interface or the route (EMSGSIZE). */
void vb_port_explain_mtu(struct vb_port *port, const struct vb_burst *burst);

/* --- port/refused.c --- */

/* Explains, once per QP, that the kernel does not send packets, for another reason. */
void vb_port_explain_refused(struct vb_port *port, const struct vb_burst *burst, int err);

/* --- port/holder.c --- */

/* The endpoint's address could not be bound: explains which user holds the port. */
void vb_port_explain_holder(struct vb_endpoint *endpoint);
/* The socket is bound to the endpoint's address and to port 4791. */
bool vb_endpoint_is_at(const struct vb_endpoint *endpoint, const struct vb_udp_socket *socket);
/*
 * A process of this user may forward packets for the endpoint to us: root, our own user (whose
 * processes share the port) and, if the endpoint is not bound, the user that holds the port.
 */
bool vb_endpoint_takes_from(struct vb_endpoint *endpoint, uid_t uid);

/* --- slot_port.c --- */

/* The header in front of the packets in a message on a slot socket. */
struct vb_slot_message {
	uint64_t magic;
	uint32_t length, segment; /* of the packets behind it */
	uint16_t src_port, dst_port;
	uint8_t ipv6, forwarded, traffic_class, hop_limit;
	uint8_t src[16], dst[16];
};
static_assert(sizeof(struct vb_slot_message) == 56, "no holes");

/* Messages may be written to the peer's socket. Any thread. */
bool vb_slot_is_attached(const struct vb_peer *peer);
bool vb_slot_write(const struct vb_peer *peer, const struct vb_slot_message *message,
		   const uint8_t *bytes);
void vb_slot_send(struct vb_port *port, const struct vb_burst *burst);
void vb_slot_forward(struct vb_port *port, uint32_t slot, const struct vb_delivery *delivery);
unsigned vb_slot_receive(struct vb_port *port, struct vb_peer *peer, unsigned most);

struct vb_slot_message vb_slot_message_of(const struct vb_icrc_flow *flow);
struct vb_icrc_flow vb_slot_flow_of(const struct vb_slot_message *message);
bool vb_slot_is_well_formed(const struct vb_slot_message *message, size_t size);

/* --- port/mcast.c --- */

struct vb_port_group;
void vb_groups_init(struct vb_groups *groups);
/* In a forked child, which is no member. */
void vb_groups_close(struct vb_groups *groups);
/* A way to a group within the host. 0 or -errno. */
int vb_group_resolve(struct vb_port *port, const struct vb_av *av, struct vb_way *way);
/* Prepares a UDP socket for sending to groups through an interface. */
void vb_group_prepare_sender(int fd, bool ipv6, int ifindex);
void vb_group_send(struct vb_port *port, const struct vb_burst *burst);
unsigned vb_group_receive(struct vb_port *port, struct vb_port_group *joined, unsigned most);
/* The fabric of a packet that came through memory; 0: it is not for a group. */
uint16_t vb_group_fabric(const struct vb_icrc_flow *flow);

/* --- port/held.c --- */

void vb_held_init(struct vb_held *held);
/* Sends packets to a peer that is attached. For a peer that attaches just now the packets wait. */
void vb_held_forward(struct vb_held *held, struct vb_peer *peer,
		     const struct vb_slot_message *message, const uint8_t *bytes);

/* --- memory_port.c --- */

void vb_memory_init(struct vb_memory *memory);
int vb_memory_open(struct vb_port *port);
/* Records that are left are lost, and no port writes any from now on. */
void vb_memory_close(struct vb_port *port);
/* Gives packets to another lane of this process. Any thread that has the lock of any lane. */
void vb_memory_hand_over(struct vb_port *to, const struct vb_delivery *delivery);
void vb_memory_send(struct vb_port *port, const struct vb_burst *burst);
unsigned vb_memory_receive(struct vb_port *port, unsigned most);

/* --- port/capture.c: a program captures --- */

void vb_port_capture_out(const struct vb_burst *bursts, unsigned count);
void vb_port_capture_in(const struct vb_arrival *arrival);

#endif
