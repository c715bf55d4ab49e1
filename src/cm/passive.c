/* SPDX-License-Identifier: BSD-2-Clause */
/* The passive side: listening, REP, and RTU. */
#include <errno.h>

#include "cm/impl.h"

/* The type of QPs that connect to QPs of this type. */
static enum ibv_qp_type other_half(enum ibv_qp_type type)
{
	return type == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND : type;
}

int vb_cm_listen(struct vb_cm_endpoint *endpoint, const struct vb_cm_listen_params *params)
{
	uint32_t backlog = params->backlog;

	if (endpoint->state != VB_CM_IDLE)
		return -EINVAL;
	if (vb_cm_find_listener(endpoint->cm, params))
		return -EADDRINUSE;
	endpoint->state = VB_CM_LISTEN;
	endpoint->service_id = params->service_id;
	endpoint->family = params->family;
	endpoint->address = params->address;
	endpoint->scope = params->scope;
	endpoint->takes = other_half(params->qp_type);
	endpoint->backlog = !backlog || backlog > VB_CM_BACKLOG_MAX ? VB_CM_BACKLOG_MAX : backlog;
	vb_cm_file_service(endpoint);
	return 0;
}

/* --- REP --- */

static int make_rep(struct vb_cm_endpoint *endpoint, const struct vb_cm_accept_params *params)
{
	struct vb_cm_rep *rep = &endpoint->message.rep;

	endpoint->message = (struct vb_cm_message){ .attribute = VB_CM_REP,
						    .transaction_id = endpoint->transaction_id,
						    .attribute_modifier = params->ece_options };
	rep->local_comm_id = endpoint->local_id;
	rep->remote_comm_id = endpoint->remote_id;
	rep->starting_psn = endpoint->rq_psn;
	rep->vendor_id = params->ece_vendor_id;
	rep->ca_guid = params->ca_guid;
	rep->responder_resources = params->responder_resources;
	rep->target_ack_delay =
		params->target_ack_delay ? params->target_ack_delay : VB_CM_TARGET_ACK_DELAY;
	rep->rnr_retry_count = params->rnr_retry_count;
	if (endpoint->peer.qp_type == IBV_QPT_XRC_SEND) {
		rep->srq = true;
		rep->eecn = params->qpn;
	} else {
		rep->srq = params->srq;
		rep->qpn = params->qpn;
		rep->initiator_depth = params->initiator_depth;
		rep->flow_control = params->flow_control;
	}
	return vb_cm_fill(rep->private_data, sizeof(rep->private_data), params->private_data,
			  params->private_data_length);
}

int vb_cm_accept(struct vb_cm_endpoint *endpoint, const struct vb_cm_accept_params *params,
		 uint64_t now_ns)
{
	int rc = -EINVAL;

	if (endpoint->state == VB_CM_REQ_RECEIVED && params->qpn <= 0xffffff &&
	    params->rnr_retry_count <= 7)
		rc = make_rep(endpoint, params);
	if (rc)
		return rc;
	endpoint->cm->now_ns = now_ns;
	endpoint->state = VB_CM_REP_SENT;
	endpoint->local_guid = params->ca_guid;
	endpoint->local_qpn = params->qpn;
	vb_cm_leave_listener(endpoint);
	vb_cm_file_local_qpn(endpoint);
	vb_cm_say_until_answered(endpoint, endpoint->cm_retries);
	return 0;
}

/* The peer repeats its request, so it has no REP yet. The timer goes on as before. */
void vb_cm_on_again(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_duplicate(endpoint->cm, message);
	vb_cm_say_again(endpoint);
}

/* The answer was lost before, and may be lost again: it is kept for longer. */
void vb_cm_on_again_kept(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_on_again(endpoint, message);
	if (!endpoint->resends_max)
		vb_cm_wait(endpoint, VB_CM_ANSWER_KEPT_NS);
}

void vb_cm_ask_for_time(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_message mra = { .attribute = VB_CM_MRA,
				     .transaction_id = endpoint->transaction_id };

	endpoint->asked_for_time = true;
	mra.mra.local_comm_id = endpoint->local_id;
	mra.mra.remote_comm_id = endpoint->remote_id;
	mra.mra.answers = VB_CM_ANSWERS_REQ;
	mra.mra.service_timeout = VB_CM_SERVICE_EXPONENT;
	vb_cm_say(endpoint, &mra);
}

/* The application has not answered yet. */
void vb_cm_on_req_again_mra(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_duplicate(endpoint->cm, message);
	vb_cm_ask_for_time(endpoint);
}

/* A late copy of a request whose connection is over. */
void vb_cm_on_req_again_stale(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_duplicate(endpoint->cm, message);
	vb_cm_refuse(endpoint->cm, &endpoint->route, message, VB_CM_REJ_STALE, NULL, 0);
}

/* --- RTU, or data that prove as much --- */

void vb_cm_establish_passive(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	struct vb_cm_event event = vb_cm_event(endpoint, VB_CM_EVENT_ESTABLISHED, message);
	bool disconnecting = endpoint->disconnecting;

	endpoint->state = VB_CM_ESTABLISHED;
	vb_cm_table_remove(&endpoint->cm->by_local_qpn, &endpoint->in_local_qpn);
	vb_cm_wait(endpoint, VB_NEVER_NS);
	vb_cm_raise(endpoint, &event);
	if (disconnecting)
		vb_cm_send_dreq(endpoint);
}

void vb_cm_on_rtu(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_establish_passive(endpoint, message);
}

int vb_cm_notify(struct vb_cm_endpoint *endpoint, uint64_t now_ns)
{
	endpoint->cm->now_ns = now_ns;
	if (endpoint->state == VB_CM_ESTABLISHED)
		return -EISCONN;
	if (endpoint->state != VB_CM_REP_SENT)
		return -EINVAL;
	vb_cm_establish_passive(endpoint, NULL);
	return 0;
}

void vb_cm_data_arrived(struct vb_cm *cm, uint32_t qpn, uint64_t now_ns)
{
	struct vb_cm_endpoint *endpoint = vb_cm_find_local_qpn(cm, qpn);

	if (endpoint && !endpoint->orphan)
		vb_cm_notify(endpoint, now_ns);
}
