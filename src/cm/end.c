/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a connection: DREQ, DREP and timewait. */
#include <errno.h>

#include "cm/impl.h"

void vb_cm_send_dreq(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;

	endpoint->message = (struct vb_cm_message){ .attribute = VB_CM_DREQ,
						    .transaction_id = cm->ops->random(cm->arg) };
	endpoint->message.dreq.local_comm_id = endpoint->local_id;
	endpoint->message.dreq.remote_comm_id = endpoint->remote_id;
	endpoint->message.dreq.remote_qpn = endpoint->remote_qpn;
	endpoint->state = VB_CM_DREQ_SENT;
	/* The peer may use its QP for a new connection from now on. */
	vb_cm_unfile_qpns(endpoint);
	vb_cm_say_until_answered(endpoint, endpoint->cm_retries);
}

int vb_cm_disconnect(struct vb_cm_endpoint *endpoint, uint64_t now_ns)
{
	endpoint->cm->now_ns = now_ns;
	switch (endpoint->state) {
	case VB_CM_ESTABLISHED:
		vb_cm_send_dreq(endpoint);
		return 0;
	case VB_CM_DREQ_RECEIVED:
		vb_cm_answer_dreq(endpoint);
		return 0;
	case VB_CM_REP_SENT:
		/* There is no connection yet. The DREQ follows the RTU, if one comes. */
		endpoint->disconnecting = true;
		return 0;
	case VB_CM_DREQ_SENT:
	case VB_CM_TIMEWAIT:
		return 0;
	case VB_CM_IDLE:
	case VB_CM_LISTEN:
	case VB_CM_REQ_SENT:
	case VB_CM_REQ_RECEIVED:
	case VB_CM_REP_RECEIVED:
	case VB_CM_REJECTED:
	case VB_CM_SIDR_REQ_SENT:
	case VB_CM_SIDR_REQ_RECEIVED:
	case VB_CM_SIDR_REP_SENT:
	case VB_CM_STATES:
		break;
	}
	return -EINVAL;
}

/* --- timewait --- */

/* Ends the connection: the endpoint stays in this state for wait_ns. */
static void end_connection(struct vb_cm_endpoint *endpoint, enum vb_cm_state state,
			   uint64_t wait_ns, const struct vb_cm_message *message, unsigned reason)
{
	struct vb_cm_event event = vb_cm_event(endpoint, VB_CM_EVENT_DISCONNECTED, message);

	event.reason = reason;
	if (endpoint->state == VB_CM_REP_RECEIVED)
		endpoint->over = VB_CM_DISCONNECTED;
	endpoint->state = state;
	vb_cm_unfile_qpns(endpoint);
	vb_cm_wait(endpoint, wait_ns);
	vb_cm_raise(endpoint, &event);
}

void vb_cm_enter_timewait(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message,
			  unsigned reason)
{
	end_connection(endpoint, VB_CM_TIMEWAIT, VB_CM_TIMEWAIT_NS, message, reason);
}

void vb_cm_timewait_exit(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_event event = vb_cm_event(endpoint, VB_CM_EVENT_TIMEWAIT_EXIT, NULL);

	vb_cm_finish(endpoint, endpoint->never_was ? NULL : &event);
}

/* --- DREQ and DREP --- */

static struct vb_cm_message make_drep(const struct vb_cm_endpoint *endpoint,
				      const struct vb_cm_message *dreq)
{
	struct vb_cm_message drep = { .attribute = VB_CM_DREP,
				      .transaction_id = dreq->transaction_id };

	drep.drep.local_comm_id = endpoint->local_id;
	drep.drep.remote_comm_id = endpoint->remote_id;
	return drep;
}

static void send_drep(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *dreq)
{
	const struct vb_cm_message drep = make_drep(endpoint, dreq);

	vb_cm_say(endpoint, &drep);
}

static bool is_for_our_qp(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	if (message->dreq.remote_qpn == endpoint->local_qpn)
		return true;
	vb_cm_drop(endpoint->cm, VB_CM_DROP_QPN);
	return false;
}

/*
 * The application answers, as on Linux: it disconnects, or destroys its endpoint. So the peer's
 * application hears of the end after this one, and programs count on that. If the application does
 * not answer, the timer does, after the time that the REQ grants to answers.
 */
void vb_cm_on_dreq(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	if (!is_for_our_qp(endpoint, message))
		return;
	endpoint->message = make_drep(endpoint, message);
	end_connection(endpoint, VB_CM_DREQ_RECEIVED, vb_cm_response_ns(endpoint), message, 0);
}

void vb_cm_answer_dreq(struct vb_cm_endpoint *endpoint)
{
	endpoint->state = VB_CM_TIMEWAIT;
	vb_cm_wait(endpoint, VB_CM_TIMEWAIT_NS);
	vb_cm_say(endpoint, &endpoint->message);
}

/* Both applications have disconnected, so neither has to answer. */
void vb_cm_on_dreq_crossing(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	if (!is_for_our_qp(endpoint, message))
		return;
	send_drep(endpoint, message);
	vb_cm_enter_timewait(endpoint, message, 0);
}

/* The peer repeats its DREQ, and the application has not answered yet. */
void vb_cm_on_dreq_waiting(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	if (is_for_our_qp(endpoint, message))
		vb_cm_duplicate(endpoint->cm, message);
}

/* The RTU was lost: the peer was connected, so this side was, too. */
void vb_cm_on_dreq_early(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	const bool decided = endpoint->disconnecting;

	if (!is_for_our_qp(endpoint, message))
		return;
	endpoint->disconnecting = false;
	vb_cm_establish_passive(endpoint, NULL);
	if (decided)
		vb_cm_on_dreq_crossing(endpoint, message);
	else
		vb_cm_on_dreq(endpoint, message);
}

void vb_cm_on_dreq_again(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_duplicate(endpoint->cm, message);
	send_drep(endpoint, message);
}

void vb_cm_on_drep(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_enter_timewait(endpoint, message, 0);
}
