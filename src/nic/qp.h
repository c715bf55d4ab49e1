/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs. The private object is here; peers see struct vb_qp_entry. The files: qp.c creates
 * and destroys, qp_edges.c says which changes of state are legal, qp_modify.c checks and applies
 * them, qp_error.c moves a QP to ERR or SQE and lets its queues flush, qp_pkey.c follows the P_Key
 * table.
 */
#ifndef VB_NIC_QP_H
#define VB_NIC_QP_H

#include "base/clock.h"
#include "nic/ah.h"
#include "nic/cq.h"
#include "nic/pkey.h"
#include "nic/rq.h"
#include "nic/sq.h"
#include "nic/srq.h"

/*
 * The requester's view of its peer. Only the holder of the executor's token touches it. So does
 * path/local/fast_send.c, under the queue's lock while no thread holds the token.
 */
/* How far a sender keeps from an owner that posts the receives which it waits for
 * (path/local/apart.c); token holder. */
struct vb_apart {
	uint32_t distance;     /* count of receives that are to be posted behind the next one */
	uint32_t steady_waits; /* that ended as hoped, since the distance changed */
	bool far_posted;       /* the last look found the receive at that distance posted */
	uint64_t until_ns;     /* a receive is missing: no look for it before; 0: none is missing */
};

#define VB_DIRECT_MANY  (1ull << 63) /* the receive queue has other senders, too */
#define VB_DIRECT_SHELF (1ull << 62) /* the receive queue has a shelf */
#define VB_DIRECT_FLAGS (VB_DIRECT_MANY | VB_DIRECT_SHELF)

struct vb_remote {
	/* The name for the hazard word, and flags VB_DIRECT_*, if a small SEND may take the short
	 * way; else 0. First: posters read it without a lock. */
	_Atomic uint64_t direct;
	_Atomic bool look_again; /* the own P_Key has changed, or does not fit: bind slowly */
	struct vb_peer *peer;    /* referenced; NULL: not looked up yet */
	/*
	 * The process whose receives and memory the messages are for: the peer, or for XRC the
	 * owner of the SRQ, referenced if it is not the peer. Valid once the receive queue is
	 * resolved.
	 */
	struct vb_peer *home;
	uint32_t pd;              /* of the peer's keys; the keys of receives belong to recv_pd */
	uint32_t srqn;            /* XRC: number of the SRQ of this message ... */
	struct vb_srq_entry *srq; /* ... and its entry; NULL: none, or the QP is no XRC QP */
	uint64_t srq_gate;
	struct vb_qp_entry *entry;
	struct vb_qp_lent *lent;
	uint64_t gate; /* the peer's gate that we are bound to; 0: not bound */
	struct vb_rq_shared *rq;
	struct vb_rq_lent *rq_lent;
	uint32_t rq_version;
	uint32_t recv_pd;     /* of the receive queue, which may be an SRQ's */
	uint32_t message_max; /* path MTUs differ: one packet of the smaller; else UINT32_MAX */
	struct vb_cell *cells;
	uint8_t *spill;
	uint8_t *sges;
	uint32_t mask, sges_stride;
	struct vb_cq_shared *cq;
	struct vb_key_cache key_cache;
	uint32_t ready_bit;
	struct vb_ready_page *ready; /* page of ready_bit; NULL: not looked up yet */
	_Atomic uint32_t *trail;     /* of cq; NULL: not looked up yet */
	uint32_t trail_mask;
	uint32_t slot;   /* datagrams: the target's slot, for which peer was found */
	bool many;       /* the receive queue has other senders, too */
	bool keeps_head; /* UC: a later sender goes on where we were */
	/* One sender: index of the receive that the next message takes. Many senders: no receive
	 * before this index is posted. */
	uint32_t next_recv;
	uint32_t taken; /* many senders: index of the cell that a long message holds */
	bool holds_taken;
	struct vb_apart apart; /* one sender */
	/* RC: the shelf of the receive queue (path/local/shelf.c); NULL: not looked up, or none. */
	uint8_t *shelf;
	uint32_t shelf_next;   /* count of messages that were put there */
	uint32_t shelf_left;   /* count of those that were polled, when this sender looked last */
	uint32_t shelf_wishes; /* count of messages that would have been put there */
};

/* Why a send queue waits. Token holder writes; the engine reads under its own lock. */
enum vb_pend_why {
	VB_PEND_NONE,
	VB_PEND_UNREADY,
	VB_PEND_RNR,
	VB_PEND_WIRE,
	VB_PEND_BUSY,
	VB_PEND_DELAYED, /* by a fault rule */
	VB_PEND_LOST,    /* by a fault rule: the WQE is tried again */
	VB_PEND_CQE,     /* for completions of a CQ (cross.h) */
	VB_PEND_ATTACH,  /* reliable: the process of the peer has not answered yet */
};

struct vb_pend {
	struct vb_list node;          /* in the list of the send CQ (waiters.h) */
	bool listed;                  /* under the lock of that list */
	_Atomic enum vb_pend_why why; /* also read, as a hint, to see whether the queue drains */
	uint64_t since_ns;            /* when the wait began; 0: this one is not timed */
	uint8_t reason;               /* UNREADY, ATTACH: enum vb_reason of the last try */
	bool told;                    /* a line has explained this wait */
	uint64_t lost_waited_ns;      /* LOST: sum of the waits between the tries of the WQE */
	uint64_t give_up_ns;          /* UNREADY, ATTACH: RETRY_EXC_ERR; WIRE: dropped */
	uint64_t next_ns;             /* RNR, LOST: next counted try; DELAYED: until then */
	unsigned rnr_tries;
	bool rnr_looked_again; /* for a receive, after the last try was over */
	uint64_t judged;       /* 1 + index of the WQE that fault rules have judged already */
	uint64_t executed;     /* 1 + index of the WQE that was executed and completes later ... */
	uint64_t late_ns;      /* ... by this time */
	_Atomic uint64_t wake_ns; /* time at which the service thread should look again */
};

/* Under VERBENA_EXPLAIN: work requests that are done and make no completion (engine/quiet.c). */
struct vb_quiet {          /* service thread only */
	uint32_t tail;     /* of the send queue at the last look */
	uint32_t polls;    /* empty polls of the CQ then */
	uint64_t since_ns; /* the tail and the lack of completions are unchanged; 0: not so */
	bool told;
};

/* The work request that moved the QP to ERR or SQE; the executor writes it, before the state. */
struct vb_failure {
	uint64_t since_ns; /* 0: none has */
	uint64_t wr_id;
	uint8_t reason;         /* enum vb_reason */
	uint8_t status, opcode; /* enum ibv_wc_status; VB_FAILURE_OF_PEER: it was the peer's */
};
enum { VB_FAILURE_OF_PEER = 255 };

/* Path migration: migrate.h. */
struct vb_migration {
	_Atomic uint8_t state; /* enum ibv_mig_state; changes under state_lock */
	bool loaded;           /* there is an alternate path; from here on under state_lock */
	bool refused;          /* the peer took another path, and the event was raised */
	_Atomic bool astray;   /* local path: av does not lead to the peer that we are bound to */
	_Atomic uint32_t path_number; /* count of changes of av; the wire follows them */
	struct vb_av alternate;
};

/* Operations that completion counters count. Remote ones are in the order of enum vb_served. */
enum {
	VB_COMP_SEND,
	VB_COMP_RECV,
	VB_COMP_READ,
	VB_COMP_WRITE,
	VB_COMP_LOCAL_OPS,
	VB_COMP_REMOTE = VB_COMP_LOCAL_OPS,
	VB_COMP_OPS = VB_COMP_REMOTE + VB_SERVED_OPS,
};

/* Operations of peers on a QP, for a completion counter. */
struct vb_comp_served {
	struct vb_list node; /* in the counter's served; empty: none. Under nic->lock, as all */
	struct vb_qp *qp;
	uint64_t done; /* the value of the lent word that is in the counter already */
	uint32_t errors;
};

struct vb_wired;
struct vb_builder;
struct vb_managed;
struct vb_raw_qp;

enum vb_slow_sends {
	VB_SENDS_COUNTED = 1, /* comp_cntrs has a counter for the queue; set in RESET and INIT */
	VB_SENDS_BOUNCED = 2, /* elements have indirect keys (path/bounce.h); by the executor */
	VB_SENDS_MANAGED = 4, /* sends wait until they are enabled (managed.h); set in RESET */
};

struct vb_qp {
	union { /* first; room for the members that newer headers append to ibv_qp_ex */
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
		char room[sizeof(struct ibv_qp_ex) + 64];
	};
	struct vb_nic *nic;
	struct vb_qp_entry *entry; /* shown to peers; NULL: a handle (nic/xrcd.h) */
	struct vb_qp_lent *lent;   /* written by them */
	struct vb_pd *pd;
	struct vb_cq *send_cq, *recv_cq;
	struct vb_rq *rq; /* own_rq, or that of the SRQ */
	struct vb_srq *srq;
	struct vb_xrcd *xrcd;   /* XRC_RECV */
	_Atomic uint32_t state; /* enum ibv_qp_state */
	uint8_t type;
	bool sig_all;
	uint8_t slow_sends; /* enum vb_slow_sends: not the short way; a completion looks there */
	/* The P_Key at attr.pkey_index; changes under state_lock. It lies beside the other members
	 * that each packet needs. */
	_Atomic uint16_t pkey;
	struct vb_cq_queue sends, receives; /* the queues that are attached to the CQs */
	struct vb_arrivals arrivals; /* SRQ: receives completed for this QP; under its drain_lock */
	struct vb_sq sq;
	struct vb_remote remote;
	struct vb_pend pend;
	struct vb_rq own_rq;
	struct vb_list node; /* in nic->qps */
	struct vb_quiet quiet;
	struct vb_failure failure;
	bool flush_told; /* that sends are flushed has been explained; the executor, and RESET */
	struct vb_spin state_lock;
	uint64_t epoch;
	struct ibv_qp_attr attr; /* the attributes that ibv_modify_qp has set so far */
	struct ibv_qp_cap cap;
	struct vb_av av; /* RC, UC: resolved at RTR; under state_lock (vb_qp_av) */
	struct vb_migration migration;
	_Atomic bool flush_posted; /* receives were posted since flush_stamp was taken */
	uint64_t flush_stamp; /* of the flush: taken by the poll that first saw it; poll_lock */
	_Atomic bool flush_pending; /* the grace period runs; changes under state_lock */
	bool flush_held;            /* the failed completion is not visible yet; under state_lock */
	bool inside; /* a thread was still inside at vb_qp_close; the closing thread only */
	struct vb_grace flush_grace;
	_Atomic bool sqd_event_due; /* set before SQD; the thread that ends the drain takes it */
	uint32_t mcast_groups;
	uint32_t datagram_max; /* UD: bytes that fit into one packet of the port */
	_Atomic uint32_t async_taken;
	struct vb_wired *_Atomic wired;    /* while the wire has adopted the QP: path/roce */
	struct vb_list wire_kick;          /* in the lane's list of kicked QPs */
	_Atomic uint8_t lane;              /* the lane of the QP number (nic/lane.h) */
	_Atomic uint32_t rate_kbps;        /* rate on the wire; 0: none; nic/rate.h */
	_Atomic uint32_t rate_burst_bytes; /* 0: the default */
	uint32_t limit_kbps;               /* the application's limit; under state_lock */
	struct vb_builder *builder;        /* verbs/qp_ex.h; NULL: only ibv_post_send */
	struct vb_bounce *bounces;         /* path/bounce.h; executor; NULL: none */
	struct vb_qp_ext *ext;             /* extended work requests: nic/qp_ext.h; NULL: none */
	struct vb_managed *managed;        /* managed queues: nic/managed.h; NULL: none is */
	struct vb_raw_qp *raw;             /* RAW_PACKET: nic/wq.h; NULL: none, or a receive WQ's */
	_Atomic uint32_t raw_flags;        /* RAW_PACKET: enum vb_raw_flags of nic/wq.h */
	struct ibv_wq *wq; /* the QP is the inside of this WQ, which gets the events */
	/* XRC_RECV (xrcd_qp.c): a QP may have several users, each with a handle of its own. */
	struct vb_spin handles_lock;
	struct vb_list handles;  /* struct vb_xrc_handle; from here on under handles_lock */
	struct vb_list sessions; /* struct vb_xrc_session: handles of other processes */
	uint32_t session_count;
	uint32_t holders;  /* count of handles, sessions, requests; 0: the QP is being destroyed */
	bool creator_gone; /* the creator's handle was destroyed, others keep the QP */
	/* Under nic->lock; nic/comp_cntr.h. */
	struct vb_comp_cntr *comp_cntrs[VB_COMP_OPS];
	struct vb_list comp_node; /* in comp_cntrs[VB_COMP_RECV]->receivers */
	struct vb_comp_served comp_served[VB_SERVED_OPS];
};

/* Another process has the QP open, through this socket. */
struct vb_xrc_session {
	struct vb_list node; /* in qp->sessions */
	struct vb_qp *qp;
	int fd;
};

/* The message on such a socket. */
struct vb_xrc_event {
	uint32_t type; /* enum ibv_event_type */
};

static inline struct vb_qp *vb_qp(struct ibv_qp *ibv)
{
	return vb_container(ibv, struct vb_qp, ibv);
}

static inline enum ibv_qp_state vb_qp_state(const struct vb_qp *qp)
{
	return (enum ibv_qp_state)atomic_load_explicit(&qp->state, memory_order_acquire);
}

/* RC and XRC: messages are acknowledged, in order, and delivered once. */
static inline bool vb_type_reliable(uint8_t type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

static inline bool vb_qp_reliable(const struct vb_qp *qp)
{
	return vb_type_reliable(qp->type);
}

static inline uint16_t vb_qp_pkey(const struct vb_qp *qp)
{
	return atomic_load_explicit(&qp->pkey, memory_order_relaxed);
}

/* The gate of the QP's connection in a state. */
static inline uint64_t vb_qp_gate_in(const struct vb_qp *qp, enum ibv_qp_state state)
{
	return vb_gate(qp->epoch, vb_qp_pkey(qp), state);
}

/* The QP's gate; in ERR if a sender has closed it. */
static inline uint64_t vb_qp_gate(const struct vb_qp *qp)
{
	uint64_t gate = atomic_load(&qp->entry->gate);

	return vb_gate_is_closed(qp->lent, gate)
		       ? vb_gate(vb_gate_epoch(gate), vb_gate_pkey(gate), IBV_QPS_ERR)
		       : gate;
}

static inline bool vb_qp_is_xrc(const struct vb_qp *qp)
{
	return qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV;
}

/* The local ACK timeout, 4.096 us * 2^timeout; timeout 0 means for ever. */
static inline uint64_t vb_qp_timeout_ns(const struct vb_qp *qp)
{
	return qp->attr.timeout ? 4096ull << qp->attr.timeout : VB_NEVER_NS;
}

/* The time that a requester of RC goes on without an answer. */
static inline uint64_t vb_qp_patience_ns(const struct vb_qp *qp)
{
	return qp->attr.timeout ? (qp->attr.retry_cnt + 1ull) * vb_qp_timeout_ns(qp) : VB_NEVER_NS;
}

/* The Q_Key of a datagram: if the WR's has the top bit set, the QP's own Q_Key counts. */
static inline uint32_t vb_qp_datagram_qkey(const struct vb_qp *qp, uint32_t remote_qkey)
{
	return remote_qkey >> 31 ? qp->attr.qkey : remote_qkey;
}

/*
 * The WQE at next was tried already: SQD lets it finish. For the token holder; a hint for others.
 */
static inline bool vb_qp_has_begun(const struct vb_qp *qp)
{
	return atomic_load_explicit(&qp->sq.offset, memory_order_relaxed) ||
	       atomic_load_explicit(&qp->pend.why, memory_order_relaxed) != VB_PEND_NONE;
}

int vb_qp_create(struct vb_pd *pd, struct ibv_qp_init_attr *attr, struct vb_qp **out);
/* Afterwards nothing arrives any more, and no thread reaches memory through the QP. -EBUSY: a
 * stopped thread may, and the QP is in ERR. */
int vb_qp_close(struct vb_qp *qp, enum ibv_qp_state state);
/* A QP is destroyed in two steps: first no thread finds it any more, then it is freed. The caller
 * has stopped the executor. */
void vb_qp_withdraw(struct vb_qp *qp);
int vb_qp_destroy(struct vb_qp *qp);

/*
 * Checks everything, then changes everything. For RESET the caller holds the executor's token.
 * Returns -EINVAL, -ENETUNREACH, ...
 */
int vb_qp_modify(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask);
/* The checks alone, for callers that prepare a change of state. */
int vb_qp_modify_check(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask);
void vb_qp_query(struct vb_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

/* To ERR, from any state but RESET; false: the QP was in ERR already. The next executor flushes the
 * send queue. Receives are flushed once no thread is inside. */
bool vb_qp_enter_error(struct vb_qp *qp);
/* The same because of a work request: nothing is flushed before its completion can be polled. */
bool vb_qp_enter_error_held(struct vb_qp *qp);
void vb_qp_release_flush(struct vb_qp *qp);
/* UC, UD: the send queue failed, receiving goes on. */
void vb_qp_enter_sqe(struct vb_qp *qp);
/* Lets the receives flush if the grace period is over. */
void vb_qp_flush_check(struct vb_qp *qp);
/* RESET and destroy: forgets the flush. */
void vb_qp_flush_cancel(struct vb_qp *qp);
/* Drops completions of this QP in a shared queue that were not polled. Under the CQ's poll lock, or
 * after detach. */
void vb_qp_purge(struct vb_qp *qp);
void vb_qp_raise(struct vb_qp *qp, enum ibv_event_type type);

/*
 * The QP's P_Key may have changed: shows it to peers, and compares theirs again. Under state_lock.
 */
void vb_qp_follow_pkey(struct vb_qp *qp);
/* The same for all QPs, after the table has changed. */
void vb_qps_follow_pkeys(struct vb_nic *nic);
/* Counts of packets with a wrong key that arrived on a device, also at QPs that are gone. */
struct vb_violations {
	uint64_t pkey, qkey;
};
struct vb_violations vb_qps_violations(struct vb_nic *nic, const struct vb_device *dev);
/* The QP is destroyed: its counts are kept. Under nic->lock. */
void vb_qp_keep_violations(const struct vb_qp *qp);
/* Called with each IBV_EVENT_COMM_EST that is raised, under any locks; NULL: none. */
extern void (*_Atomic vb_qp_established)(uint32_t qpn);

uint32_t vb_managed_sends_end(const struct vb_qp *qp);

/* The index behind the last WQE that may be executed: the tail, unless WQEs have to be enabled
 * first. Under the queue's lock. */
static inline uint32_t vb_qp_sends_end(const struct vb_qp *qp)
{
	return __builtin_expect(qp->slow_sends & VB_SENDS_MANAGED, 0) ? vb_managed_sends_end(qp)
								      : qp->sq.tail;
}

/*
 * The executor's token: its holder may execute, complete and flush work requests, up to *end.
 */
static inline bool vb_qp_token_take(struct vb_qp *qp, uint32_t *end)
{
	bool got;

	vb_spin_lock(&qp->sq.lock);
	got = !qp->sq.executing;
	qp->sq.executing = true;
	if (got)
		*end = vb_qp_sends_end(qp); /* another holder may be resetting the queue */
	vb_spin_unlock(&qp->sq.lock);
	return got;
}

static inline bool vb_qp_token_try(struct vb_qp *qp)
{
	uint32_t end;

	return vb_qp_token_take(qp, &end);
}

static inline void vb_qp_token_release(struct vb_qp *qp)
{
	vb_spin_lock(&qp->sq.lock);
	qp->sq.executing = false;
	vb_spin_unlock(&qp->sq.lock);
}

/* The stamp of the send that completes next, for a CQ that asks. Called by the executor. */
static inline uint64_t vb_qp_send_stamp(struct vb_qp *qp, uint32_t asks)
{
	if (asks & VB_CQ_ORDERED)
		return vb_cq_stamp(qp->send_cq->shared, asks);
	qp->sq.receives = vb_rq_completed(qp->rq, qp->sq.receives);
	return 2 * qp->sq.receives;
}

void vb_qp_token_wait(struct vb_qp *qp);
void vb_remote_unbind(struct vb_remote *remote);
/* The next message must look at the target's state first. */
static inline void vb_remote_forget_gate(struct vb_remote *remote)
{
	atomic_store_explicit(&remote->direct, 0, memory_order_relaxed);
	remote->gate = 0;
}

#endif
