/* SPDX-License-Identifier: BSD-2-Clause */
/* A REQ arrives: are its addresses true, is the request new, and which listener takes it? */
#include <errno.h>
#include <rdma/rdma_cma.h>

#include "cm/impl.h"
#include "wire/bytes.h"

/* --- shared with SIDR_REQ --- */

/* Does the address in a message agree with the address of its packet? */
static bool address_fits(struct vb_cm *cm, const struct vb_cm_route *route,
			 const union ibv_gid *said, const union ibv_gid *was)
{
	if (vb_cm_gid_equal(said, was))
		return true;
	/* Within this host a packet may have another address of the host. */
	return cm->ops->gid_is_local(cm->arg, &route->remote) &&
	       cm->ops->gid_is_local(cm->arg, said);
}

/* Requests of these port spaces must have an IP header; those of RDMA_PS_IB may have one. */
static bool needs_ip(uint64_t service_id)
{
	uint16_t space = vb_cm_service_space(service_id);

	return space == RDMA_PS_TCP || space == RDMA_PS_UDP || space == RDMA_PS_IPOIB;
}

int vb_cm_check_addresses(struct vb_cm *cm, const struct vb_cm_route *route, uint64_t service_id,
			  const uint8_t *private_data, bool by_gid, struct vb_cm_ip *ip,
			  bool *has_ip)
{
	*has_ip = vb_cm_service_space(service_id) && !vb_cm_ip_parse(private_data, ip);
	if (!*has_ip)
		return needs_ip(service_id) && !by_gid ? -EPROTO : 0;
	/* This check keeps other hosts from a listener on the loopback address. */
	if (address_fits(cm, route, &ip->src, &route->remote) &&
	    address_fits(cm, route, &ip->dst, &route->local))
		return 0;
	/* Private data of the application may look like an IP header. */
	*has_ip = false;
	return by_gid ? 0 : -EADDRNOTAVAIL;
}

static bool has_room(struct vb_cm *cm)
{
	return cm->endpoint_count < VB_CM_ENDPOINTS_MAX &&
	       !vb_timers_reserve(&cm->timers, cm->endpoint_count + 1);
}

struct vb_cm_endpoint *vb_cm_incoming(struct vb_cm_endpoint *listener,
				      const struct vb_cm_route *route, enum vb_cm_state state)
{
	struct vb_cm *cm = listener->cm;
	struct vb_cm_endpoint *endpoint;

	/* A silent drop, as on Linux: the peer repeats the request, and may find room then. */
	if (listener->half_open >= listener->backlog) {
		vb_cm_drop(cm, VB_CM_DROP_BACKLOG);
		return NULL;
	}
	endpoint = has_room(cm) ? cm->ops->incoming(cm->arg, listener) : NULL;
	if (!endpoint) {
		vb_cm_drop(cm, VB_CM_DROP_RESOURCES);
		return NULL;
	}
	vb_cm_endpoint_init(cm, endpoint);
	vb_cm_enroll(endpoint);
	endpoint->state = state;
	endpoint->route = *route;
	endpoint->host = vb_cm_host(cm, &route->remote);
	endpoint->service_id = listener->service_id;
	endpoint->listener = listener;
	vb_list_append(&listener->children, &endpoint->sibling);
	listener->half_open++;
	return endpoint;
}

/* --- REQ --- */

static bool qp_type(const struct vb_cm_req *req, enum ibv_qp_type *type)
{
	switch (req->transport) {
	case VB_CM_TRANSPORT_RC:
		*type = IBV_QPT_RC;
		return true;
	case VB_CM_TRANSPORT_UC:
		*type = IBV_QPT_UC;
		return true;
	case VB_CM_TRANSPORT_EXTENDED:
		*type = IBV_QPT_XRC_SEND;
		return req->extended_transport == VB_CM_EXTENDED_XRC;
	default:
		return false;
	}
}

static struct vb_cm_peer peer_of_req(const struct vb_cm_message *message)
{
	const struct vb_cm_req *req = &message->req;
	struct vb_cm_peer peer = {
		.ca_guid = req->ca_guid,
		.qpn = req->qpn,
		.sq_psn = req->starting_psn,
		.responder_resources = req->initiator_depth,
		.initiator_depth = req->responder_resources,
		.retry_count = req->retry_count,
		.rnr_retry_count = req->rnr_retry_count,
		.ack_timeout = req->primary.ack_timeout,
		.mtu = (enum ibv_mtu)req->mtu,
		.pkey = req->pkey,
		.flow_control = req->flow_control,
		.srq = req->srq,
		.ece_vendor_id = req->vendor_id,
		.ece_options = message->attribute_modifier,
	};

	qp_type(req, &peer.qp_type);
	return peer;
}

static bool peer_lid_is(struct vb_cm *cm, const struct vb_cm_route *route, uint16_t lid,
			const union ibv_gid *address)
{
	return cm->ops->lid_is && cm->ops->lid_is(cm->arg, lid, route, address);
}

bool vb_cm_port(struct vb_cm *cm, struct vb_cm_port *port)
{
	return cm->ops->port && cm->ops->port(cm->arg, port);
}

/* The peer's port: GIDs, which are addresses, name RoCE ports; LIDs name InfiniBand ports. */
static bool is_from(struct vb_cm *cm, const struct vb_cm_route *route,
		    const struct vb_cm_path *path)
{
	return vb_cm_path_has_lids(path)
		       ? peer_lid_is(cm, route, path->local_lid, &route->remote)
		       : address_fits(cm, route, &path->local_gid, &route->remote);
}

bool vb_cm_is_between_ports(struct vb_cm *cm, const struct vb_cm_route *route,
			    const struct vb_cm_path *path)
{
	struct vb_cm_port port;

	return vb_cm_path_has_lids(path) && is_from(cm, route, path) && vb_cm_port(cm, &port) &&
	       path->remote_lid == port.lid;
}

/* Checks this host's end of the path: 0, or the reason of the REJ. */
static uint16_t check_own_end(struct vb_cm *cm, const struct vb_cm_route *route,
			      const struct vb_cm_req *req)
{
	const struct vb_cm_path *path = &req->primary;
	struct vb_cm_port port;

	if (!vb_cm_path_has_lids(path))
		return address_fits(cm, route, &path->remote_gid, &route->local)
			       ? 0
			       : VB_CM_REJ_INVALID_GID;
	if (!vb_cm_port(cm, &port) || path->remote_lid != port.lid)
		return VB_CM_REJ_INVALID_LID;
	if (!vb_cm_gid_equal(&path->remote_gid, &port.gid))
		return VB_CM_REJ_INVALID_GID;
	path = &req->alternate;
	if (!path->local_lid)
		return 0;
	return vb_cm_is_between_ports(cm, route, path) ? 0 : VB_CM_REJ_INVALID_ALT_LID;
}

bool vb_cm_in_partition(const struct vb_cm *cm, uint16_t pkey)
{
	if (cm->ops->in_partition)
		return cm->ops->in_partition(cm->arg, pkey);
	return !((pkey ^ VB_CM_PKEY) & 0x7fff); /* the membership bit does not count */
}

/* 0, or the reason of the REJ. */
static uint16_t check_path(struct vb_cm *cm, const struct vb_cm_route *route,
			   const struct vb_cm_req *req)
{
	enum ibv_qp_type type;
	uint16_t reason;

	/* Linux gives this reason as well if it is not in the partition. */
	if (!vb_cm_in_partition(cm, req->pkey)) {
		vb_cm_drop(cm, VB_CM_DROP_PKEY);
		return VB_CM_REJ_INVALID_GID;
	}
	reason = check_own_end(cm, route, req);
	if (reason) {
		vb_cm_drop(cm, VB_CM_DROP_ADDRESS);
		return reason;
	}
	if (!qp_type(req, &type)) {
		vb_cm_drop(cm, VB_CM_DROP_MALFORMED);
		return VB_CM_REJ_INVALID_TRANSPORT;
	}
	if (req->mtu < IBV_MTU_256 || req->mtu > IBV_MTU_4096) {
		vb_cm_drop(cm, VB_CM_DROP_MALFORMED);
		return VB_CM_REJ_INVALID_MTU;
	}
	return 0;
}

static void open_req_endpoint(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	const struct vb_cm_req *req = &message->req;
	struct vb_cm *cm = endpoint->cm;

	endpoint->transaction_id = message->transaction_id;
	endpoint->peer = peer_of_req(message);
	endpoint->remote_id = req->local_comm_id;
	endpoint->remote_qpn = req->qpn;
	endpoint->infiniband = vb_cm_path_has_lids(&req->primary);
	endpoint->rq_psn = (uint32_t)cm->ops->random(cm->arg) & 0xffffff;
	endpoint->cm_timeout = req->local_cm_timeout < VB_CM_TIMEOUT_MAX ? req->local_cm_timeout
									 : VB_CM_TIMEOUT_MAX;
	endpoint->cm_retries = req->max_cm_retries;
	vb_cm_file_local_id(endpoint);
	vb_cm_file_remote_id(endpoint);
	vb_cm_file_remote_qpn(endpoint);
}

static void deliver_req(struct vb_cm_endpoint *listener, const struct vb_cm_route *route,
			const struct vb_cm_message *message, const struct vb_cm_ip *ip)
{
	struct vb_cm_endpoint *endpoint = vb_cm_incoming(listener, route, VB_CM_REQ_RECEIVED);
	struct vb_cm_event event;

	if (!endpoint)
		return;
	open_req_endpoint(endpoint, message);
	event = vb_cm_event(endpoint, VB_CM_EVENT_REQ_RECEIVED, message);
	event.peer = endpoint->peer;
	vb_cm_raise_incoming(endpoint, &event, listener, ip);
}

/* The QP of the peer must have the type that the listener takes. */
static bool is_of_other_type(const struct vb_cm_endpoint *listener, const struct vb_cm_req *req)
{
	enum ibv_qp_type type;

	return !qp_type(req, &type) || !vb_cm_takes(listener, type);
}

/*
 * The peer uses an id or a QP of an older connection anew (IBA 12.9.8). After the REJ it sends a
 * new REQ with another id, and by then the QP is free. A late copy of this REQ must not pass for
 * the new one: its id, that of the old endpoint or of an orphan, gives it away.
 */
static void refuse_stale(struct vb_cm *cm, const struct vb_cm_route *route,
			 const struct vb_cm_message *message, struct vb_cm_endpoint *old)
{
	vb_cm_drop(cm, VB_CM_DROP_STALE);
	if (old->remote_id == message->req.local_comm_id)
		vb_cm_refuse(cm, route, message, VB_CM_REJ_STALE, NULL, 0);
	else
		vb_cm_refuse_for_good(cm, route, message, VB_CM_REJ_STALE);
	vb_cm_stale(old);
}

/* True: the request is a copy, or its QP has a connection already. Either way it is answered. */
static bool req_seen_before(struct vb_cm *cm, const struct vb_cm_route *route,
			    const struct vb_cm_message *message)
{
	const struct vb_cm_req *req = &message->req;
	union ibv_gid host = vb_cm_host(cm, &route->remote);
	struct vb_cm_endpoint *old = vb_cm_find_remote_id(cm, &host, req->local_comm_id, false);

	if (old && old->remote_qpn == req->qpn && old->transaction_id == message->transaction_id) {
		vb_cm_dispatch(old, message);
		return true;
	}
	if (!old && req->qpn)
		old = vb_cm_find_remote_qpn(cm, &host, req->qpn);
	/* A user cannot end the connection of another user by naming its QP. */
	if (!old || old->route.user != route->user)
		return false;
	refuse_stale(cm, route, message, old);
	return true;
}

/* The REJ has the right value as additional information (IBA 12.6.7.2). */
static void refuse_path(struct vb_cm *cm, const struct vb_cm_route *route,
			const struct vb_cm_message *message, uint16_t reason)
{
	struct vb_cm_port port = { .gid = route->local };
	uint8_t lid[sizeof(port.lid)];

	if (vb_cm_path_has_lids(&message->req.primary) && !vb_cm_port(cm, &port))
		port = (struct vb_cm_port){ 0 };
	vb_put16(lid, port.lid);
	if (reason == VB_CM_REJ_INVALID_GID)
		vb_cm_refuse(cm, route, message, reason, &port.gid, sizeof(port.gid));
	else if (reason == VB_CM_REJ_INVALID_LID && port.lid)
		vb_cm_refuse(cm, route, message, reason, lid, sizeof(lid));
	else
		vb_cm_refuse(cm, route, message, reason, NULL, 0);
}

void vb_cm_input_req(struct vb_cm *cm, const struct vb_cm_route *route,
		     const struct vb_cm_message *message)
{
	const struct vb_cm_req *req = &message->req;
	struct vb_cm_endpoint *listener;
	struct vb_cm_message answer;
	struct vb_cm_ip ip;
	bool has_ip;
	uint16_t reason;
	int rc = vb_cm_check_addresses(cm, route, req->service_id, req->private_data,
				       vb_cm_path_has_lids(&req->primary), &ip, &has_ip);

	if (!rc && !is_from(cm, route, &req->primary))
		rc = -EADDRNOTAVAIL;
	if (rc) {
		vb_cm_drop(cm, rc == -EPROTO ? VB_CM_DROP_MALFORMED : VB_CM_DROP_ADDRESS);
		return;
	}
	if (req_seen_before(cm, route, message))
		return;
	reason = check_path(cm, route, req);
	if (reason) {
		refuse_path(cm, route, message, reason);
		return;
	}
	listener = vb_cm_find_service(cm, req->service_id,
				      has_ip ? &ip.dst : &req->primary.remote_gid, route->scope);
	if (listener && is_of_other_type(listener, req)) {
		vb_cm_drop(cm, VB_CM_DROP_SERVICE);
		vb_cm_refuse(cm, route, message, VB_CM_REJ_INVALID_TRANSPORT, NULL, 0);
	} else if (listener) {
		deliver_req(listener, route, message, has_ip ? &ip : NULL);
	} else {
		vb_cm_drop(cm, VB_CM_DROP_SERVICE);
		if (vb_cm_stray(message, &answer))
			vb_cm_answer(cm, route, &answer);
	}
}
