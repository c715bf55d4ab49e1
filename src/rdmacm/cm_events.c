/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager calls these functions under the lock, in the service thread or inside of a
 * call of rdma_*. They make and queue events, and do nothing else.
 */
#include <endian.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "rdmacm/cma.h"
#include "rdmacm/connect_retry.h"
#include "rdmacm/disconnect_delay.h"
#include "rdmacm/io.h"
#include "rdmacm/peer_watch.h"
#include "rdmacm/probe.h"
#include "wire/bytes.h"

static struct vb_cma_id *owner_of(struct vb_cm_endpoint *endpoint)
{
	return vb_container(endpoint, struct vb_cma_id, endpoint);
}

/* Makes the identifier of a request together with its event, so that neither can fail later. */
static struct vb_cm_endpoint *incoming(void *arg, struct vb_cm_endpoint *endpoint)
{
	struct vb_cma_id *listener = owner_of(endpoint), *child;
	struct vb_cma_event *event =
		vb_cma_event_create(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);

	(void)arg;
	if (!event || vb_cma_id_add(vb_cma_channel_of(listener), listener->id.context,
				    listener->id.ps, listener->id.qp_type, &child)) {
		free(event);
		return NULL;
	}
	child->state = VB_CMA_CONNECT;
	child->has_endpoint = true;
	child->passive = true;
	child->since_ns = vb_now_ns();
	child->tos = listener->tos;
	child->tos_set = listener->tos_set;
	child->ack_timeout = listener->ack_timeout;
	child->ack_timeout_set = listener->ack_timeout_set;
	child->request = event;
	event->event.id = &child->id;
	event->event.listen_id = &listener->id;
	return &child->endpoint;
}

/* The addresses that the request names; without them those of its packet. */
static void take_ip_addresses(struct vb_cma_id *id, const struct vb_cm_event *event)
{
	struct rdma_addr *addrs = &id->id.route.addr;
	const struct vb_cm_route *route = event->route;
	const union ibv_gid *local = event->has_ip ? &event->ip.dst : &route->local;
	const union ibv_gid *remote = event->has_ip ? &event->ip.src : &route->remote;

	vb_address_from_gid(&addrs->src_storage, local, route->scope,
			    vb_cm_service_port(id->endpoint.service_id));
	vb_address_from_gid(&addrs->dst_storage, remote, route->scope,
			    event->has_ip ? event->ip.src_port : 0);
}

/* A SIDR_REQ has no path: its GIDs are found with the device, when the event is fetched. */
static void take_gids(struct vb_cma_id *id, const struct vb_cm_event *event)
{
	static const union ibv_gid none;
	const struct vb_cm_path *path =
		vb_cma_is_datagram(id) ? NULL : &event->message->req.primary;
	struct rdma_addr *addrs = &id->id.route.addr;

	vb_address_ib(&addrs->src_storage, path ? &path->remote_gid : &none,
		      id->endpoint.service_id);
	vb_address_ib(&addrs->dst_storage, path ? &path->local_gid : &none, 0);
}

static void take_addresses(struct vb_cma_id *id, const struct vb_cm_event *event)
{
	struct rdma_addr *addrs = &id->id.route.addr;
	const struct vb_cm_route *route = event->route;

	if (vb_cma_is_by_gid(owner_of(event->listener)))
		take_gids(id, event);
	else
		take_ip_addresses(id, event);
	id->sgid = route->local;
	id->dgid = route->remote;
	id->scope = route->scope;
	addrs->addr.ibaddr.sgid = route->local;
	addrs->addr.ibaddr.dgid = route->remote;
	addrs->addr.ibaddr.pkey =
		htobe16(event->type == VB_CM_EVENT_SIDR_REQ_RECEIVED ? event->message->sidr_req.pkey
								     : event->peer.pkey);
}

static void fill_conn(struct rdma_conn_param *param, const struct vb_cm_peer *peer)
{
	param->responder_resources = peer->responder_resources;
	param->initiator_depth = peer->initiator_depth;
	param->flow_control = peer->flow_control;
	param->retry_count = peer->retry_count;
	param->rnr_retry_count = peer->rnr_retry_count;
	param->srq = peer->srq;
	param->qp_num = peer->qpn;
}

static void take_peer(struct vb_cma_id *id, const struct vb_cm_peer *peer)
{
	id->responder_resources = peer->responder_resources;
	id->initiator_depth = peer->initiator_depth;
	id->remote_ece.vendor_id = peer->ece_vendor_id;
	id->remote_ece.options = peer->ece_options;
}

static void queue_request(struct vb_cma_id *id, const struct vb_cm_event *event)
{
	struct vb_cma_event *request = id->request;
	bool ud = vb_cma_is_datagram(id);

	id->request = NULL;
	take_addresses(id, event);
	if (!ud) {
		take_peer(id, &event->peer);
		fill_conn(&request->event.param.conn, &event->peer);
		id->retry_count = event->peer.retry_count;
		id->request_path = event->message->req.primary;
		id->request_alternate = event->message->req.alternate;
		id->request_mtu = event->peer.mtu;
	}
	vb_cma_event_private(request, ud, event->private_data, event->private_data_size);
	vb_cma_channel_queue(vb_cma_channel_of(request->owner), request);
}

static struct vb_cma_event *create_event(struct vb_cma_id *id, enum rdma_cm_event_type type,
					 int status)
{
	struct vb_cma_event *event = vb_cma_event_create(id, type, status);

	if (!event)
		vb_explain("no memory for an event of identifier %p: the event is lost",
			   (void *)id);
	return event;
}

static void queue_event(struct vb_cma_id *id, struct vb_cma_event *event)
{
	vb_cma_channel_queue(vb_cma_channel_of(id), event);
}

static void queue_response(struct vb_cma_id *id, const struct vb_cm_event *event)
{
	struct vb_cma_event *response = create_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);

	if (!response)
		return;
	take_peer(id, &event->peer);
	vb_cma_peer_watch_follow(&id->endpoint);
	fill_conn(&response->event.param.conn, &event->peer);
	vb_cma_event_private(response, false, event->private_data, event->private_data_size);
	queue_event(id, response);
}

/*
 * The LID of a port is made from one of its addresses, and the request had the LID of another one.
 * The port rejects with its own LID, and the request goes there once more. True: so it does.
 */
static bool has_another_lid(struct vb_cma_id *id, const struct vb_cm_event *event)
{
	const struct vb_cm_rej *rej = event->message ? &event->message->rej : NULL;
	uint16_t lid;

	if (event->reason != VB_CM_REJ_INVALID_LID || !rej || rej->info_length < sizeof(lid) ||
	    id->passive || !vb_cma_is_infiniband(id) || id->lid_told)
		return false;
	lid = vb_get16(rej->info);
	id->lid_told = true;
	id->ib.dlid = lid;
	id->id.route.path_rec[0].dlid = htobe16(lid);
	vb_cma_connect_retry_soon(id, vb_now_ns());
	return true;
}

/* In words of the calls: users may not know those of the protocol. */
static void explain_rejected(const struct vb_cma_id *id, const struct vb_cm_event *event)
{
	const struct sockaddr *dst = &id->id.route.addr.dst_addr;
	char text[VB_ADDRESS_TEXT];

	vb_address_print(dst, text);
	if (event->reason == VB_CM_REJ_CONSUMER)
		vb_explain("the connection to %s was rejected: the server called rdma_reject",
			   text);
	else if (event->reason == VB_CM_REJ_INVALID_SERVICE_ID)
		vb_explain("the connection to %s was rejected: nobody listens on port %u there",
			   text, vb_address_port(dst));
	else if (event->reason == VB_CM_REJ_TIMEOUT)
		vb_explain("the connection to %s was rejected: the server has not accepted in time",
			   text);
	else
		vb_explain("the connection to %s was rejected: %s (reason %u)", text,
			   vb_cm_reason_name(event->reason), event->reason);
}

static void explain_unreachable(const struct vb_cma_id *id)
{
	char text[VB_ADDRESS_TEXT];

	vb_explain("the connection to %s fails: no answer to the request; %s",
		   vb_address_print(&id->id.route.addr.dst_addr, text),
		   vb_cma_probe_refused(&id->id.route.addr.addr.ibaddr.dgid)
			   ? "by ICMP its host refuses UDP port 4791: no process there has it (the "
			     "server does not run), or a firewall refuses it"
			   : "the host is off, or a firewall drops UDP port 4791, or no process "
			     "there has it");
}

static void queue_rejected(struct vb_cma_id *id, const struct vb_cm_event *event)
{
	struct vb_cma_event *rejected;

	if (has_another_lid(id, event))
		return;
	if (event->reason == VB_CM_REJ_INVALID_SERVICE_ID && vb_cma_connect_retry(id, vb_now_ns()))
		return;
	rejected = create_event(id, RDMA_CM_EVENT_REJECTED, (int)event->reason);
	if (!rejected)
		return;
	explain_rejected(id, event);
	vb_cma_event_private(rejected, false, event->private_data, event->private_data_size);
	queue_event(id, rejected);
}

/* The thread that fetches the event fills in the address handle, because it may call verbs. */
static void queue_sidr_reply(struct vb_cma_id *id, const struct vb_cm_event *event)
{
	bool found = event->sidr_status == VB_CM_SIDR_SUCCESS;
	struct vb_cma_event *reply;

	if (event->sidr_status == VB_CM_SIDR_UNSUPPORTED && vb_cma_connect_retry(id, vb_now_ns()))
		return;
	reply = create_event(id, found ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE,
			     event->sidr_status);
	if (!reply)
		return;
	reply->event.param.ud.qp_num = event->sidr_qpn;
	reply->event.param.ud.qkey = event->sidr_qkey;
	vb_cma_event_private(reply, true, event->private_data, event->private_data_size);
	queue_event(id, reply);
}

/* The thread that fetches the event changes path and QP, because it may call verbs. */
static void queue_lap(struct vb_cma_id *id, const struct vb_cm_event *event)
{
	struct vb_cma_event *lap = create_event(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);

	if (!lap)
		return;
	lap->lap = true;
	id->request_alternate = event->message->lap.alternate;
	queue_event(id, lap);
}

static void queue_simple(struct vb_cma_id *id, enum rdma_cm_event_type type, int status)
{
	struct vb_cma_event *event = create_event(id, type, status);

	if (event)
		queue_event(id, event);
}

/* A probe asked whether the connection exists, and the peer does not have it. */
static bool is_lost(const struct vb_cma_id *id, const struct vb_cm_event *event)
{
	return !id->disconnecting && event->message && event->message->attribute == VB_CM_DREP;
}

static void queue_disconnected(struct vb_cma_id *id, const struct vb_cm_event *event)
{
	struct vb_cma_event *disconnected =
		create_event(id, RDMA_CM_EVENT_DISCONNECTED, event->status);

	if (is_lost(id, event))
		vb_cma_probe_suspect(vb_now_ns());
	id->state = VB_CMA_DISCONNECT;
	if (!disconnected)
		return;
	if (id->disconnecting)
		queue_event(id, disconnected);
	else
		vb_cma_disconnect_delay(disconnected, vb_now_ns());
}

static void queue_event_of(struct vb_cma_id *id, const struct vb_cm_event *event)
{
	switch (event->type) {
	case VB_CM_EVENT_REQ_RECEIVED:
	case VB_CM_EVENT_SIDR_REQ_RECEIVED:
		queue_request(id, event);
		return;
	case VB_CM_EVENT_REP_RECEIVED:
		queue_response(id, event);
		return;
	case VB_CM_EVENT_ESTABLISHED:
		queue_simple(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		return;
	case VB_CM_EVENT_REJECTED:
		queue_rejected(id, event);
		return;
	case VB_CM_EVENT_UNREACHABLE:
		explain_unreachable(id);
		queue_simple(id, RDMA_CM_EVENT_UNREACHABLE, event->status);
		return;
	case VB_CM_EVENT_DISCONNECTED:
		queue_disconnected(id, event);
		return;
	case VB_CM_EVENT_TIMEWAIT_EXIT:
		queue_simple(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		return;
	case VB_CM_EVENT_SIDR_REP_RECEIVED:
		queue_sidr_reply(id, event);
		return;
	case VB_CM_EVENT_LAP_RECEIVED:
		queue_lap(id, event);
		return;
	case VB_CM_EVENTS:
		return;
	}
}

/*
 * The application hears nothing of a request that it has not accepted yet; rdma_accept will fail.
 * Linux does the same, and programs count on it.
 */
static void on_event(void *arg, struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event)
{
	struct vb_cma_id *id = owner_of(endpoint);

	(void)arg;
	if (id->removing || (id->passive && !id->accepted && !id->request))
		return;
	queue_event_of(id, event);
}

/* The peer's application thinks about the request (MRA). It may take long, or die meanwhile. */
static void waits(void *arg, struct vb_cm_endpoint *endpoint)
{
	(void)arg;
	vb_cma_peer_watch_follow(endpoint);
}

static bool gid_is_local(void *arg, const union ibv_gid *gid)
{
	(void)arg;
	return vb_cma_engine()->gid_is_local(gid);
}

static bool lid_is(void *arg, uint16_t lid, const struct vb_cm_route *route,
		   const union ibv_gid *address)
{
	struct ibv_device *device = vb_cma_engine()->ib_device(0);

	(void)arg;
	return device &&
	       vb_cma_engine()->ib_lid_is(device, lid, &route->local, address, route->scope);
}

static bool port(void *arg, struct vb_cm_port *port)
{
	static const union ibv_gid any;
	struct vb_engine_route route;
	struct vb_ib_path path;

	(void)arg;
	if (vb_cma_engine()->ib_route(&any, NULL, &route))
		return false;
	path = vb_cma_engine()->ib_path(route.device, &route.src, &route.src, 0);
	*port = (struct vb_cm_port){ .gid = path.sgid, .lid = path.slid };
	return true;
}

static bool in_partition(void *arg, uint16_t pkey)
{
	(void)arg;
	return vb_cma_engine()->pkey_index(pkey) >= 0;
}

static uint64_t random_bits(void *arg)
{
	(void)arg;
	return vb_random64();
}

static const struct vb_cm_ops ops = {
	.send = vb_cma_io_send,
	.event = on_event,
	.incoming = incoming,
	.waits = waits,
	.gid_is_local = gid_is_local,
	.lid_is = lid_is,
	.port = port,
	.in_partition = in_partition,
	.random = random_bits,
};

const struct vb_cm_ops *vb_cma_cm_ops(void)
{
	return &ops;
}
