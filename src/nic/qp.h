/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs. The private object is here; what peers see of it is struct vb_qp_entry. Split by
 * role: qp.c creates and destroys, qp_edges.c says which changes of state are legal, qp_modify.c
 * checks and applies them, qp_error.c moves a QP to ERR or SQE and lets its queues flush.
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
 * The requester's view of its peer. Only the holder of the executor's token touches it, and
 * path/local/fast_send.c under the queue's lock while nobody holds the token.
 */
struct vb_remote {
	/* What a hazard names, if a small SEND may go directly; else 0. First: posters read it without
	 * a lock. */
	_Atomic uint64_t direct;
	_Atomic bool look_again; /* the own P_Key is another one, or does not fit: bind slowly */
	struct vb_peer *peer;    /* referenced; NULL: not looked up yet */
	/* Whose receives and memory the messages are for: the peer, or of XRC the process that owns
	 * the SRQ, referenced if it is another one. Valid once the receive queue is resolved. */
	struct vb_peer *home;
	uint32_t pd;              /* there, that keys must belong to; those of receives: recv_pd */
	uint32_t srqn;            /* XRC: the SRQ at hand ... */
	struct vb_srq_entry *srq; /* ... NULL: none, or the QP is no XRC QP */
	uint64_t srq_gate;
	struct vb_qp_entry *entry;
	struct vb_qp_lent *lent;
	uint64_t gate; /* to which we are bound; 0: not bound */
	struct vb_rq_shared *rq;
	struct vb_rq_lent *rq_lent;
	uint32_t rq_version;
	uint32_t recv_pd;     /* of the receive queue, which may be an SRQ's */
	uint32_t message_max; /* where path MTUs differ one packet to both; else UINT32_MAX */
	struct vb_cell *cells;
	uint8_t *spill;
	uint8_t *sges;
	uint32_t mask, sges_stride;
	struct vb_cq_shared *cq;
	struct vb_key_cache key_cache;
	uint32_t ready_bit;
	struct vb_ready_page *ready; /* of that bit; NULL: not looked up yet */
	uint32_t slot;               /* of the datagram's target that peer was found for */
	bool many;                   /* its receive queue has other senders too */
	bool keeps_head;             /* UC: a later sender goes on where we were */
	uint32_t next_recv; /* one sender: index of the receive that the next message takes */
	uint32_t taken;     /* many senders: the cell that a long message holds */
	bool holds_taken;
};

/* Why a send queue waits. Token holder writes; the engine reads under its own lock. */
enum vb_pend_why {
	VB_PEND_NONE,
	VB_PEND_UNREADY,
	VB_PEND_RNR,
	VB_PEND_WIRE,
	VB_PEND_BUSY,
	VB_PEND_DELAYED, /* by a fault rule */
	VB_PEND_LOST,    /* by a fault rule: to be tried again */
};

struct vb_pend {
	struct vb_list node;          /* in the engine's list */
	bool listed;                  /* under the engine's list lock */
	_Atomic enum vb_pend_why why; /* also a hint for whoever asks whether the queue drains */
	uint64_t since_ns;            /* first try of the WQE that waits */
	uint64_t give_up_ns;          /* UNREADY: RETRY_EXC_ERR; WIRE: dropped */
	uint64_t next_ns;             /* RNR, LOST: next counted try; DELAYED: until then */
	unsigned rnr_tries;
	uint64_t judged; /* 1 + index of the WQE that fault rules have seen, and need not again */
	_Atomic uint64_t wake_ns; /* when the service thread should look again */
};

/* Path migration: migrate.h. */
struct vb_migration {
	_Atomic uint8_t state; /* enum ibv_mig_state; changes under state_lock */
	bool loaded;           /* there is an alternate path; from here on under state_lock */
	bool refused;          /* and its peer went another way, which was said */
	_Atomic bool astray;   /* local path: av does not lead to the peer that we are bound to */
	_Atomic uint32_t path_number; /* counts changes of av, which the wire follows */
	struct vb_av alternate;
};

struct vb_wired;
struct vb_builder;
struct vb_raw_qp;

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
	struct vb_rq *rq; /* its own or its SRQ's */
	struct vb_srq *srq;
	struct vb_xrcd *xrcd;   /* XRC_RECV */
	_Atomic uint32_t state; /* enum ibv_qp_state */
	uint8_t type;
	bool sig_all;
	/* The P_Key that the table has at attr.pkey_index; changes under state_lock. Here, beside what each packet
	 * looks at. */
	_Atomic uint16_t pkey;
	struct vb_cq_queue sends, receives; /* as their CQs know them */
	struct vb_arrivals arrivals; /* SRQ: completed for this QP; under the SRQ's drain_lock */
	struct vb_sq sq;
	struct vb_remote remote;
	struct vb_pend pend;
	struct vb_rq own_rq;
	struct vb_list node; /* in nic->qps */
	struct vb_spin state_lock;
	uint64_t epoch;
	struct ibv_qp_attr attr; /* as modified so far */
	struct ibv_qp_cap cap;
	struct vb_av av; /* RC, UC: resolved at RTR; under state_lock (vb_qp_av) */
	struct vb_migration migration;
	_Atomic bool flush_posted;  /* receives were posted since they may be flushed */
	uint64_t flush_stamp;       /* when a poll first came upon those to flush; under its lock */
	_Atomic bool flush_pending; /* the grace period runs; changes under state_lock */
	bool flush_held;            /* what made it fail is not yet visible; under state_lock */
	bool inside; /* a thread was still inside when it was closed; its owner only */
	struct vb_grace flush_grace;
	_Atomic bool sqd_event_due; /* set before the state is SQD; who finds it drained takes it */
	uint32_t mcast_groups;
	uint32_t datagram_max; /* UD: bytes that fit into one packet of the port */
	_Atomic uint32_t async_taken;
	struct vb_wired *_Atomic wired;    /* while the wire carries it: path/roce */
	struct vb_list wire_kick;          /* in the wire's list of QPs with news */
	_Atomic uint32_t rate_kbps;        /* that the wire keeps to; 0: none; nic/rate.h */
	_Atomic uint32_t rate_burst_bytes; /* 0: the default */
	uint32_t limit_kbps;               /* as the application set it; under state_lock */
	struct vb_builder *builder;        /* verbs/qp_ex.h; NULL: only ibv_post_send */
	struct vb_raw_qp *raw;             /* RAW_PACKET: nic/wq.h; NULL: none, or a receive WQ's */
	_Atomic uint32_t raw_flags;        /* RAW_PACKET: enum vb_raw_flags of nic/wq.h */
	struct ibv_wq *wq;                 /* of which it is the inside: then events are of that */
	/* XRC_RECV (xrcd_qp.c): several may have the QP, each through a handle of its own. */
	struct vb_spin handles_lock;
	struct vb_list handles;  /* struct vb_xrc_handle; from here on under handles_lock */
	struct vb_list sessions; /* struct vb_xrc_session: handles of other processes */
	uint32_t session_count;
	uint32_t holders;  /* handles, sessions, requests; 0: it is about to go */
	bool creator_gone; /* its own handle was destroyed, others keep it */
};

/* Another process has the QP open, through this socket. */
struct vb_xrc_session {
	struct vb_list node; /* in qp->sessions */
	struct vb_qp *qp;
	int fd;
};

/* What goes down such a socket. */
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

/* Acknowledged, in order, once: RC and XRC. */
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

/* The gate of its connection in a state. */
static inline uint64_t vb_qp_gate_in(const struct vb_qp *qp, enum ibv_qp_state state)
{
	return vb_gate(qp->epoch, vb_qp_pkey(qp), state);
}

/* Its own gate, or one that a sender has closed. */
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

/* The local ACK timeout, 4.096 us * 2^timeout; 0 is for ever. */
static inline uint64_t vb_qp_timeout_ns(const struct vb_qp *qp)
{
	return qp->attr.timeout ? 4096ull << qp->attr.timeout : VB_NEVER_NS;
}

/* How long a requester of RC goes on without an answer. */
static inline uint64_t vb_qp_patience_ns(const struct vb_qp *qp)
{
	return qp->attr.timeout ? (qp->attr.retry_cnt + 1ull) * vb_qp_timeout_ns(qp) : VB_NEVER_NS;
}

/* The Q_Key that a datagram carries: with the top bit set the QP's own counts, not the WR's. */
static inline uint32_t vb_qp_datagram_qkey(const struct vb_qp *qp, const struct vb_wqe *wqe)
{
	return wqe->remote_qkey >> 31 ? qp->attr.qkey : wqe->remote_qkey;
}

/* The WQE at next was tried already: SQD lets it finish. Token holder, or as a hint. */
static inline bool vb_qp_has_begun(const struct vb_qp *qp)
{
	return atomic_load_explicit(&qp->sq.offset, memory_order_relaxed) ||
	       atomic_load_explicit(&qp->pend.why, memory_order_relaxed) != VB_PEND_NONE;
}

int vb_qp_create(struct vb_pd *pd, struct ibv_qp_init_attr *attr, struct vb_qp **out);
/* Nothing arrives any more, and no thread reaches memory through the QP. -EBUSY: a stopped one may, and
 * the QP is in ERR. */
int vb_qp_close(struct vb_qp *qp, enum ibv_qp_state state);
/* Destroying, in two steps: nobody finds it any more; then it is freed. The caller has stopped
 * the executor. */
void vb_qp_withdraw(struct vb_qp *qp);
int vb_qp_destroy(struct vb_qp *qp);

/*
 * Checks everything, then changes everything. The executor's token is held by the caller when
 * the QP goes to RESET. Returns -EINVAL, -ENETUNREACH, ...
 */
int vb_qp_modify(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask);
/* What can be said against a change of state before anything is done about it. */
int vb_qp_modify_check(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask);
void vb_qp_query(struct vb_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

/* To ERR, from any state but RESET; false if it was there already. The send queue is flushed by
 * whoever executes it next; receives once nobody is inside. */
bool vb_qp_enter_error(struct vb_qp *qp);
/* The same because of a work request: nothing is flushed before its completion can be polled. */
bool vb_qp_enter_error_held(struct vb_qp *qp);
void vb_qp_release_flush(struct vb_qp *qp);
/* UC, UD: the send queue failed, receiving goes on. */
void vb_qp_enter_sqe(struct vb_qp *qp);
/* Looks whether the grace period is over and then lets the receives flush. */
void vb_qp_flush_check(struct vb_qp *qp);
/* RESET and destroy: what it had to flush is forgotten. */
void vb_qp_flush_cancel(struct vb_qp *qp);
/* Unpolled completions of this QP that lie in shared queues. Under the CQ's poll lock or after detach. */
void vb_qp_purge(struct vb_qp *qp);
void vb_qp_raise(struct vb_qp *qp, enum ibv_event_type type);

/* Its P_Key may be another one now: peers see it, and it looks at theirs again. Under state_lock. */
void vb_qp_follow_pkey(struct vb_qp *qp);
/* The same for all QPs, after the table has changed. */
void vb_qps_follow_pkeys(struct vb_nic *nic);
/* Packets that arrived with a wrong key on a device, at QPs that are there or gone. */
struct vb_violations {
	uint64_t pkey, qkey;
};
struct vb_violations vb_qps_violations(struct vb_nic *nic, const struct vb_device *dev);
/* The QP goes, its numbers stay. Under nic->lock. */
void vb_qp_keep_violations(const struct vb_qp *qp);
/* Called with each IBV_EVENT_COMM_EST that is raised, under whatever locks; NULL: nobody asks. */
extern void (*_Atomic vb_qp_established)(uint32_t qpn);

/* The executor's token: who holds it may execute, complete and flush work requests. */
static inline bool vb_qp_token_take(struct vb_qp *qp, uint32_t *end)
{
	bool got;

	vb_spin_lock(&qp->sq.lock);
	got = !qp->sq.executing;
	qp->sq.executing = true;
	if (got)
		*end = qp->sq.tail; /* what is posted so far; its holder may be resetting it */
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

/* The stamp of the send that completes next, for a CQ that asks. By the executor. */
static inline uint64_t vb_qp_send_stamp(struct vb_qp *qp, uint32_t asks)
{
	if (asks & VB_CQ_ORDERED)
		return vb_cq_stamp(qp->send_cq->shared, asks);
	qp->sq.receives = vb_rq_completed(qp->rq, qp->sq.receives);
	return 2 * qp->sq.receives;
}

void vb_qp_token_wait(struct vb_qp *qp);
void vb_remote_unbind(struct vb_remote *remote);
/* The target's state is to be looked at before anything else goes there. */
static inline void vb_remote_forget_gate(struct vb_remote *remote)
{
	atomic_store_explicit(&remote->direct, 0, memory_order_relaxed);
	remote->gate = 0;
}

#endif
