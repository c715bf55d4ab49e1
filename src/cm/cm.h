/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager's protocol (IBA chapter 12) for all endpoints of one process. It does no
 * I/O and reads no clock: messages and the time are arguments, messages go out and events come out
 * through struct vb_cm_ops. One lock of the caller's protects all of it.
 *
 *   active:   connect -> REP_RECEIVED, caller readies its QP, establish -> connected
 *   passive:  REQ_RECEIVED, accept or reject -> ESTABLISHED
 *   both:     disconnect, or the peer does -> DISCONNECTED, disconnect -> TIMEWAIT_EXIT
 *   datagram: sidr_request -> SIDR_REP_RECEIVED; SIDR_REQ_RECEIVED, sidr_reply
 *
 * An endpoint is memory of the caller's; destroy takes it out in any state and says to the peer
 * what has to be said. No event comes for it after that. What has to be repeated, or answered once
 * more, goes on in a copy that belongs to the connection manager (an orphan).
 *
 * Functions return 0 or -errno. -EINVAL: not in this state, or private data longer than its field.
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

/* Between which addresses messages go; as we see it. IPv4 addresses are mapped. */
struct vb_cm_route {
	union ibv_gid local, remote;
	uint32_t scope; /* interface index where remote is link-local, else 0 */
	uint32_t user; /* whose process of this host that is, 1 + uid; 0: not known, another host */
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
	VB_CM_REJECTED, /* by us: the REJ is said again to whoever did not hear it */
	VB_CM_SIDR_REQ_SENT,
	VB_CM_SIDR_REQ_RECEIVED,
	VB_CM_SIDR_REP_SENT,
	VB_CM_STATES,
};

enum vb_cm_event_type {
	/* Passive: accept or reject it. The endpoint is the one that ops->incoming gave. */
	VB_CM_EVENT_REQ_RECEIVED,
	/* Active: the peer accepted. Bring the QP to RTS, then vb_cm_establish or vb_cm_reject. */
	VB_CM_EVENT_REP_RECEIVED,
	/* Passive: the peer is ready. (The active side is with vb_cm_establish.) */
	VB_CM_EVENT_ESTABLISHED,
	/* The connection was refused, by either side before it was established: event->reason. */
	VB_CM_EVENT_REJECTED,
	/* Nobody answered a REQ, a REP or a SIDR_REQ: event->status is -ETIMEDOUT. */
	VB_CM_EVENT_UNREACHABLE,
	/* Once, after ESTABLISHED or establish: by the peer, by us, or it answers no more. */
	VB_CM_EVENT_DISCONNECTED,
	/* Nothing of the connection is on its way any more; the endpoint is idle. */
	VB_CM_EVENT_TIMEWAIT_EXIT,
	/* Passive: answer with vb_cm_sidr_reply. */
	VB_CM_EVENT_SIDR_REQ_RECEIVED,
	/* Active: event->sidr_status says if there is a QP; the endpoint is idle again. */
	VB_CM_EVENT_SIDR_REP_RECEIVED,
	/* The peer wants the alternate path in the message; answer with vb_cm_lap_answer. */
	VB_CM_EVENT_LAP_RECEIVED,
	VB_CM_EVENTS,
};

/* What the peer says about its QP, and what it means for ours: already turned round. */
struct vb_cm_peer {
	uint64_t ca_guid;
	uint32_t qpn;
	enum ibv_qp_type qp_type;    /* RC, UC or XRC_SEND: of whoever sent the REQ */
	uint32_t sq_psn;             /* ours: the peer expects it first */
	uint8_t responder_resources; /* at our side: what the peer will ask for at once */
	uint8_t initiator_depth;     /* at our side: what the peer can answer at once */
	uint8_t retry_count;         /* REQ only: for our QP */
	uint8_t rnr_retry_count;     /* for our QP */
	uint8_t target_ack_delay;    /* REP only */
	uint8_t ack_timeout;         /* REQ only: of the primary path */
	enum ibv_mtu mtu;            /* REQ only */
	uint16_t pkey;               /* REQ only: in which partition it asks */
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
	const struct vb_cm_message *message; /* that caused it; NULL: none did */
	struct vb_cm_peer peer;              /* REQ_RECEIVED, REP_RECEIVED */
	bool has_ip;                         /* REQ_RECEIVED, SIDR_REQ_RECEIVED: ip is valid */
	struct vb_cm_ip ip;
	uint8_t sidr_status; /* SIDR_REP_RECEIVED: enum vb_cm_sidr_status */
	uint32_t sidr_qpn, sidr_qkey;
	/* The whole field, behind the IP header if there is one; NULL: the message has none. */
	const uint8_t *private_data;
	uint8_t private_data_size;
};

/* An InfiniBand port of this host. */
struct vb_cm_port {
	union ibv_gid gid;
	uint16_t lid;
};

/* They must not call back into the connection manager. */
struct vb_cm_ops {
	void (*send)(void *arg, const struct vb_cm_route *route,
		     const struct vb_cm_message *message);
	void (*event)(void *arg, struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event);
	/*
	 * Memory for the endpoint of a request at this listener; it need not be initialised, and
	 * its event follows at once. NULL: none, the request is dropped and will come again.
	 */
	struct vb_cm_endpoint *(*incoming)(void *arg, struct vb_cm_endpoint *listener);
	/* The peer of a REQ asked for time, endpoint->mra_id is its. NULL: that is of no interest. */
	void (*waits)(void *arg, struct vb_cm_endpoint *endpoint);
	/* An address of this host, loopback included. */
	bool (*gid_is_local)(void *arg, const union ibv_gid *gid);
	/* InfiniBand: is that the LID of the port with this address? NULL: there is none. */
	bool (*lid_is)(void *arg, uint16_t lid, const struct vb_cm_route *route,
		       const union ibv_gid *address);
	/* The InfiniBand port of this host; false: it has none. Or NULL. */
	bool (*port)(void *arg, struct vb_cm_port *port);
	/* The port is in the partition of this P_Key. NULL: in the default one alone. */
	bool (*in_partition)(void *arg, uint16_t pkey);
	/* Unpredictable bits. */
	uint64_t (*random)(void *arg);
};

/* Why a message changed nothing. */
enum vb_cm_drop {
	VB_CM_DROP_NO_ENDPOINT, /* nobody has that id; it may have got the answer of a stray */
	VB_CM_DROP_STATE,       /* out of place in the state of its endpoint */
	VB_CM_DROP_DUPLICATE,   /* seen before; some are answered again */
	VB_CM_DROP_ADDRESS,     /* not from, or not to, the addresses that it should be */
	VB_CM_DROP_MALFORMED,   /* values that no message may have */
	VB_CM_DROP_QPN,         /* a DREQ for another QP */
	VB_CM_DROP_PKEY,
	VB_CM_DROP_SERVICE,   /* no listener, or one for QPs of another type */
	VB_CM_DROP_STALE,     /* the peer's id or QP belongs to an older connection */
	VB_CM_DROP_BACKLOG,   /* the listener has as many as it wants */
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
	VB_CM_ENDPOINTS_MAX = 1 << 18, /* a quarter of the ids that one slot has */
	VB_CM_ORPHANS_MAX = 4096,
};

/* Endpoints by a key; the key is compared by who looks. */
struct vb_cm_table {
	struct vb_list *buckets; /* owned */
	uint32_t mask, count;
};

/* An endpoint's place in a table; in none if it points to itself. */
struct vb_cm_node {
	struct vb_list list;
	uint32_t hash;
};

/* Opaque to callers but for counters. */
struct vb_cm {
	const struct vb_cm_ops *ops;
	void *arg;
	uint32_t slot;
	uint64_t secret; /* of the hashes */
	/* Ids are a permutation of a counter: none comes again soon, none tells the next one. */
	uint32_t id_count, id_mask[2], id_factor[2];
	struct vb_cm_table by_local_id, by_remote_id, by_remote_qpn, by_local_qpn, by_service;
	struct vb_timers timers;
	uint32_t endpoint_count; /* that hold an id or a timer */
	uint32_t orphan_count;
	struct vb_list orphans;
	uint64_t now_ns; /* of the call that is under way */
	struct vb_cm_counters counters;
};

/* What may be read from outside is said; the rest belongs to the connection manager. */
struct vb_cm_endpoint {
	enum vb_cm_state state; /* readable */
	struct vb_cm *cm;
	struct vb_cm_route route;       /* readable */
	uint32_t local_id, remote_id;   /* readable; 0: none (yet) */
	uint32_t local_qpn, remote_qpn; /* readable */
	uint32_t rq_psn; /* readable: what we tell the peer to begin with, for our QP's rq_psn */
	uint64_t service_id;    /* readable */
	struct vb_cm_peer peer; /* readable after REQ_RECEIVED or REP_RECEIVED */
	union ibv_gid host;     /* route.remote, or zero for this host, whatever its address */
	uint64_t local_guid, transaction_id;

	/* Listeners. */
	enum vb_cm_family family;
	union ibv_gid address;
	uint32_t scope;
	uint32_t backlog;
	enum ibv_qp_type takes;  /* QPs of this type ask for connections; UD: for a QP; 0: any */
	uint32_t half_open;      /* requests that vb_cm_taken was not called for */
	struct vb_list children; /* those endpoints */

	/* Of children, while they count against the backlog. Orphans are among themselves. */
	struct vb_cm_endpoint *listener;
	struct vb_list sibling;

	/* What is said again: until it is answered, or when the peer repeats itself. */
	struct vb_cm_message message;
	uint64_t resend_after_ns, resend_cap_ns;
	uint8_t resends, resends_max;
	uint8_t stale_tries;            /* REQs that were made anew after a REJ 10 */
	uint32_t mra_id;                /* readable: the peer's id, known from its MRA only */
	uint8_t cm_timeout, cm_retries; /* of the REQ, for what is sent to the peer */
	bool orphan;                    /* memory of the connection manager's; no events */
	bool asked_for_time;            /* by an MRA: the peer does not repeat itself for long */
	bool disconnecting;             /* as soon as it is established */
	bool never_was;                 /* in timewait: there was no connection, so no event */
	bool infiniband;                /* its primary path is between InfiniBand ports */
	/* The last LAP of the peer: its transaction, how far it is, what was answered. */
	uint64_t lap_id;
	enum { VB_CM_LAP_NONE, VB_CM_LAP_ASKED, VB_CM_LAP_ANSWERED } lap;
	uint8_t apr_status;
	uint64_t probe_id; /* transaction of the last probe; 0: none */
	/* What happened while the active side readied its QP. */
	enum { VB_CM_NOT_OVER, VB_CM_REFUSED, VB_CM_DISCONNECTED } over;

	struct vb_timer timer;
	bool timed; /* counted in cm->endpoint_count */
	struct vb_cm_node in_local_id, in_remote_id, in_remote_qpn, in_local_qpn, in_service;
};

/* slot: the upper 12 bits of all ids, 1 to 4095. -ENOMEM. */
int vb_cm_init(struct vb_cm *cm, uint32_t slot, const struct vb_cm_ops *ops, void *arg);
/* All endpoints are destroyed, or their memory is not used any more; nothing is sent. */
void vb_cm_fini(struct vb_cm *cm);

/* A message that arrived; route as it came. Never fails: what it cannot use it counts. */
void vb_cm_input(struct vb_cm *cm, const struct vb_cm_route *route,
		 const struct vb_cm_message *message, uint64_t now_ns);
/* What is due by now. */
void vb_cm_tick(struct vb_cm *cm, uint64_t now_ns);
/* When the next tick is due, not later; VB_NEVER_NS: never. It may move with every call. */
uint64_t vb_cm_next_ns(const struct vb_cm *cm);

/* Before its first use; a listener or an active endpoint. */
void vb_cm_endpoint_init(struct vb_cm *cm, struct vb_cm_endpoint *endpoint);
/* In any state. What it does to the peer is that of Linux; see destroy.c. */
void vb_cm_destroy(struct vb_cm_endpoint *endpoint, uint64_t now_ns);
/* Nothing is sent and nothing lingers: the device is gone, or the process was forked. */
void vb_cm_forget(struct vb_cm_endpoint *endpoint);

/*
 * address: zero is the wildcard of the family. backlog 0: VB_CM_BACKLOG_MAX, which is also the
 * most. -EADDRINUSE: another endpoint listens to exactly that.
 */
struct vb_cm_listen_params {
	uint64_t service_id;
	enum vb_cm_family family; /* VB_CM_DUAL also for service ids that have no IP address */
	union ibv_gid address;
	uint32_t scope;
	uint32_t backlog;
	enum ibv_qp_type
		qp_type; /* of the endpoints to be; requests of others are refused. 0: any */
};
int vb_cm_listen(struct vb_cm_endpoint *endpoint, const struct vb_cm_listen_params *params);
/* The application has got the request: it does not count against the backlog any more. */
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
	uint8_t ack_timeout, hop_limit; /* 0: 19 and 64, as Linux says */
	uint32_t flow_label;
	uint32_t ece_vendor_id, ece_options;
	const struct vb_cm_ip *ip; /* NULL: no IP header, and 92 bytes of private data */
	const void *private_data;  /* at most 56 bytes behind the IP header */
	uint8_t private_data_length;
};
int vb_cm_connect(struct vb_cm_endpoint *endpoint, const struct vb_cm_connect_params *params,
		  uint64_t now_ns);

struct vb_cm_accept_params {
	uint64_t ca_guid;
	uint32_t qpn;
	bool srq, flow_control;
	uint8_t responder_resources, initiator_depth;
	uint8_t rnr_retry_count, target_ack_delay; /* 0: 15, as Linux says */
	uint32_t ece_vendor_id, ece_options;
	const void *private_data; /* at most 196 bytes */
	uint8_t private_data_length;
};
int vb_cm_accept(struct vb_cm_endpoint *endpoint, const struct vb_cm_accept_params *params,
		 uint64_t now_ns);

/* A request, or a REP that the active side does not like. Then it is to be destroyed. */
int vb_cm_reject(struct vb_cm_endpoint *endpoint, enum vb_cm_reason reason, const void *info,
		 uint8_t info_length, const void *private_data, uint8_t private_data_length,
		 uint64_t now_ns);
/*
 * After REP_RECEIVED: says RTU. -ENOTCONN: it was refused meanwhile, and the event is out. 0 and
 * nothing happens if the peer disconnected meanwhile: that was a connection, DISCONNECTED is out.
 */
int vb_cm_establish(struct vb_cm_endpoint *endpoint, uint64_t now_ns);
/* Data arrived at the QP of an accepted connection: as good as RTU. -EISCONN, -EINVAL. */
int vb_cm_notify(struct vb_cm_endpoint *endpoint, uint64_t now_ns);
/* The same by QPN, for whichever endpoint has it. */
void vb_cm_data_arrived(struct vb_cm *cm, uint32_t qpn, uint64_t now_ns);
/* The first word about the end, or the answer to the peer's. 0 also if it is going on or over. */
int vb_cm_disconnect(struct vb_cm_endpoint *endpoint, uint64_t now_ns);
/* A process of this host is dead: its connections are disconnected. A look at every endpoint. */
void vb_cm_slot_died(struct vb_cm *cm, uint32_t slot, uint64_t now_ns);
/* In which slots of this host peers of endpoints say that they are. A look at every endpoint. */
enum { VB_CM_SLOTS = 1 << 12 };
void vb_cm_slots_met(const struct vb_cm *cm, bool met[VB_CM_SLOTS]);
/* The same for another host on which nobody is left; who waits for an answer has waited enough. */
void vb_cm_host_died(struct vb_cm *cm, const union ibv_gid *gid, uint64_t now_ns);
/*
 * A message that asks whether the other side of a connection still exists: who has it ignores the
 * message, whoever has not answers, and the connection is disconnected; a REP, or a REQ that its
 * receiver asked for time for, is said again. Of a request that nobody answered it is the request.
 * The caller sends it. false: there is nothing to ask about.
 */
bool vb_cm_probe(struct vb_cm_endpoint *endpoint, struct vb_cm_message *probe);

/* After LAP_RECEIVED: the path was loaded, or why not. -EINVAL: nobody waits for it. */
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
/* Then the endpoint may be destroyed; a request that comes again still gets its answer. */
int vb_cm_sidr_reply(struct vb_cm_endpoint *endpoint, const struct vb_cm_sidr_reply_params *params,
		     uint64_t now_ns);

const char *vb_cm_state_name(enum vb_cm_state state);
const char *vb_cm_event_name(enum vb_cm_event_type type);
const char *vb_cm_drop_name(enum vb_cm_drop drop);

#endif
