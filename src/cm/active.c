/* SPDX-License-Identifier: BSD-2-Clause */
/* The active side: REQ, the REP that answers it, RTU. */
#include <errno.h>

#include "cm/impl.h"

static int check_params(const struct vb_cm_connect_params *params)
{
	if (params->qp_type != IBV_QPT_RC && params->qp_type != IBV_QPT_UC &&
	    params->qp_type != IBV_QPT_XRC_SEND)
		return -EINVAL;
	if (params->retry_count > 7 || params->rnr_retry_count > 7 || params->qpn > 0xffffff)
		return -EINVAL;
	if (params->mtu < IBV_MTU_256 || params->mtu > IBV_MTU_4096)
		return -EINVAL;
	return 0;
}

static int fill_private_data(struct vb_cm_req *req, const struct vb_cm_connect_params *params)
{
	size_t header = params->ip ? VB_CM_IP_SIZE : 0;
	int rc = vb_cm_fill(req->private_data + header, sizeof(req->private_data) - header,
			    params->private_data, params->private_data_length);

	if (!rc && params->ip)
		vb_cm_ip_emit(params->ip, req->private_data);
	return rc;
}

static void fill_qp(struct vb_cm_req *req, const struct vb_cm_connect_params *params)
{
	req->qpn = params->qpn;
	req->initiator_depth = params->initiator_depth;
	req->flow_control = params->flow_control;
	if (params->qp_type == IBV_QPT_XRC_SEND) {
		/* An XRC_SEND QP receives nothing, so it needs no responder values. */
		req->transport = VB_CM_TRANSPORT_EXTENDED;
		req->extended_transport = VB_CM_EXTENDED_XRC;
		return;
	}
	req->transport = params->qp_type == IBV_QPT_UC ? VB_CM_TRANSPORT_UC : VB_CM_TRANSPORT_RC;
	req->responder_resources = params->responder_resources;
	req->retry_count = params->retry_count;
	req->rnr_retry_count = params->rnr_retry_count;
	req->srq = params->srq;
}

static void fill_path(struct vb_cm_req *req, const struct vb_cm_connect_params *params)
{
	req->pkey = params->pkey ? params->pkey : VB_CM_PKEY;
	req->mtu = (uint8_t)params->mtu;
	if (params->alternate)
		req->alternate = *params->alternate;
	if (params->primary) {
		req->primary = *params->primary;
		return;
	}
	req->primary = (struct vb_cm_path){
		.local_lid = VB_CM_LID_PERMISSIVE,
		.remote_lid = VB_CM_LID_PERMISSIVE,
		.local_gid = params->route.local,
		.remote_gid = params->route.remote,
		.flow_label = params->flow_label,
		.traffic_class = params->route.traffic_class,
		.hop_limit = params->hop_limit ? params->hop_limit : VB_CM_HOP_LIMIT,
		.ack_timeout = params->ack_timeout ? params->ack_timeout : VB_CM_ACK_TIMEOUT,
	};
}

static int make_req(struct vb_cm_endpoint *endpoint, const struct vb_cm_connect_params *params)
{
	struct vb_cm_req *req = &endpoint->message.req;

	endpoint->message = (struct vb_cm_message){ .attribute = VB_CM_REQ,
						    .attribute_modifier = params->ece_options };
	req->vendor_id = params->ece_vendor_id;
	req->service_id = params->service_id;
	req->ca_guid = params->ca_guid;
	req->remote_cm_timeout = req->local_cm_timeout = VB_CM_TIMEOUT_EXPONENT;
	req->max_cm_retries = VB_CM_RETRIES;
	fill_qp(req, params);
	fill_path(req, params);
	return fill_private_data(req, params);
}

/* Each REQ has a new id and a new transaction id. */
static void name_req(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;

	vb_cm_file_local_id(endpoint);
	endpoint->transaction_id = cm->ops->random(cm->arg);
	endpoint->message.transaction_id = endpoint->transaction_id;
	endpoint->message.req.local_comm_id = endpoint->local_id;
}

int vb_cm_connect(struct vb_cm_endpoint *endpoint, const struct vb_cm_connect_params *params,
		  uint64_t now_ns)
{
	struct vb_cm *cm = endpoint->cm;
	int rc = endpoint->state == VB_CM_IDLE ? check_params(params) : -EINVAL;

	if (!rc)
		rc = make_req(endpoint, params);
	if (!rc)
		rc = vb_cm_enroll(endpoint);
	if (rc)
		return rc;
	cm->now_ns = now_ns;
	endpoint->state = VB_CM_REQ_SENT;
	endpoint->route = params->route;
	endpoint->host = vb_cm_host(cm, &params->route.remote);
	endpoint->service_id = params->service_id;
	endpoint->local_guid = params->ca_guid;
	endpoint->infiniband = params->primary;
	endpoint->local_qpn = params->qpn;
	endpoint->rq_psn = (uint32_t)cm->ops->random(cm->arg) & 0xffffff;
	endpoint->message.req.starting_psn = endpoint->rq_psn;
	endpoint->peer = (struct vb_cm_peer){ .qp_type = params->qp_type };
	endpoint->stale_tries = 0;
	endpoint->over = VB_CM_NOT_OVER;
	endpoint->asked_for_time = endpoint->disconnecting = false;
	endpoint->cm_timeout = VB_CM_TIMEOUT_EXPONENT;
	endpoint->cm_retries = VB_CM_RETRIES;
	name_req(endpoint);
	vb_cm_say_until_answered(endpoint, endpoint->cm_retries);
	return 0;
}

/*
 * The peer still had a connection with this QPN, that of a process which died, and ends it now.
 * Programs do not expect to hear of it.
 */
void vb_cm_connect_again(struct vb_cm_endpoint *endpoint)
{
	vb_cm_table_remove(&endpoint->cm->by_local_id, &endpoint->in_local_id);
	name_req(endpoint);
	vb_cm_wait(endpoint, VB_CM_RESEND_FIRST_NS << endpoint->stale_tries);
	endpoint->stale_tries++;
}

/* --- REP --- */

static struct vb_cm_peer peer_of_rep(const struct vb_cm_endpoint *endpoint,
				     const struct vb_cm_message *message)
{
	const struct vb_cm_rep *rep = &message->rep;
	bool xrc = endpoint->peer.qp_type == IBV_QPT_XRC_SEND;

	return (struct vb_cm_peer){
		.ca_guid = rep->ca_guid,
		.qpn = xrc ? rep->eecn : rep->qpn,
		.qp_type = endpoint->peer.qp_type,
		.sq_psn = rep->starting_psn,
		.responder_resources = rep->initiator_depth,
		.initiator_depth = rep->responder_resources,
		.rnr_retry_count = rep->rnr_retry_count,
		.target_ack_delay = rep->target_ack_delay,
		.flow_control = rep->flow_control,
		.srq = rep->srq,
		.ece_vendor_id = rep->vendor_id,
		.ece_options = message->attribute_modifier,
	};
}

void vb_cm_on_rep(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	struct vb_cm *cm = endpoint->cm;
	struct vb_cm_peer peer = peer_of_rep(endpoint, message);
	struct vb_cm_endpoint *old;
	struct vb_cm_event event;

	if (vb_cm_find_remote_id(cm, &endpoint->host, message->rep.local_comm_id, false)) {
		vb_cm_drop(cm, VB_CM_DROP_STALE);
		return;
	}
	/*
	 * A dead process had the peer's QPN before, and its connection still exists here. Linux
	 * refuses the new connection, but QPNs return soon here, so the old one ends. A user cannot
	 * end the connection of another user by naming its QP.
	 */
	old = vb_cm_find_remote_qpn(cm, &endpoint->host, peer.qpn);
	if (old && old->route.user == endpoint->route.user)
		vb_cm_stale(old);
	endpoint->state = VB_CM_REP_RECEIVED;
	endpoint->remote_id = message->rep.local_comm_id;
	endpoint->remote_qpn = peer.qpn;
	endpoint->peer = peer;
	vb_cm_file_remote_id(endpoint);
	vb_cm_file_remote_qpn(endpoint);
	vb_cm_wait(endpoint, VB_NEVER_NS);
	event = vb_cm_event(endpoint, VB_CM_EVENT_REP_RECEIVED, message);
	event.peer = peer;
	vb_cm_raise(endpoint, &event);
}

void vb_cm_on_rep_again_mra(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	struct vb_cm_message mra = { .attribute = VB_CM_MRA,
				     .transaction_id = endpoint->transaction_id };

	vb_cm_duplicate(endpoint->cm, message);
	endpoint->asked_for_time = true;
	mra.mra.local_comm_id = endpoint->local_id;
	mra.mra.remote_comm_id = endpoint->remote_id;
	mra.mra.answers = VB_CM_ANSWERS_REP;
	mra.mra.service_timeout = VB_CM_SERVICE_EXPONENT;
	vb_cm_say(endpoint, &mra);
}

/* --- RTU --- */

static void make_rtu(struct vb_cm_endpoint *endpoint)
{
	endpoint->message = (struct vb_cm_message){ .attribute = VB_CM_RTU,
						    .transaction_id = endpoint->transaction_id };
	endpoint->message.rtu.local_comm_id = endpoint->local_id;
	endpoint->message.rtu.remote_comm_id = endpoint->remote_id;
}

/* At the passive side, which gets no REP, endpoint->message is no RTU. */
void vb_cm_on_rep_again_rtu(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_duplicate(endpoint->cm, message);
	if (endpoint->message.attribute == VB_CM_RTU)
		vb_cm_say_again(endpoint);
}

int vb_cm_establish(struct vb_cm_endpoint *endpoint, uint64_t now_ns)
{
	endpoint->cm->now_ns = now_ns;
	if (endpoint->over)
		return endpoint->over == VB_CM_DISCONNECTED ? 0 : -ENOTCONN;
	if (endpoint->state != VB_CM_REP_RECEIVED)
		return -EINVAL;
	endpoint->state = VB_CM_ESTABLISHED;
	make_rtu(endpoint);
	if (endpoint->asked_for_time)
		vb_cm_say_until_answered(endpoint, VB_CM_MRA_REPEATS);
	else
		vb_cm_say(endpoint, &endpoint->message);
	return 0;
}
