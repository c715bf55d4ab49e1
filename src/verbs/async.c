/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/adversary.h"
#include "base/annotate.h"
#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "engine/engine.h"
#include "nic/context.h"
#include "nic/given.h"
#include "system/forward.h"
#include "verbs/adversary.h"

VB_PUBLIC int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_get_async_event, (context, event));
	VB_CANCEL_POINT;
	struct vb_nic *nic = vb_nic_current();
	int err;

	/* A program without QPs waits for port events: the service thread watches for them. */
	if (nic && !nic->engine)
		vb_engine_start(nic);
	err = vb_async_take(context, event);
	if (!err) {
		vb_tell_filled(event, sizeof(*event));
		vb_given_tell_all();
		if (vb_adversary_on())
			vb_adversary_saw_event(event);
	}
	return vb_return_minus_one(err);
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
	vb_tell_returns();
}

/* True: the event is one of an object of the system's library. Other events need no answer. */
static bool is_systems(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
	case IBV_EVENT_WQ_FATAL:
		return vb_system_has(event->element.qp); /* any member: all are pointers */
	default:
		return false;
	}
}

VB_PUBLIC void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (vb_system_on() && is_systems(event)) {
		vb_system_ibv_ack_async_event(event);
		return;
	}
	VB_NO_CANCEL;
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;
	struct ibv_wq *wq = event->element.wq;

	vb_tell_release(event->element.qp); /* all members of the union are pointers */
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
		return;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
		return;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
		return;
	case IBV_EVENT_WQ_FATAL:
		acknowledge(&wq->mutex, &wq->cond, &wq->events_completed);
		return;
	default:
		return; /* an event of a port or the device: no call waits for it */
	}
}
