/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the connection manager. */
#ifndef VB_CM_IMPL_H
#define VB_CM_IMPL_H

#include <string.h>

#include "base/clock.h"
#include "cm/cm.h"
#include "wire/gsi_datagram.h"

#define VB_CM_MS_NS 1000000ull

/*
 * Linux repeats a message after 4.096 us * 2^20, so a lost message costs four seconds there. The
 * first waits are shorter here. The last try comes when that of Linux does.
 */
#define VB_CM_RESEND_FIRST_NS (50 * VB_CM_MS_NS)
/* A peer may ask for shorter waits, but it may just have got no CPU for that long. */
#define VB_CM_RESEND_CAP_MIN_NS (200 * VB_CM_MS_NS)
/*
 * Packets of a connection may still arrive for this long after its end. Linux waits about two
 * seconds, but no network for RDMA holds a packet for half a second. Later messages are strays, and
 * get the answer of a stray.
 */
#define VB_CM_TIMEWAIT_NS (500 * VB_CM_MS_NS)
/*
 * A copy of a request gets the same answer for this long; later it would be a new request. A peer
 * repeats sooner: Linux after 4.3 s, this implementation after one and a half times that.
 */
#define VB_CM_ANSWER_KEPT_NS (7000 * VB_CM_MS_NS)

enum {
	VB_CM_TIMEOUT_EXPONENT = 20, /* both CM response timeouts of the REQs sent here */
	VB_CM_TIMEOUT_MAX = 21,      /* of received REQs; a slower peer can send an MRA */
	VB_CM_RETRIES = 15,
	VB_CM_SERVICE_EXPONENT = 24, /* of the MRAs sent here, and the limit for received ones */
	VB_CM_ACK_TIMEOUT = 19,
	VB_CM_HOP_LIMIT = 64,
	VB_CM_TARGET_ACK_DELAY = 15,
	VB_CM_PKEY = 0xffff,
	VB_CM_STALE_TRIES = 3,
	VB_CM_REJ_REPEATS = 8, /* of a REJ after a REP: the peer may never send again */
	VB_CM_MRA_REPEATS = 3, /* of a REJ or RTU after an MRA: the peer is silent for a minute */
};

/* --- table.c --- */

int vb_cm_table_init(struct vb_cm_table *table);
void vb_cm_table_fini(struct vb_cm_table *table);
void vb_cm_table_add(struct vb_cm_table *table, struct vb_cm_node *node, uint32_t hash);
/* Does nothing if the node is in no table. */
void vb_cm_table_remove(struct vb_cm_table *table, struct vb_cm_node *node);
static inline struct vb_list *vb_cm_bucket(struct vb_cm_table *table, uint32_t hash)
{
	return &table->buckets[hash & table->mask];
}

/* --- lookup.c: tables of endpoints. An endpoint may be in each table once --- */

/* The host that a GID stands for: zero for every address of this host, else the GID. */
union ibv_gid vb_cm_host(struct vb_cm *cm, const union ibv_gid *gid);
bool vb_cm_host_is(struct vb_cm *cm, const struct vb_cm_endpoint *endpoint,
		   const union ibv_gid *gid);
static inline bool vb_cm_gid_equal(const union ibv_gid *a, const union ibv_gid *b)
{
	return !memcmp(a, b, sizeof(*a));
}

void vb_cm_file_local_id(struct vb_cm_endpoint *endpoint); /* gives it an id */
void vb_cm_file_remote_id(struct vb_cm_endpoint *endpoint);
void vb_cm_file_remote_qpn(struct vb_cm_endpoint *endpoint);
void vb_cm_file_local_qpn(struct vb_cm_endpoint *endpoint);
void vb_cm_file_service(struct vb_cm_endpoint *endpoint);
/* Takes the endpoint out of all tables. */
void vb_cm_unfile(struct vb_cm_endpoint *endpoint);
/* Takes the endpoint out of the tables of QPNs; its ids stay known. */
void vb_cm_unfile_qpns(struct vb_cm_endpoint *endpoint);

struct vb_cm_endpoint *vb_cm_find_local_id(struct vb_cm *cm, uint32_t id);
/* sidr: id is a request id, not a comm id. */
struct vb_cm_endpoint *vb_cm_find_remote_id(struct vb_cm *cm, const union ibv_gid *host,
					    uint32_t id, bool sidr);
struct vb_cm_endpoint *vb_cm_find_remote_qpn(struct vb_cm *cm, const union ibv_gid *host,
					     uint32_t qpn);
struct vb_cm_endpoint *vb_cm_find_local_qpn(struct vb_cm *cm, uint32_t qpn);
struct vb_cm_endpoint *vb_cm_find_service(struct vb_cm *cm, uint64_t service_id,
					  const union ibv_gid *address, uint32_t scope);

/* The endpoint that listens with these parameters. */
struct vb_cm_endpoint *vb_cm_find_listener(struct vb_cm *cm,
					   const struct vb_cm_listen_params *params);

/* --- endpoint.c: resources, messages and events of an endpoint --- */

/* Reserves a timer, before the endpoint sends its first message. */
int vb_cm_enroll(struct vb_cm_endpoint *endpoint);
/* The inverse: the endpoint is idle and in no table. */
void vb_cm_retire(struct vb_cm_endpoint *endpoint);
/* Retires the endpoint and raises the event, if there is one. Frees an orphan. */
void vb_cm_finish(struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event);
/* The endpoint no longer counts against the backlog of its listener. */
void vb_cm_leave_listener(struct vb_cm_endpoint *endpoint);

struct vb_cm_event vb_cm_event(struct vb_cm_endpoint *endpoint, enum vb_cm_event_type type,
			       const struct vb_cm_message *message);
void vb_cm_raise(struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event);
/* The same for a request at a listener. ip: the IP header in front of its private data, or NULL. */
void vb_cm_raise_incoming(struct vb_cm_endpoint *endpoint, struct vb_cm_event *event,
			  struct vb_cm_endpoint *listener, const struct vb_cm_ip *ip);

void vb_cm_drop(struct vb_cm *cm, enum vb_cm_drop reason);
/* Is this host in the partition of this P_Key? */
bool vb_cm_in_partition(const struct vb_cm *cm, uint16_t pkey);
void vb_cm_duplicate(struct vb_cm *cm, const struct vb_cm_message *message);
/* Copies data into a field and zeroes the rest. -EINVAL: the data do not fit. */
int vb_cm_fill(uint8_t *field, size_t size, const void *data, size_t length);

void vb_cm_answer(struct vb_cm *cm, const struct vb_cm_route *route,
		  const struct vb_cm_message *message);
void vb_cm_say(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message);
/* Sends endpoint->message once more. */
void vb_cm_say_again(struct vb_cm_endpoint *endpoint);
/* Sends endpoint->message, and repeats it up to resends_max times. */
void vb_cm_say_until_answered(struct vb_cm_endpoint *endpoint, uint8_t resends_max);
void vb_cm_wait(struct vb_cm_endpoint *endpoint, uint64_t ns);
void vb_cm_wait_for_answer(struct vb_cm_endpoint *endpoint);
uint64_t vb_cm_exponent_ns(uint8_t exponent);
/* The time that an answer on the connection may take. */
uint64_t vb_cm_response_ns(const struct vb_cm_endpoint *endpoint);

/* --- reject.c --- */

struct vb_cm_message vb_cm_make_rej(const struct vb_cm_endpoint *endpoint, uint16_t reason);
/* Sends endpoint->message, a REJ, and keeps it for copies of the request. */
void vb_cm_rejected(struct vb_cm_endpoint *endpoint);
/* The peer refused, or counts as dead. message may be NULL. */
void vb_cm_refused(struct vb_cm_endpoint *endpoint, unsigned reason,
		   const struct vb_cm_message *message);
/* The peer of this endpoint uses its QP, or its id, for a new connection. */
void vb_cm_stale(struct vb_cm_endpoint *old);
/* Answers a REQ or REP with a REJ, which is not kept. */
void vb_cm_refuse(struct vb_cm *cm, const struct vb_cm_route *route,
		  const struct vb_cm_message *message, uint16_t reason, const void *info,
		  uint8_t info_length);
/* The same for a REQ whose copies might be accepted later: an orphan gives them the same answer. */
void vb_cm_refuse_for_good(struct vb_cm *cm, const struct vb_cm_route *route,
			   const struct vb_cm_message *message, uint16_t reason);

/* --- destroy.c --- */

/* A new endpoint that the connection manager owns; NULL: no memory, or too many. */
struct vb_cm_endpoint *vb_cm_orphan(struct vb_cm *cm);

/* --- end.c --- */

void vb_cm_send_dreq(struct vb_cm_endpoint *endpoint);
void vb_cm_enter_timewait(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message,
			  unsigned reason);
/* Sends the DREP that endpoint->message holds. */
void vb_cm_answer_dreq(struct vb_cm_endpoint *endpoint);
void vb_cm_timewait_exit(struct vb_cm_endpoint *endpoint);

/* --- active.c --- */

/* Gives the REQ a new id, and sends it after a while. */
void vb_cm_connect_again(struct vb_cm_endpoint *endpoint);

/* --- sidr.c --- */

void vb_cm_input_sidr_req(struct vb_cm *cm, const struct vb_cm_route *route,
			  const struct vb_cm_message *message);
void vb_cm_sidr_answer(struct vb_cm_endpoint *endpoint);

/* --- passive.c --- */

/* Sends an MRA: the peer does not repeat its request for a minute. */
void vb_cm_ask_for_time(struct vb_cm_endpoint *endpoint);

void vb_cm_establish_passive(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message);

/* --- request.c --- */

/* Does the listener take requests of this QP type? */
static inline bool vb_cm_takes(const struct vb_cm_endpoint *listener, enum ibv_qp_type type)
{
	return !listener->takes || listener->takes == type;
}

/* Makes the endpoint of a new request in this state. NULL: no room, and the drop is counted. */
struct vb_cm_endpoint *vb_cm_incoming(struct vb_cm_endpoint *listener,
				      const struct vb_cm_route *route, enum vb_cm_state state);

void vb_cm_input_req(struct vb_cm *cm, const struct vb_cm_route *route,
		     const struct vb_cm_message *message);
/* False: this host has no InfiniBand port. */
bool vb_cm_port(struct vb_cm *cm, struct vb_cm_port *port);
/* InfiniBand: does the peer's path lead from its port to that of this host? */
bool vb_cm_is_between_ports(struct vb_cm *cm, const struct vb_cm_route *route,
			    const struct vb_cm_path *path);
/*
 * Reads the IP header, and compares its addresses with those of the packet. 0, or the reason to
 * drop the request. by_gid: the request may name an InfiniBand port, and have no IP header.
 */
int vb_cm_check_addresses(struct vb_cm *cm, const struct vb_cm_route *route, uint64_t service_id,
			  const uint8_t *private_data, bool by_gid, struct vb_cm_ip *ip,
			  bool *has_ip);

/* --- timer.c --- */

/* No answer came: tells the peer and the application. */
void vb_cm_unreachable(struct vb_cm_endpoint *endpoint);

/* --- handlers of a message at its endpoint; the table in input.c chooses by state --- */

typedef void vb_cm_handler(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message);

void vb_cm_dispatch(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message);

vb_cm_handler vb_cm_on_rep, vb_cm_on_rep_again_mra, vb_cm_on_rep_again_rtu; /* active.c */
vb_cm_handler vb_cm_on_mra_req, vb_cm_on_mra_rep;                           /* timer.c */
vb_cm_handler vb_cm_on_rtu;                                                 /* passive.c */
vb_cm_handler vb_cm_on_req_again_mra, vb_cm_on_req_again_stale;             /* passive.c */
vb_cm_handler vb_cm_on_rej;                                                 /* reject.c */
vb_cm_handler vb_cm_on_dreq, vb_cm_on_dreq_early, vb_cm_on_dreq_again;      /* end.c */
vb_cm_handler vb_cm_on_dreq_crossing, vb_cm_on_dreq_waiting;                /* end.c */
vb_cm_handler vb_cm_on_drep;                                                /* end.c */
vb_cm_handler vb_cm_on_lap;                                                 /* lap.c */
vb_cm_handler vb_cm_on_drep_probe, vb_cm_on_drep_probe_early;               /* probe.c */
vb_cm_handler vb_cm_on_sidr_rep;                                            /* sidr.c */
vb_cm_handler vb_cm_on_again;      /* passive.c: sends endpoint->message again */
vb_cm_handler vb_cm_on_again_kept; /* the same, and keeps the message for longer */
vb_cm_handler vb_cm_on_duplicate;

#endif
