/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of an object, and of the program. */
#include <inttypes.h>

#include "check/check.h"
#include "check/report.h"
#include "check/watch.h"

/* A signaled send whose completion the program has not seen. */
static struct vb_work *first_in_flight(struct vb_object *qp, const struct vb_object *mr)
{
	for (uint32_t i = qp->sends.head; !qp->sends.lost && i != qp->sends.tail; i++) {
		struct vb_work *work = vb_queue_at(&qp->sends, i);

		if (work->signaled && !mr)
			return work;
		for (uint16_t j = 0; work->signaled && j < work->piece_count; j++)
			if (vb_work_pieces(work)[j].lkey == mr->lkey)
				return work;
	}
	return NULL;
}

static void report_in_flight(struct vb_object *object, const struct vb_object *qp,
			     const struct vb_work *work, const char *call,
			     const struct vb_stack *stack)
{
	vb_report(VB_RULE_IN_FLIGHT,
		  VB_CALLS({ "destroyed by", stack }, { "posted by", work->stack }),
		  "%s was called for a %s while the completion of send wr_id %" PRIu64
		  " of QP 0x%06x had not been polled: on a NIC the work may be under way.",
		  call, vb_kind_name(object->kind), work->wr_id, qp->qpn);
}

static void unpolled(struct vb_object *cq, const struct vb_stack *stack)
{
	if (!cq->polls && cq->sends_signaled)
		vb_report(VB_RULE_UNPOLLED,
			  VB_CALLS({ "CQ made by", cq->made }, { "destroyed by", stack }),
			  "%" PRIu64 " signaled sends were posted for the CQ, and it was never "
			  "polled: whether they failed is not known.",
			  cq->sends_signaled);
}

/* Has the call to do with the work of this QP? In ERR and RESET no work is under way. */
static bool concerns(const struct vb_object *object, const struct vb_object *qp)
{
	if (qp->kind != VB_KIND_QP || atomic_load(&qp->gone) || qp->state != IBV_QPS_RTS)
		return false;
	return object->kind == VB_KIND_MR || object == qp;
}

void vb_check_in_flight(struct vb_object *object, const char *call, const struct vb_stack *stack)
{
	struct vb_object *qp;
	struct vb_work *work;

	vb_check_enter();
	if (object->kind == VB_KIND_CQ)
		unpolled(object, stack);
	for (qp = vb_objects_first(); qp; qp = qp->next) {
		if (!concerns(object, qp))
			continue;
		work = first_in_flight(qp, object->kind == VB_KIND_MR ? object : NULL);
		if (work && qp->send_cq->polls)
			report_in_flight(object, qp, work, call, stack);
	}
	vb_check_leave();
}

/* --- leaks --- */

static unsigned count_alike(const struct vb_object *first)
{
	unsigned count = 0;

	for (const struct vb_object *other = first; other; other = other->next)
		count += other->kind == first->kind && other->made == first->made &&
			 !atomic_load(&other->gone);
	return count;
}

static void leaked(struct vb_object *object)
{
	const unsigned count = count_alike(object);

	vb_report(VB_RULE_LEAK, VB_CALLS({ "made by", object->made }),
		  "%u %s%s made here %s still there when the program ended.", count,
		  vb_kind_name(object->kind), count == 1 ? "" : "s", count == 1 ? "was" : "were");
}

void vb_check_async_unacked(void);

/* The newest objects come first in the list, and last in the reports of others. */
void vb_check_at_end(void)
{
	vb_check_tell_rnr();
	vb_check_enter();
	vb_watch_tell();
	vb_check_leave();
	for (struct vb_object *object = vb_objects_first(); object; object = object->next) {
		if (atomic_load(&object->gone))
			continue;
		if (object->kind == VB_KIND_CQ)
			unpolled(object, NULL);
		if (object->kind == VB_KIND_CQ && object->events > object->events_acked)
			vb_report(VB_RULE_UNACKED,
				  VB_CALLS({ "events taken by", object->event_stack },
					   { "CQ made by", object->made }),
				  "%u events of a CQ were never acknowledged by ibv_ack_cq_events.",
				  object->events - object->events_acked);
		if (!object->by_library)
			leaked(object);
	}
	vb_check_async_unacked();
}
