/* SPDX-License-Identifier: BSD-2-Clause */
/* The timers of endpoints: repeating messages, giving up, the end of timewait. */
#include <errno.h>

#include "cm/impl.h"

/* The REJ tells the peer that this side has given up, so that both sides end. */
void vb_cm_unreachable(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_event event = vb_cm_event(endpoint, VB_CM_EVENT_UNREACHABLE, NULL);
	struct vb_cm_message rej;

	event.status = -ETIMEDOUT;
	if (endpoint->state != VB_CM_SIDR_REQ_SENT) {
		rej = vb_cm_make_rej(endpoint, VB_CM_REJ_TIMEOUT);
		vb_cm_say(endpoint, &rej);
	}
	vb_cm_finish(endpoint, &event);
}

static void give_up(struct vb_cm_endpoint *endpoint)
{
	switch (endpoint->state) {
	case VB_CM_REQ_SENT:
	case VB_CM_REP_SENT:
	case VB_CM_SIDR_REQ_SENT:
		vb_cm_unreachable(endpoint);
		break;
	case VB_CM_DREQ_SENT:
		vb_cm_enter_timewait(endpoint, NULL, 0);
		break;
	case VB_CM_REJECTED:
		endpoint->resends_max = 0;
		vb_cm_wait(endpoint, VB_CM_ANSWER_KEPT_NS);
		break;
	case VB_CM_ESTABLISHED:
		break; /* the RTU was repeated often enough */
	case VB_CM_IDLE:
	case VB_CM_LISTEN:
	case VB_CM_REQ_RECEIVED:
	case VB_CM_REP_RECEIVED:
	case VB_CM_DREQ_RECEIVED:
	case VB_CM_TIMEWAIT:
	case VB_CM_SIDR_REQ_RECEIVED:
	case VB_CM_SIDR_REP_SENT:
	case VB_CM_STATES:
		break; /* these states repeat nothing */
	}
}

static void resend(struct vb_cm_endpoint *endpoint)
{
	if (endpoint->resends >= endpoint->resends_max) {
		give_up(endpoint);
		return;
	}
	endpoint->resends++;
	endpoint->resend_after_ns *= 2;
	if (endpoint->resend_after_ns > endpoint->resend_cap_ns)
		endpoint->resend_after_ns = endpoint->resend_cap_ns;
	vb_cm_wait_for_answer(endpoint);
	vb_cm_say_again(endpoint);
}

static void fire(struct vb_cm_endpoint *endpoint)
{
	switch (endpoint->state) {
	case VB_CM_DREQ_RECEIVED:
		vb_cm_answer_dreq(endpoint);
		break;
	case VB_CM_TIMEWAIT:
		vb_cm_timewait_exit(endpoint);
		break;
	case VB_CM_SIDR_REP_SENT:
		vb_cm_finish(endpoint, NULL);
		break;
	case VB_CM_REJECTED:
		if (endpoint->resends_max)
			resend(endpoint);
		else
			vb_cm_finish(endpoint, NULL);
		break;
	case VB_CM_REQ_SENT:
	case VB_CM_REP_SENT:
	case VB_CM_ESTABLISHED:
	case VB_CM_DREQ_SENT:
	case VB_CM_SIDR_REQ_SENT:
		resend(endpoint);
		break;
	case VB_CM_IDLE:
	case VB_CM_LISTEN:
	case VB_CM_REQ_RECEIVED:
	case VB_CM_REP_RECEIVED:
	case VB_CM_SIDR_REQ_RECEIVED:
	case VB_CM_STATES:
		break; /* these states have no timer */
	}
}

void vb_cm_tick(struct vb_cm *cm, uint64_t now_ns)
{
	struct vb_timer *timer;

	cm->now_ns = now_ns;
	while ((timer = vb_timers_pop(&cm->timers, now_ns)))
		fire(vb_container(timer, struct vb_cm_endpoint, timer));
}

uint64_t vb_cm_next_ns(const struct vb_cm *cm)
{
	return vb_timers_next_ns(&cm->timers);
}

/* --- MRA: the peer has the message, and needs time --- */

static void extend(struct vb_cm_endpoint *endpoint, uint8_t exponent)
{
	if (exponent > VB_CM_SERVICE_EXPONENT)
		exponent = VB_CM_SERVICE_EXPONENT;
	vb_cm_wait(endpoint, vb_cm_exponent_ns(exponent) + endpoint->resend_cap_ns);
}

void vb_cm_on_mra_req(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	if (message->mra.answers != VB_CM_ANSWERS_REQ) {
		vb_cm_drop(endpoint->cm, VB_CM_DROP_STATE);
		return;
	}
	endpoint->mra_id = message->mra.local_comm_id;
	extend(endpoint, message->mra.service_timeout);
	if (endpoint->cm->ops->waits)
		endpoint->cm->ops->waits(endpoint->cm->arg, endpoint);
}

void vb_cm_on_mra_rep(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	if (message->mra.answers != VB_CM_ANSWERS_REP) {
		vb_cm_drop(endpoint->cm, VB_CM_DROP_STATE);
		return;
	}
	extend(endpoint, message->mra.service_timeout);
}
