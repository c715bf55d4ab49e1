/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager's protocol (IBA chapter 12) for all endpoints of one process. The code
 * does no I/O and reads no clock: messages and the time are arguments, messages go out and events
 * come out through struct vb_cm_ops. The caller protects all of it by one lock.
 *
 *   active:   connect -> REP_RECEIVED, caller readies its QP, establish -> connected
 *   passive:  REQ_RECEIVED, accept or reject -> ESTABLISHED
 *   both:     disconnect, or the peer does -> DISCONNECTED, disconnect -> TIMEWAIT_EXIT
 *   datagram: sidr_request -> SIDR_REP_RECEIVED; SIDR_REQ_RECEIVED, sidr_reply
 *
 * The caller owns the memory of an endpoint. vb_cm_destroy ends an endpoint in any state and sends
 * the last message to the peer. No event follows. An orphan, a copy of the endpoint that the
 * connection manager owns, repeats that message and answers copies of the peer's messages.
 *
 * Functions return 0 or -errno. -EINVAL: the state does not allow it, or private data are too long.
 */
#ifndef VB_CM_CM_H
#define VB_CM_CM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/timer.h"
#include "gsi/cm_name.h"
#include "wire/cm.h"

struct vb_cm;
struct vb_cm_endpoint;

/* The two addresses of a message, as this side sees them. IPv4 addresses are mapped. */
struct vb_cm_route {
	union ibv_gid local, remote;
	uint32_t scope; /* interface index if remote is link-local, else 0 */
	uint32_t user;  /* 1 + uid of a peer on this host; 0: unknown, or another host */
	uint8_t traffic_class;
};

enum vb_cm_state {
	VB_CM_IDLE,
	VB_CM_LISTEN,
	VB_CM_REQ_SENT,
	VB_CM_REQ_RECEIVED,
	VB_CM_REP_SENT,
	VB_CM_REP_RECEIVED,
	VB_CM_ESTABLISHED,
	VB_CM_DREQ_SENT,
	VB_CM_DREQ_RECEIVED,
	VB_CM_TIMEWAIT,
	VB_CM_REJECTED, /* by this side; a copy of the request gets the REJ again */
	VB_CM_SIDR_REQ_SENT,
	VB_CM_SIDR_REQ_RECEIVED,
	VB_CM_SIDR_REP_SENT,
	VB_CM_STATES,
};

enum vb_cm_event_type {
	/* Passive: accept or reject the request. ops->incoming gave the endpoint. */
	VB_CM_EVENT_REQ_RECEIVED,
	/* Active: the peer accepted. Bring the QP to RTS, then vb_cm_establish or vb_cm_reject. */
	VB_CM_EVENT_REP_RECEIVED,
	/* Passive: the peer is ready. (The active side is established by vb_cm_establish.) */
	VB_CM_EVENT_ESTABLISHED,
	/* The peer refused, or the connection turned out to be stale: event->reason. */
	VB_CM_EVENT_REJECTED,
	/* A REQ, a REP or a SIDR_REQ got no answer: event->status is -ETIMEDOUT. */
	VB_CM_EVENT_UNREACHABLE,
	/* Once, after ESTABLISHED or establish: either side ended it, or the peer is silent. */
	VB_CM_EVENT_DISCONNECTED,
	/* No packet of the connection can arrive any more; the endpoint is idle. */
	VB_CM_EVENT_TIMEWAIT_EXIT,
	/* Passive: answer with vb_cm_sidr_reply. */
	VB_CM_EVENT_SIDR_REQ_RECEIVED,
	/* Active: event->sidr_status says whether there is a QP; the endpoint is idle again. */
	VB_CM_EVENT_SIDR_REP_RECEIVED,
	/* The peer wants the alternate path in the message; answer with vb_cm_lap_answer. */
	VB_CM_EVENT_LAP_RECEIVED,
	VB_CM_EVENTS,
};

/* The values of the peer, turned round: those that concern this side's QP say so. */
struct vb_cm_peer {
	uint64_t ca_guid;
	uint32_t qpn;
	enum ibv_qp_type qp_type;    /* RC, UC or XRC_SEND: of the side that sent the REQ */
	uint32_t sq_psn;             /* of this side's QP: the peer expects it first */
	uint8_t responder_resources; /* of this side: READs that the peer may have under way */
	uint8_t initiator_depth;     /* of this side: READs that the peer can answer at once */
	uint8_t retry_count;         /* REQ only: for this side's QP */
	uint8_t rnr_retry_count;     /* for this side's QP */
	uint8_t target_ack_delay;    /* REP only */
	uint8_t ack_timeout;         /* REQ only: of the primary path */
	enum ibv_mtu mtu;            /* REQ only */
	uint16_t pkey;               /* REQ only: the partition of the connection */
	bool flow_control, srq;
	uint32_t ece_vendor_id, ece_options;
};

/* Valid during the call. */
struct vb_cm_event {
	enum vb_cm_event_type type;
	int status;      /* -errno or 0 */
	unsigned reason; /* REJECTED (or DISCONNECTED by a REJ): enum vb_cm_reason */
	struct vb_cm_endpoint *listener;     /* REQ_RECEIVED, SIDR_REQ_RECEIVED */
	const struct vb_cm_route *route;     /* of the endpoint */
	const struct vb_cm_message *message; /* the message that caused the event, or NULL */
	struct vb_cm_peer peer;              /* REQ_RECEIVED, REP_RECEIVED */
	bool has_ip;                         /* REQ_RECEIVED, SIDR_REQ_RECEIVED: ip is valid */
	struct vb_cm_ip ip;
	uint8_t sidr_status; /* SIDR_REP_RECEIVED: enum vb_cm_sidr_status */
	uint32_t sidr_qpn, sidr_qkey;
	/* The whole field after the IP header, if there is one; NULL: the message has no field. */
	const uint8_t *private_data;
	uint8_t private_data_size;
};

/* An InfiniBand port of this host. */
struct vb_cm_port {
	union ibv_gid gid;
	uint16_t lid;
};

/* These functions must not call the connection manager. */
struct vb_cm_ops {
	void (*send)(void *arg, const struct vb_cm_route *route,
		     const struct vb_cm_message *message);
	void (*event)(void *arg, struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event);
	/*
	 * Gives memory, which need not be initialised, for the endpoint of a request at this
	 * listener. The event follows at once. NULL: the request is dropped, and comes again.
	 */
	struct vb_cm_endpoint *(*incoming)(void *arg, struct vb_cm_endpoint *listener);
	/* The peer of a REQ asked for time; its id is endpoint->mra_id. May be NULL. */
	void (*waits)(void *arg, struct vb_cm_endpoint *endpoint);
	/* Is that an address of this host? Loopback addresses are. */
	bool (*gid_is_local)(void *arg, const union ibv_gid *gid);
	/* InfiniBand: does the port with this address have this LID? NULL: no port has a LID. */
	bool (*lid_is)(void *arg, uint16_t lid, const struct vb_cm_route *route,
		       const union ibv_gid *address);
	/* The InfiniBand port of this host; false or NULL: there is none. */
	bool (*port)(void *arg, struct vb_cm_port *port);
	/* Is the port in the partition of this P_Key? NULL: only the default partition counts. */
	bool (*in_partition)(void *arg, uint16_t pkey);
	/* Unpredictable bits. */
	uint64_t (*random)(void *arg);
};

/* The reasons why a message changed nothing. */
enum vb_cm_drop {
	VB_CM_DROP_NO_ENDPOINT, /* no endpoint has the id; some messages get an answer */
	VB_CM_DROP_STATE,       /* the state of the endpoint does not allow the message */
	VB_CM_DROP_DUPLICATE,   /* a copy; some copies are answered again */
	VB_CM_DROP_ADDRESS,     /* wrong source or destination address */
	VB_CM_DROP_MALFORMED,   /* values that no message may have */
	VB_CM_DROP_QPN,         /* a DREQ for another QP */
	VB_CM_DROP_PKEY,
	VB_CM_DROP_SERVICE,   /* no listener, or one for QPs of another type */
	VB_CM_DROP_STALE,     /* the peer's id or QP belongs to an older connection */
	VB_CM_DROP_BACKLOG,   /* the backlog of the listener is full */
	VB_CM_DROP_RESOURCES, /* no memory, or too many endpoints */
	VB_CM_DROPS,
};

enum { VB_CM_ATTRIBUTES = VB_CM_APR - VB_CM_REQ + 1 };

struct vb_cm_counters {
	/* Indexed by attribute - VB_CM_REQ. */
	uint64_t sent[VB_CM_ATTRIBUTES], resent[VB_CM_ATTRIBUTES];
	uint64_t received[VB_CM_ATTRIBUTES], duplicates[VB_CM_ATTRIBUTES];
	uint64_t drops[VB_CM_DROPS];
};

enum {
	VB_CM_BACKLOG_MAX = 1024,
	VB_CM_ENDPOINTS_MAX = 1 << 18, /* a quarter of the ids of one slot */
	VB_CM_ORPHANS_MAX = 4096,
};

/* Endpoints by the hash of a key; the caller compares the keys themselves. */
struct vb_cm_table {
	struct vb_list *buckets; /* owned */
	uint32_t mask, count;
};

/* The place of an endpoint in a table. An empty list: the endpoint is not in the table. */
struct vb_cm_node {
	struct vb_list list;
	uint32_t hash;
};

/* Callers read only the counters. */
struct vb_cm {
	const struct vb_cm_ops *ops;
	void *arg;
	uint32_t slot;
	uint64_t secret; /* key of the hashes */
	/* Ids are a permutation of a counter: no id returns soon, and none reveals the next one. */
	uint32_t id_count, id_mask[2], id_factor[2];
	struct vb_cm_table by_local_id, by_remote_id, by_remote_qpn, by_local_qpn, by_service;
	struct vb_timers timers;
	uint32_t endpoint_count; /* endpoints with a timer */
	uint32_t orphan_count;
	struct vb_list orphans;
	uint64_t now_ns; /* the time argument of the current call */
	struct vb_cm_counters counters;
};

/* Callers may read the fields that say so; the others belong to the connection manager. */
struct vb_cm_endpoint {
	/* In the listener's children, or with other orphans. First: tools that look for leaks find
	 * an orphan by its neighbours. */
	struct vb_list sibling;
	enum vb_cm_state state; /* readable */
	struct vb_cm *cm;
	struct vb_cm_route route;       /* readable */
	uint32_t local_id, remote_id;   /* readable; 0: none yet */
	uint32_t local_qpn, remote_qpn; /* readable */
	uint32_t rq_psn;        /* readable: the first PSN of the peer, for this side's QP */
	uint64_t service_id;    /* readable */
	struct vb_cm_peer peer; /* readable after REQ_RECEIVED or REP_RECEIVED */
	union ibv_gid host;     /* route.remote; zero for every address of this host */
	uint64_t local_guid, transaction_id;

	/* Listeners. */
	enum vb_cm_family family;
	union ibv_gid address;
	uint32_t scope;
	uint32_t backlog;
	enum ibv_qp_type takes;  /* the QP type of requests; UD: SIDR_REQs; 0: any */
	uint32_t half_open;      /* requests before vb_cm_taken */
	struct vb_list children; /* the endpoints of these requests */

	/* Children, while they count against the backlog. */
	struct vb_cm_endpoint *listener;

	/* The message to repeat: until an answer comes, or when the peer repeats its own. */
	struct vb_cm_message message;
	uint64_t resend_after_ns, resend_cap_ns;
	uint8_t resends, resends_max;
	uint8_t stale_tries;            /* new REQs after a REJ 10 */
	uint32_t mra_id;                /* readable: the peer's id, if only an MRA has told it */
	uint8_t cm_timeout, cm_retries; /* of the REQ; for messages to the peer */
	bool orphan;                    /* the connection manager owns the memory; no events */
	bool asked_for_time;            /* an MRA was sent: the peer does not repeat for long */
	bool disconnecting;             /* the DREQ follows once the connection is established */
	bool never_was;                 /* in timewait: there was no connection, so no event */
	bool infiniband;                /* the primary path is between InfiniBand ports */
	/* The last LAP of the peer: its transaction, its progress, the answer. */
	uint64_t lap_id;
	enum { VB_CM_LAP_NONE, VB_CM_LAP_ASKED, VB_CM_LAP_ANSWERED } lap;
	uint8_t apr_status;
	uint64_t probe_id; /* transaction of the last probe; 0: none */
	/* The end of the connection while the active side readied its QP. */
	enum { VB_CM_NOT_OVER, VB_CM_REFUSED, VB_CM_DISCONNECTED } over;

	struct vb_timer timer;
	bool timed; /* cm->endpoint_count counts the endpoint */
	struct vb_cm_node in_local_id, in_remote_id, in_remote_qpn, in_local_qpn, in_service;
};

/* slot: the upper 12 bits of all ids, 1 to 4095. -ENOMEM. */
int vb_cm_init(struct vb_cm *cm, uint32_t slot, const struct vb_cm_ops *ops, void *arg);
/* The caller has destroyed all endpoints, or never uses them again. Sends nothing. */
void vb_cm_fini(struct vb_cm *cm);

/* A message has arrived by this route. Messages without use are counted. */
void vb_cm_input(struct vb_cm *cm, const struct vb_cm_route *route,
		 const struct vb_cm_message *message, uint64_t now_ns);
/* Does everything that is due. */
void vb_cm_tick(struct vb_cm *cm, uint64_t now_ns);
/* The time of the next tick; VB_NEVER_NS: never. Every other call may change it. */
uint64_t vb_cm_next_ns(const struct vb_cm *cm);

/* Before the first use of a listener or an active endpoint. */
void vb_cm_endpoint_init(struct vb_cm *cm, struct vb_cm_endpoint *endpoint);
/* In any state. The peer hears the same message as from Linux; see destroy.c. */
void vb_cm_destroy(struct vb_cm_endpoint *endpoint, uint64_t now_ns);
/* Ends the endpoint without a message and without an orphan. */
void vb_cm_forget(struct vb_cm_endpoint *endpoint);

/*
 * address: zero is the wildcard of the family. backlog 0 means VB_CM_BACKLOG_MAX, and so does any
 * larger number. -EADDRINUSE: another endpoint listens with the same parameters.
 */
struct vb_cm_listen_params {
	uint64_t service_id;
	enum vb_cm_family family; /* VB_CM_DUAL also for service ids that have no IP address */
	union ibv_gid address;
	uint32_t scope;
	uint32_t backlog;
	enum ibv_qp_type qp_type; /* other QP types are refused; 0: any */
};
int vb_cm_listen(struct vb_cm_endpoint *endpoint, const struct vb_cm_listen_params *params);
/* The application has got the request, which no longer counts against the backlog. */
void vb_cm_taken(struct vb_cm_endpoint *endpoint);

struct vb_cm_connect_params {
	struct vb_cm_route route;
	const struct vb_cm_path *primary;   /* between InfiniBand ports; NULL: RoCE */
	const struct vb_cm_path *alternate; /* NULL: none */
	uint64_t service_id, ca_guid;
	uint32_t qpn;
	enum ibv_qp_type qp_type; /* RC, UC or XRC_SEND */
	bool srq, flow_control;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count; /* at most 7 each */
	enum ibv_mtu mtu;
	uint16_t pkey;                  /* 0: 0xffff */
	uint8_t ack_timeout, hop_limit; /* 0: 19 and 64, the defaults of Linux */
	uint32_t flow_label;
	uint32_t ece_vendor_id, ece_options;
	const struct vb_cm_ip *ip; /* NULL: no IP header, and 92 bytes of private data */
	const void *private_data;  /* at most 56 bytes after the IP header */
	uint8_t private_data_length;
};
int vb_cm_connect(struct vb_cm_endpoint *endpoint, const struct vb_cm_connect_params *params,
		  uint64_t now_ns);

struct vb_cm_accept_params {
	uint64_t ca_guid;
	uint32_t qpn;
	bool srq, flow_control;
	uint8_t responder_resources, initiator_depth;
	uint8_t rnr_retry_count, target_ack_delay; /* delay 0: 15, the default of Linux */
	uint32_t ece_vendor_id, ece_options;
	const void *private_data; /* at most 196 bytes */
	uint8_t private_data_length;
};
int vb_cm_accept(struct vb_cm_endpoint *endpoint, const struct vb_cm_accept_params *params,
		 uint64_t now_ns);

/* Rejects a request, or the REP at the active side. The caller then destroys the endpoint. */
int vb_cm_reject(struct vb_cm_endpoint *endpoint, enum vb_cm_reason reason, const void *info,
		 uint8_t info_length, const void *private_data, uint8_t private_data_length,
		 uint64_t now_ns);
/*
 * After REP_RECEIVED: sends RTU. -ENOTCONN: the peer refused meanwhile, and REJECTED was raised. 0
 * without an RTU: the peer disconnected meanwhile, and DISCONNECTED was raised.
 */
int vb_cm_establish(struct vb_cm_endpoint *endpoint, uint64_t now_ns);
/* Data at the QP of an accepted connection prove as much as an RTU. -EISCONN, -EINVAL. */
int vb_cm_notify(struct vb_cm_endpoint *endpoint, uint64_t now_ns);
/* The same for the endpoint with this QPN. */
void vb_cm_data_arrived(struct vb_cm *cm, uint32_t qpn, uint64_t now_ns);
/* Sends the DREQ, or answers that of the peer. 0 also if the connection is ending or over. */
int vb_cm_disconnect(struct vb_cm_endpoint *endpoint, uint64_t now_ns);
/* A process of this host is dead: its connections end. Looks at every endpoint. */
void vb_cm_slot_died(struct vb_cm *cm, uint32_t slot, uint64_t now_ns);
/* The slots that peers on this host name in their ids. Looks at every endpoint. */
enum { VB_CM_SLOTS = 1 << 12 };
void vb_cm_slots_met(const struct vb_cm *cm, bool met[VB_CM_SLOTS]);
/* No process is left on another host: connections end, and requests are UNREACHABLE. */
void vb_cm_host_died(struct vb_cm *cm, const union ibv_gid *gid, uint64_t now_ns);
/*
 * Makes a message that asks whether the peer of a connection still exists. A peer that has the
 * connection ignores the message. Any other process answers, and then the connection ends, or the
 * REQ or REP that had no answer goes out again. The probe of an unanswered message is that message
 * itself. The caller sends the probe. False: there is nothing to ask about.
 */
bool vb_cm_probe(struct vb_cm_endpoint *endpoint, struct vb_cm_message *probe);

/* After LAP_RECEIVED: whether the path was loaded. -EINVAL: no LAP waits for an answer. */
int vb_cm_lap_answer(struct vb_cm_endpoint *endpoint, enum vb_cm_apr_status status,
		     uint64_t now_ns);

struct vb_cm_sidr_params {
	struct vb_cm_route route;
	uint64_t service_id;
	uint16_t pkey;             /* 0: 0xffff */
	const struct vb_cm_ip *ip; /* NULL: no IP header, and 216 bytes of private data */
	const void *private_data;  /* at most 180 bytes */
	uint8_t private_data_length;
};
int vb_cm_sidr_request(struct vb_cm_endpoint *endpoint, const struct vb_cm_sidr_params *params,
		       uint64_t now_ns);

struct vb_cm_sidr_reply_params {
	enum vb_cm_sidr_status status;
	uint32_t qpn, qkey;
	uint32_t ece_vendor_id, ece_options;
	const void *private_data; /* at most 136 bytes */
	uint8_t private_data_length;
};
/* The caller may then destroy the endpoint; copies of the request still get the answer. */
int vb_cm_sidr_reply(struct vb_cm_endpoint *endpoint, const struct vb_cm_sidr_reply_params *params,
		     uint64_t now_ns);

const char *vb_cm_state_name(enum vb_cm_state state);
const char *vb_cm_event_name(enum vb_cm_event_type type);
const char *vb_cm_drop_name(enum vb_cm_drop drop);

#endif
