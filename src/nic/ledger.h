/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ledger of a CQ that work requests wait for (IBV_EXP_WR_CQE_WAIT). It counts all completions
 * that the CQ ever had. A CQ holds no entries, and the bytes of a small message lie in the cell of
 * its receive until the completion is polled. So a waiting work request polls the CQ itself: the
 * messages are where they belong, and the completions go to the ledger, where polls of the program
 * find them first. Other CQs have none.
 */
#ifndef VB_NIC_LEDGER_H
#define VB_NIC_LEDGER_H

#include "nic/cq.h"

struct vb_ledger_entry {
	struct ibv_wc wc;
	struct ibv_wc_tm_info tm;
	uint64_t stamp;
};

struct vb_ledger {
	_Atomic uint32_t refs; /* the CQ's, and one of each work request that names it */
	_Atomic uint32_t made; /* count of completions so far; written under the CQ's poll_lock */
	struct vb_spin lock;   /* comes right before the poll_lock */
	struct vb_cq *cq;      /* NULL: it was destroyed; under lock */
	uint32_t awaited;      /* posted waits count from here, and ... */
	uint32_t ahead;        /* ... the next ones from so much more; both under nic->cross_lock */
	/* Completions that were taken in and not polled: a ring; under poll_lock. */
	struct vb_ledger_entry *entries;
	uint32_t room, first, count;
};

/* The ledger of the CQ, from now on if there was none. 0 or -ENOMEM. */
int vb_ledger_open(struct vb_cq *cq);
/* The CQ is destroyed. */
void vb_ledger_close(struct vb_cq *cq);
void vb_ledger_get(struct vb_ledger *ledger);
void vb_ledger_put(struct vb_ledger *ledger); /* NULL: nothing */

enum vb_ledger_state {
	VB_LEDGER_SHORT, /* so many completions were not made yet */
	VB_LEDGER_REACHED,
	VB_LEDGER_CLOSED,
};
/* Takes completions in until so many were made. */
enum vb_ledger_state vb_ledger_reach(struct vb_ledger *ledger, uint32_t made);
/* The number of the CQ and of the completions that are missing, for a sentence; number 0: the CQ is
 * gone. */
struct vb_ledger_gap {
	uint32_t cq, missing;
};
struct vb_ledger_gap vb_ledger_gap(struct vb_ledger *ledger, uint32_t made);

/* Under the poll lock: drops the completions of a QP that is reset or destroyed. */
void vb_ledger_forget(struct vb_cq *cq, uint32_t qpn);
/* Likewise: completions that polls will find there. */
static inline uint32_t vb_ledger_count(const struct vb_cq *cq)
{
	return cq->ledger ? cq->ledger->count : 0;
}

#endif
