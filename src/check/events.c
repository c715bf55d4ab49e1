/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaced calls: events, and their acknowledgement. */
#include <time.h>

#include "check/check.h"
#include "check/report.h"

enum { PATIENCE_MS = 1000 };

static unsigned async_events, async_acked;
static const struct vb_stack *async_stack;

static void leave_channel(void *object)
{
	if (object)
		atomic_store(&((struct vb_object *)object)->user, NULL);
}

/* Several threads may wait. One that waits may be cancelled. */
static int wait_for_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context,
			  const struct vb_stack *stack)
{
	struct vb_object *object = vb_object_of(channel);
	int result;

	if (object)
		atomic_store(&object->user, stack);
	pthread_cleanup_push(leave_channel, object);
	result = VB_CHECK_REAL(ibv_get_cq_event)(channel, cq, cq_context);
	pthread_cleanup_pop(1);
	return result;
}

VB_PUBLIC int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			       void **cq_context)
{
	const struct vb_stack *stack = VB_HERE();
	int result = wait_for_event(channel, cq, cq_context, stack);
	struct vb_object *object = result ? NULL : vb_object_of(*cq);

	if (object) {
		vb_check_enter();
		object->events++;
		object->event_stack = stack;
		vb_check_leave();
	}
	return result;
}

VB_PUBLIC void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	struct vb_object *object = vb_object_of(cq);

	if (object) {
		vb_check_enter();
		object->events_acked += count;
		vb_check_leave();
	}
	VB_CHECK_REAL(ibv_ack_cq_events)(cq, count);
}

VB_PUBLIC int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	const struct vb_stack *stack = VB_HERE();
	int result = VB_CHECK_REAL(ibv_get_async_event)(context, event);

	if (!result) {
		vb_check_enter();
		async_events++;
		async_stack = stack;
		vb_check_leave();
	}
	return result;
}

VB_PUBLIC void ibv_ack_async_event(struct ibv_async_event *event)
{
	vb_check_enter();
	async_acked++;
	vb_check_leave();
	VB_CHECK_REAL(ibv_ack_async_event)(event);
}

static unsigned missing(const struct vb_object *cq)
{
	unsigned count;

	vb_check_enter();
	count = cq->events > cq->events_acked ? cq->events - cq->events_acked : 0;
	vb_check_leave();
	return count;
}

/* Another thread may be about to acknowledge. At last the check does it: the program goes on. */
void vb_check_unacked(struct vb_object *cq, const struct vb_stack *stack)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	unsigned count;

	for (int i = 0; i < PATIENCE_MS && missing(cq); i++)
		nanosleep(&moment, NULL);
	count = missing(cq);
	if (!count)
		return;
	vb_report(VB_RULE_UNACKED,
		  VB_CALLS({ "events taken by", cq->event_stack }, { "destroyed by", stack },
			   { "CQ made by", cq->made }),
		  "%u events of the CQ were taken by ibv_get_cq_event and not given back by "
		  "ibv_ack_cq_events: ibv_destroy_cq would wait for ever.",
		  count);
	VB_CHECK_REAL(ibv_ack_cq_events)(cq->handle, count);
}

void vb_check_async_unacked(void)
{
	if (async_events > async_acked)
		vb_report(
			VB_RULE_UNACKED, VB_CALLS({ "taken by", async_stack }),
			"%u events of ibv_get_async_event were not acknowledged: the objects that "
			"they are about cannot be destroyed.",
			async_events - async_acked);
}
