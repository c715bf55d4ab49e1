/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cross-channel work requests: one queue waits for completions of a CQ (IBV_EXP_WR_CQE_WAIT), and
 * enables what is posted to managed queues of other QPs (IBV_EXP_WR_SEND_ENABLE, _RECV_ENABLE). A
 * chain of such requests goes on without the program.
 *
 * The counts in the requests are relative. They become indexes when they are posted: each CQ and
 * each managed queue has an index from which they count. A request with
 * IBV_EXP_SEND_WAIT_EN_LAST moves it, by the highest count since it moved last.
 */
#ifndef VB_NIC_CROSS_H
#define VB_NIC_CROSS_H

#include "nic/ledger.h"
#include "nic/managed.h"

/* The operand of such a request, in a ring beside the send queue (qp_ext.h). */
struct vb_cross {
	struct vb_ledger *ledger;   /* WAIT; referenced */
	struct vb_managed *managed; /* ENABLE; referenced */
	bool receives;              /* RECV_ENABLE */
	uint32_t index; /* completions that were made; what is enabled comes before it */
};

/* A request as it is posted. */
struct vb_cross_spec {
	struct vb_ledger *ledger;
	struct vb_managed *managed;
	bool receives;
	uint32_t count; /* ENABLE: 0 is everything that is posted */
	bool last;      /* IBV_EXP_SEND_WAIT_EN_LAST */
};

/*
 * Under cross_lock and the lock of `own`, the send queue that the request is posted to. False:
 * fewer are posted than it would enable.
 */
bool vb_cross_plan(const struct vb_cross_spec *spec, const struct vb_sq *own,
		   struct vb_cross *cross);
void vb_cross_drop(struct vb_cross *cross);

/* Work that an executed ENABLE leaves to the engine (nic->enable_due). */
enum vb_enable_due {
	VB_ENABLE_SENDS = 1, /* send queues in the lists of waiters.h may go on */
	VB_ENABLE_WAKE = 2,  /* senders waited for receives that are posted now */
};
/* False: the QP was destroyed. */
bool vb_cross_enable(struct vb_nic *nic, const struct vb_cross *cross);

/* The time until the CQ is looked at again where no thread polls. */
uint64_t vb_cross_pause_ns(uint64_t waited_ns);

#endif
