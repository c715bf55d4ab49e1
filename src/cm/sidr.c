/* SPDX-License-Identifier: BSD-2-Clause */
/* Service id resolution: one message asks which QP takes the datagrams for a port, one answers. */
#include <errno.h>

#include "cm/impl.h"

/* --- active --- */

static int make_sidr_req(struct vb_cm_endpoint *endpoint, const struct vb_cm_sidr_params *params)
{
	struct vb_cm_sidr_req *req = &endpoint->message.sidr_req;
	size_t header = params->ip ? VB_CM_IP_SIZE : 0;
	int rc;

	endpoint->message = (struct vb_cm_message){ .attribute = VB_CM_SIDR_REQ };
	req->pkey = params->pkey ? params->pkey : VB_CM_PKEY;
	req->service_id = params->service_id;
	rc = vb_cm_fill(req->private_data + header, sizeof(req->private_data) - header,
			params->private_data, params->private_data_length);
	if (!rc && params->ip)
		vb_cm_ip_emit(params->ip, req->private_data);
	return rc;
}

int vb_cm_sidr_request(struct vb_cm_endpoint *endpoint, const struct vb_cm_sidr_params *params,
		       uint64_t now_ns)
{
	struct vb_cm *cm = endpoint->cm;
	int rc = endpoint->state == VB_CM_IDLE ? make_sidr_req(endpoint, params) : -EINVAL;

	if (!rc)
		rc = vb_cm_enroll(endpoint);
	if (rc)
		return rc;
	cm->now_ns = now_ns;
	endpoint->state = VB_CM_SIDR_REQ_SENT;
	endpoint->route = params->route;
	endpoint->host = vb_cm_host(cm, &params->route.remote);
	endpoint->service_id = params->service_id;
	endpoint->cm_timeout = VB_CM_TIMEOUT_EXPONENT;
	endpoint->cm_retries = VB_CM_RETRIES;
	vb_cm_file_local_id(endpoint);
	endpoint->transaction_id = cm->ops->random(cm->arg);
	endpoint->message.transaction_id = endpoint->transaction_id;
	endpoint->message.sidr_req.request_id = endpoint->local_id;
	vb_cm_say_until_answered(endpoint, endpoint->cm_retries);
	return 0;
}

void vb_cm_on_sidr_rep(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	struct vb_cm_event event = vb_cm_event(endpoint, VB_CM_EVENT_SIDR_REP_RECEIVED, message);

	event.sidr_status = message->sidr_rep.status;
	event.sidr_qpn = message->sidr_rep.qpn;
	event.sidr_qkey = message->sidr_rep.qkey;
	vb_cm_finish(endpoint, &event);
}

/* --- passive --- */

static void open_sidr_endpoint(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	endpoint->transaction_id = message->transaction_id;
	endpoint->remote_id = message->sidr_req.request_id;
	endpoint->message = (struct vb_cm_message){ .attribute = VB_CM_SIDR_REP };
	vb_cm_file_remote_id(endpoint);
}

static void deliver_sidr_req(struct vb_cm_endpoint *listener, const struct vb_cm_route *route,
			     const struct vb_cm_message *message, const struct vb_cm_ip *ip)
{
	struct vb_cm_endpoint *endpoint = vb_cm_incoming(listener, route, VB_CM_SIDR_REQ_RECEIVED);
	struct vb_cm_event event;

	if (!endpoint)
		return;
	open_sidr_endpoint(endpoint, message);
	event = vb_cm_event(endpoint, VB_CM_EVENT_SIDR_REQ_RECEIVED, message);
	vb_cm_raise_incoming(endpoint, &event, listener, ip);
}

static bool sidr_seen_before(struct vb_cm *cm, const struct vb_cm_route *route,
			     const struct vb_cm_message *message)
{
	union ibv_gid host = vb_cm_host(cm, &route->remote);
	struct vb_cm_endpoint *old =
		vb_cm_find_remote_id(cm, &host, message->sidr_req.request_id, true);

	if (!old)
		return false;
	if (old->transaction_id == message->transaction_id)
		vb_cm_dispatch(old, message);
	else
		vb_cm_drop(cm, VB_CM_DROP_STALE);
	return true;
}

void vb_cm_input_sidr_req(struct vb_cm *cm, const struct vb_cm_route *route,
			  const struct vb_cm_message *message)
{
	const struct vb_cm_sidr_req *req = &message->sidr_req;
	struct vb_cm_endpoint *listener;
	struct vb_cm_message answer;
	struct vb_cm_ip ip;
	struct vb_cm_port port;
	bool has_ip;
	/* A SIDR_REQ has no path: it may be for the InfiniBand port, if this host has one. */
	const bool by_gid = vb_cm_port(cm, &port);
	int rc = vb_cm_check_addresses(cm, route, req->service_id, req->private_data, by_gid, &ip,
				       &has_ip);

	if (rc) {
		vb_cm_drop(cm, rc == -EPROTO ? VB_CM_DROP_MALFORMED : VB_CM_DROP_ADDRESS);
		return;
	}
	if (!vb_cm_in_partition(cm, req->pkey)) {
		vb_cm_drop(cm, VB_CM_DROP_PKEY);
		return;
	}
	if (sidr_seen_before(cm, route, message))
		return;
	listener = vb_cm_find_service(cm, req->service_id,
				      has_ip   ? &ip.dst
				      : by_gid ? &port.gid
					       : &route->local,
				      route->scope);
	if (listener && vb_cm_takes(listener, IBV_QPT_UD)) {
		deliver_sidr_req(listener, route, message, has_ip ? &ip : NULL);
	} else {
		vb_cm_drop(cm, VB_CM_DROP_SERVICE);
		if (vb_cm_stray(message, &answer))
			vb_cm_answer(cm, route, &answer);
	}
}

/* Adds the ids to the SIDR_REP in endpoint->message, and sends it. */
void vb_cm_sidr_answer(struct vb_cm_endpoint *endpoint)
{
	endpoint->message.transaction_id = endpoint->transaction_id;
	endpoint->message.sidr_rep.request_id = endpoint->remote_id;
	endpoint->message.sidr_rep.service_id = endpoint->service_id;
	endpoint->state = VB_CM_SIDR_REP_SENT;
	vb_cm_leave_listener(endpoint);
	vb_cm_wait(endpoint, VB_CM_ANSWER_KEPT_NS);
	vb_cm_say(endpoint, &endpoint->message);
}

int vb_cm_sidr_reply(struct vb_cm_endpoint *endpoint, const struct vb_cm_sidr_reply_params *params,
		     uint64_t now_ns)
{
	struct vb_cm_message rep = { .attribute = VB_CM_SIDR_REP,
				     .attribute_modifier = params->ece_options };
	int rc;

	if (endpoint->state != VB_CM_SIDR_REQ_RECEIVED || params->qpn > 0xffffff)
		return -EINVAL;
	rep.sidr_rep.status = (uint8_t)params->status;
	rep.sidr_rep.qpn = params->qpn;
	rep.sidr_rep.qkey = params->qkey;
	rep.sidr_rep.vendor_id = params->ece_vendor_id;
	rc = vb_cm_fill(rep.sidr_rep.private_data, sizeof(rep.sidr_rep.private_data),
			params->private_data, params->private_data_length);
	if (rc)
		return rc;
	endpoint->cm->now_ns = now_ns;
	endpoint->message = rep;
	vb_cm_sidr_answer(endpoint);
	return 0;
}
