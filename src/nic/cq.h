/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues. A CQ holds no entries: send completions wait in the send queues, receive
 * completions in the cells of the receive queues, and a poll looks at the attached queues, all
 * of them when they are few, those with a ready bit when they are many.
 */
#ifndef VB_NIC_CQ_H
#define VB_NIC_CQ_H

#include "nic/channel.h"
#include "nic/pd.h"

struct vb_rq;
struct vb_sq;

enum { VB_CQ_FEW = 8 }; /* QPs that a poll looks at without ready bits */

struct vb_wc_node { /* a completion that lies in no queue: of a shared receive queue that another
		     * CQ's poll came upon, or of tag matching */
	struct vb_list node;
	uint32_t qpn;   /* goes with this QP; 0: stays */
	uint64_t stamp; /* if the CQ asks for it */
	struct ibv_wc wc;
	struct ibv_wc_tm_info tm;
	const void *owner;         /* goes with this object; NULL: none */
	_Atomic uint32_t *polled;  /* is set to ... when it is polled; NULL: nothing is */
	uint32_t polled_to;
};

struct vb_cq {
	union { /* first */
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	struct vb_list node;         /* in nic->cqs */
	struct vb_nic *nic;
	struct vb_cq_shared *shared;
	uint64_t shared_offset;
	_Alignas(64) struct vb_spin poll_lock;
	uint32_t qp_count;           /* attached QPs; both directions count once */
	uint32_t qp_room;
	struct vb_qp **qps;
	uint32_t turn;               /* fairness between the few */
	_Atomic uint32_t empty_polls; /* a hint, so nobody minds a lost one */
	uint64_t again[VB_READY_WORDS]; /* ready bits taken but not exhausted */
	bool any_again;
	bool by_bit_stale;           /* QPs came or went since the index was made */
	struct vb_qp **by_bit;       /* the attached QPs, sorted by ready bit */
	uint32_t *bit_first;         /* where each bit begins in it; VB_READY_BITS + 1 */
	struct vb_list xrc_srqs;     /* XRC SRQs that complete here */
	bool srqs_first;             /* their turn comes before or after that of the QPs */
	struct vb_list stray;        /* struct vb_wc_node, under stray_lock */
	struct vb_spin stray_lock;
	_Atomic uint32_t stray_count;
	uint64_t attached_depth;     /* sum of the queues' depths */
	struct vb_channel *channel;
	struct vb_list channel_node;
	_Atomic uint32_t events_pending; /* fired, not taken from the channel */
	uint32_t events_taken;       /* under the lock of channel->events */
	_Atomic uint32_t users;      /* queues of QPs */
	_Atomic uint32_t overrun_told, async_taken;
	struct vb_pd *pd;            /* parent domain whose memory this is; NULL: none */
	bool stamped;                /* completions carry their time */
	bool ignore_overrun;
	uint64_t stamp;              /* of the completion that was polled last; under poll_lock */
	struct ibv_wc_tm_info tm;    /* likewise */
	/* Extended polling, from start_poll to end_poll. */
	bool single_threaded;        /* nobody else polls: no lock */
	struct vb_spin batch_lock;
	struct ibv_wc wc;            /* the completion that the batch is at */
	uint64_t wc_stamp;
	struct ibv_wc_tm_info wc_tm;
	uint64_t wall_offset;        /* of the wall clock from the device's */
	/* Moderation (cq_moderate.c). */
	_Atomic uint32_t moderate_count;     /* 0: each completion makes an event */
	_Atomic uint32_t moderate_period_us;
	struct vb_spin hold_lock;
	bool holding;                /* an event waits for more completions; under hold_lock */
	uint32_t held;               /* completions that would have made one since; likewise */
	uint64_t held_until_ns;      /* likewise */
	_Atomic uint32_t arm_kind;   /* enum vb_cq_armed: as the application armed it last */
	_Atomic uint32_t armed_count; /* arms since events of senders were collected */
};

static inline struct vb_cq *vb_cq(struct ibv_cq *ibv)
{
	return vb_container(ibv, struct vb_cq, ibv);
}

struct vb_cq_spec {
	int cqe;
	void *cq_context;
	struct vb_channel *channel;
	int comp_vector;
	struct vb_pd *pd; /* parent domain, or NULL */
	bool stamped, single_threaded, ignore_overrun;
};

int vb_cq_create(struct ibv_context *ctx, const struct vb_cq_spec *spec, struct vb_cq **out);
int vb_cq_destroy(struct vb_cq *cq); /* -EBUSY: QPs use it. Waits for events to be acked. */
int vb_cq_resize(struct vb_cq *cq, int cqe);
int vb_cq_req_notify(struct vb_cq *cq, bool solicited_only);

/* A QP comes and goes; depth counts what can complete here. Under nic->lock. */
int vb_cq_attach(struct vb_cq *cq, struct vb_qp *qp, uint32_t depth, uint16_t *ready_bit);
void vb_cq_detach(struct vb_cq *cq, struct vb_qp *qp, uint32_t depth);

/* The same for XRC SRQs. */
void vb_cq_attach_srq(struct vb_cq *cq, struct vb_srq *srq);
void vb_cq_detach_srq(struct vb_cq *cq, struct vb_srq *srq);
void vb_cq_srq_resized(struct vb_cq *cq, uint32_t before, uint32_t after);

/* Up to count completions, or -EIO for a CQ that overran. */
int vb_cq_poll(struct vb_cq *cq, int count, struct ibv_wc *wc);
/* One completion, and in *stamp its time if the CQ is stamped. */
int vb_cq_poll_one(struct vb_cq *cq, struct ibv_wc *wc, uint64_t *stamp);
/* Completions of one QP that wait for cq to be polled. */
uint32_t vb_cq_waiting_of(struct vb_cq *cq, struct vb_qp *qp);
uint32_t vb_cq_waiting_of_srq(const struct vb_srq *srq);
/* What waits in a queue that is about to be emptied will not be polled: it leaves its room. Under
 * the poll lock; nothing completes in the queue any more. */
void vb_cq_forget_sq(struct vb_cq *cq, const struct vb_sq *sq);
void vb_cq_forget_rq(struct vb_cq *cq, const struct vb_rq *rq);
/* Sorts the attached QPs by ready bit; -ENOMEM. Under the poll lock. */
int vb_cq_index_bits(struct vb_cq *cq);

/* A completion of this process became visible in a queue; a full fence lies behind it. */
void vb_cq_notify(struct vb_cq *cq, uint16_t ready_bit, bool solicited);
/* A completion in a node of its own, which is the CQ's from now on; false: the CQ overran. */
bool vb_cq_push(struct vb_cq *cq, struct vb_wc_node *node, bool solicited);
/* Forgets those of an owner. */
void vb_cq_purge(struct vb_cq *cq, const void *owner);
/* What a completion must do before it is visible: VB_CQ_COUNTS, VB_CQ_STAMPS. */
static inline uint32_t vb_cq_asks(const struct vb_cq_shared *shared)
{
	return atomic_load_explicit(&shared->asks, memory_order_relaxed);
}

/* They are not there any more: polled, or gone with their queue. What completed while the counting
 * began may be missing in the count, until the CQ is empty: it stops at 0. */
static inline void vb_cq_forget(struct vb_cq *cq, uint32_t completions)
{
	uint32_t count;

	if (!(vb_cq_asks(cq->shared) & VB_CQ_COUNTS))
		return;
	count = atomic_load(&cq->shared->count);
	while (!atomic_compare_exchange_weak(&cq->shared->count, &count,
					     count > completions ? count - completions : 0))
		;
}
/* Counts a completion where attached depths exceed cqe; false: the queue is full. */
bool vb_cq_account(struct vb_cq_shared *shared);
void vb_cq_set_ready(struct vb_cq_shared *shared, uint16_t bit);
/* Takes the arm back if it matches; the caller must then see to the event. */
bool vb_cq_disarm(struct vb_cq_shared *shared, bool solicited);
/* Events that peers left with us. */
void vb_cq_collect_fired(struct vb_cq *cq);
/* A peer ended, perhaps after it had completed a receive and before it said so. */
void vb_cq_look_again(struct vb_cq *cq);

/* --- moderation (cq_moderate.c) --- */

/* From now on an event stands for count completions, or for those of a period. */
void vb_cq_moderate(struct vb_cq *cq, uint16_t count, uint16_t period_us);
static inline bool vb_cq_moderated(struct vb_cq *cq)
{
	return atomic_load_explicit(&cq->moderate_count, memory_order_relaxed);
}
/* Completions took the arm: their event is made now, or with those that follow. */
void vb_cq_hold(struct vb_cq *cq, uint32_t completions);
/* Makes the events whose period is over; by the service thread. */
void vb_cq_release_due(struct vb_nic *nic, uint64_t now_ns);
/* When the next one is; VB_NEVER_NS: none is held. */
uint64_t vb_cq_next_due_ns(struct vb_nic *nic);

#endif
