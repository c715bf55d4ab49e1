/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the connection manager share. */
#ifndef VB_CM_IMPL_H
#define VB_CM_IMPL_H

#include <string.h>

#include "base/clock.h"
#include "cm/cm.h"
#include "wire/gsi_datagram.h"

#define VB_CM_MS_NS 1000000ull

/*
 * Linux waits 4.096 us * 2^20 before it says something again. A message that got lost would cost
 * four seconds, so the first times we wait less; how long we go on trying is what Linux does.
 */
#define VB_CM_RESEND_FIRST_NS (50 * VB_CM_MS_NS)
/* A peer that asks for less patience than this may just not have got a CPU. */
#define VB_CM_RESEND_CAP_MIN_NS (200 * VB_CM_MS_NS)
/*
 * What of a connection can still be on its way when it is over. A network that holds a packet for
 * half a second is not one that carries RDMA; Linux waits about two. Messages that come later
 * are strays, and are answered as such.
 */
#define VB_CM_TIMEWAIT_NS (500 * VB_CM_MS_NS)
/*
 * As long as that a request that comes again gets the same answer, instead of being a new one. It is
 * more than passes between two tries of a peer: 4.3 s of Linux, half as long again of ours.
 */
#define VB_CM_ANSWER_KEPT_NS (7000 * VB_CM_MS_NS)

enum {
	VB_CM_TIMEOUT_EXPONENT = 20, /* both CM response timeouts of our REQs */
	VB_CM_TIMEOUT_MAX = 21,      /* of others: who needs longer can send an MRA */
	VB_CM_RETRIES = 15,
	VB_CM_SERVICE_EXPONENT = 24, /* in our MRAs, and the most that one may ask for */
	VB_CM_ACK_TIMEOUT = 19,
	VB_CM_HOP_LIMIT = 64,
	VB_CM_TARGET_ACK_DELAY = 15,
	VB_CM_PKEY = 0xffff,
	VB_CM_STALE_TRIES = 3,
	VB_CM_REJ_REPEATS = 8, /* of a REJ that nobody acknowledges and nobody asks for again */
	VB_CM_MRA_REPEATS = 3, /* of a REJ or RTU to a peer that will not ask again for a minute */
};

/* --- table.c --- */

int vb_cm_table_init(struct vb_cm_table *table);
void vb_cm_table_fini(struct vb_cm_table *table);
void vb_cm_table_add(struct vb_cm_table *table, struct vb_cm_node *node, uint32_t hash);
/* Also if it is not there. */
void vb_cm_table_remove(struct vb_cm_table *table, struct vb_cm_node *node);
static inline struct vb_list *vb_cm_bucket(struct vb_cm_table *table, uint32_t hash)
{
	return &table->buckets[hash & table->mask];
}

/* --- lookup.c: where endpoints are found. Each of them may be in each table once --- */

/* The one that a gid stands for: all addresses of this host are zero. */
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
/* Out of all tables. */
void vb_cm_unfile(struct vb_cm_endpoint *endpoint);
/* Its QPs are nobody's any more; its ids are still known. */
void vb_cm_unfile_qpns(struct vb_cm_endpoint *endpoint);

struct vb_cm_endpoint *vb_cm_find_local_id(struct vb_cm *cm, uint32_t id);
/* sidr: request ids and comm ids are numbers of two kinds. */
struct vb_cm_endpoint *vb_cm_find_remote_id(struct vb_cm *cm, const union ibv_gid *host,
					    uint32_t id, bool sidr);
struct vb_cm_endpoint *vb_cm_find_remote_qpn(struct vb_cm *cm, const union ibv_gid *host,
					     uint32_t qpn);
struct vb_cm_endpoint *vb_cm_find_local_qpn(struct vb_cm *cm, uint32_t qpn);
struct vb_cm_endpoint *vb_cm_find_service(struct vb_cm *cm, uint64_t service_id,
					  const union ibv_gid *address, uint32_t scope);

/* The one that listens to exactly that. */
struct vb_cm_endpoint *vb_cm_find_listener(struct vb_cm *cm,
					   const struct vb_cm_listen_params *params);

/* --- endpoint.c: resources, messages and events of an endpoint --- */

/* Room in the tables and a timer; before anything is sent. */
int vb_cm_enroll(struct vb_cm_endpoint *endpoint);
/* The opposite: idle, known to nobody. */
void vb_cm_retire(struct vb_cm_endpoint *endpoint);
/* Retires it and raises the event, if there is one. An orphan is freed: do not touch it again. */
void vb_cm_finish(struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event);
/* Out of the backlog of its listener. */
void vb_cm_leave_listener(struct vb_cm_endpoint *endpoint);

struct vb_cm_event vb_cm_event(struct vb_cm_endpoint *endpoint, enum vb_cm_event_type type,
			       const struct vb_cm_message *message);
void vb_cm_raise(struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event);
/* The same for a request at a listener; ip: what its private data begin with, or NULL. */
void vb_cm_raise_incoming(struct vb_cm_endpoint *endpoint, struct vb_cm_event *event,
			  struct vb_cm_endpoint *listener, const struct vb_cm_ip *ip);

void vb_cm_drop(struct vb_cm *cm, enum vb_cm_drop reason);
/* May a request with this P_Key be for us? */
bool vb_cm_in_partition(const struct vb_cm *cm, uint16_t pkey);
void vb_cm_duplicate(struct vb_cm *cm, const struct vb_cm_message *message);
/* 0; -EINVAL: does not fit. The rest of the field is zero. */
int vb_cm_fill(uint8_t *field, size_t size, const void *data, size_t length);

void vb_cm_answer(struct vb_cm *cm, const struct vb_cm_route *route,
		  const struct vb_cm_message *message);
void vb_cm_say(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message);
/* endpoint->message, once more. */
void vb_cm_say_again(struct vb_cm_endpoint *endpoint);
/* endpoint->message, now and until somebody stops it or resends_max is reached. */
void vb_cm_say_until_answered(struct vb_cm_endpoint *endpoint, uint8_t resends_max);
void vb_cm_wait(struct vb_cm_endpoint *endpoint, uint64_t ns);
void vb_cm_wait_for_answer(struct vb_cm_endpoint *endpoint);
uint64_t vb_cm_exponent_ns(uint8_t exponent);
/* How long an answer on the connection may take. */
uint64_t vb_cm_response_ns(const struct vb_cm_endpoint *endpoint);

/* --- reject.c --- */

struct vb_cm_message vb_cm_make_rej(const struct vb_cm_endpoint *endpoint, uint16_t reason);
/* Sends endpoint->message, which is a REJ, and keeps it for those who ask again. */
void vb_cm_rejected(struct vb_cm_endpoint *endpoint);
/* The peer refused, or is taken for dead. message may be NULL. */
void vb_cm_refused(struct vb_cm_endpoint *endpoint, unsigned reason,
		   const struct vb_cm_message *message);
/* The peer of this endpoint uses its QP, or its id, for something new. */
void vb_cm_stale(struct vb_cm_endpoint *old);
/* Answers a REQ or REP with a REJ; nothing is kept. */
void vb_cm_refuse(struct vb_cm *cm, const struct vb_cm_route *route,
		  const struct vb_cm_message *message, uint16_t reason, const void *info,
		  uint8_t info_length);
/* The same for a REQ that could be taken later: its copies get that answer, too. */
void vb_cm_refuse_for_good(struct vb_cm *cm, const struct vb_cm_route *route,
			   const struct vb_cm_message *message, uint16_t reason);

/* --- destroy.c --- */

/* An endpoint that belongs to the connection manager; NULL: no memory, or too many. */
struct vb_cm_endpoint *vb_cm_orphan(struct vb_cm *cm);

/* --- end.c --- */

void vb_cm_send_dreq(struct vb_cm_endpoint *endpoint);
void vb_cm_enter_timewait(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message,
			  unsigned reason);
/* The DREP that its state waits with. */
void vb_cm_answer_dreq(struct vb_cm_endpoint *endpoint);
void vb_cm_timewait_exit(struct vb_cm_endpoint *endpoint);

/* --- active.c --- */

/* The REQ is made anew, with another id, and sent after a while. */
void vb_cm_connect_again(struct vb_cm_endpoint *endpoint);

/* --- sidr.c --- */

void vb_cm_input_sidr_req(struct vb_cm *cm, const struct vb_cm_route *route,
			  const struct vb_cm_message *message);
void vb_cm_sidr_answer(struct vb_cm_endpoint *endpoint);

/* --- passive.c --- */

/* MRA: the sender of the request does not say it again for a minute. */
void vb_cm_ask_for_time(struct vb_cm_endpoint *endpoint);

void vb_cm_establish_passive(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message);

/* --- request.c --- */

/* Is that what it listens for? */
static inline bool vb_cm_takes(const struct vb_cm_endpoint *listener, enum ibv_qp_type type)
{
	return !listener->takes || listener->takes == type;
}

/* The endpoint of a new request at a listener, in that state; NULL: none, and it is counted. */
struct vb_cm_endpoint *vb_cm_incoming(struct vb_cm_endpoint *listener,
				      const struct vb_cm_route *route, enum vb_cm_state state);

void vb_cm_input_req(struct vb_cm *cm, const struct vb_cm_route *route,
		     const struct vb_cm_message *message);
/* False: this host has no InfiniBand port. */
bool vb_cm_port(struct vb_cm *cm, struct vb_cm_port *port);
/* InfiniBand: a path of the peer's, between its port and ours. */
bool vb_cm_is_between_ports(struct vb_cm *cm, const struct vb_cm_route *route,
			    const struct vb_cm_path *path);
/*
 * Finds the addresses in the header that can be believed: 0, or why none can. ip may be absent where
 * the peer may have named an InfiniBand port (by_gid).
 */
int vb_cm_check_addresses(struct vb_cm *cm, const struct vb_cm_route *route, uint64_t service_id,
			  const uint8_t *private_data, bool by_gid, struct vb_cm_ip *ip,
			  bool *has_ip);

/* --- timer.c --- */

/* Nobody answers: the peer is told, and the application. */
void vb_cm_unreachable(struct vb_cm_endpoint *endpoint);

/* --- handlers of messages that found their endpoint, by state: input.c has the table --- */

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
vb_cm_handler vb_cm_on_again;      /* passive.c: says endpoint->message again */
vb_cm_handler vb_cm_on_again_kept; /* and keeps it for the next time */
vb_cm_handler vb_cm_on_duplicate;

#endif
