/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that found no receive. The engine tells of them under its locks, so they are put down,
 * and the next call of the program reports them.
 */
#include "wire/rnr.h"

#include <inttypes.h>

#include "check/check.h"
#include "check/engine.h"
#include "check/report.h"

enum { TOLD_MAX = 64 };

static _Atomic uint32_t told[TOLD_MAX]; /* QP numbers; 0: free */
static _Atomic bool any;

static void no_receive(uint32_t qpn)
{
	for (int i = 0; i < TOLD_MAX; i++) {
		uint32_t there = 0;

		if (atomic_load(&told[i]) == qpn ||
		    atomic_compare_exchange_strong(&told[i], &there, qpn))
			break;
	}
	atomic_store(&any, true);
}

void vb_check_watch_rnr(void)
{
	const struct vb_engine_table *engine = vb_check_engine();

	if (engine)
		engine->on_no_receive(no_receive);
}

/* The oldest message that needs a receive. */
static const struct vb_work *oldest_message(struct vb_object *qp)
{
	for (uint32_t i = qp->sends.head; !qp->sends.lost && i != qp->sends.tail; i++)
		if (vb_queue_at(&qp->sends, i)->needs_receive)
			return vb_queue_at(&qp->sends, i);
	return NULL;
}

static void tell(struct vb_object *qp)
{
	const struct vb_work *work = oldest_message(qp);
	const struct vb_stack *stack = work ? work->stack : qp->made;

	vb_report(VB_RULE_RNR, VB_CALLS({ work ? "posted by" : "QP made by", stack }),
		  "A message of QP 0x%06x found no receive at its peer. rnr_retry is %u: %s",
		  qp->qpn, qp->rnr_retry,
		  qp->rnr_retry == VB_RNR_RETRY_FOREVER
			  ? "it waits for ever, and a NIC waits min_rnr_timer each time."
			  : "it fails when the peer is slower.");
}

void vb_check_tell_rnr(void)
{
	if (__builtin_expect(!atomic_load_explicit(&any, memory_order_relaxed), 1))
		return;
	vb_check_enter();
	atomic_store(&any, false);
	for (int i = 0; i < TOLD_MAX; i++) {
		const uint32_t qpn = atomic_exchange(&told[i], 0);
		struct vb_object *qp = qpn ? vb_object_of_qpn(qpn) : NULL;

		if (qp && !atomic_load(&qp->gone))
			tell(qp);
	}
	vb_check_leave();
}
