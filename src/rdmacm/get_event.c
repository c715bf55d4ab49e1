/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_get_cm_event. The thread that fetches an event does what the event means for QPs and
 * devices, because the service thread must not call verbs. A connection needs an application that
 * fetches its events anyway.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/bind.h"
#include "rdmacm/cma.h"
#include "rdmacm/multicast.h"
#include "rdmacm/qp.h"
#include "rdmacm/route.h"

enum verdict { REPORT, DISCARD };

static void event_fail(struct vb_cma_event *event, enum rdma_cm_event_type type, int err)
{
	event->event.event = type;
	event->event.status = err;
}

/* A path between InfiniBand ports has their LIDs. */
static bool asks_infiniband(const struct vb_cma_id *child)
{
	return !vb_cma_is_datagram(child) && vb_cm_path_has_lids(&child->request_path);
}

/* A RoCE port cannot connect to an InfiniBand port. */
static bool fits_device(const struct vb_cma_id *child)
{
	return vb_cma_is_datagram(child) || asks_infiniband(child) == vb_cma_is_infiniband(child);
}

static int find_child_device(const struct vb_cma_id *child, struct vb_engine_route *route)
{
	int err = vb_cma_route_own(&child->id.route.addr.src_addr, route);

	if (!err && asks_infiniband(child)) {
		route->device = vb_cma_engine()->ib_device(route->ifindex);
		err = route->device ? 0 : -ENODEV;
	}
	return err;
}

static void take_ports(struct vb_cma_id *child)
{
	struct rdma_addr *addrs = &child->id.route.addr;

	child->ib = vb_cma_engine()->ib_path(child->device->device, &child->sgid, &child->dgid,
					     child->scope);
	if (!vb_cma_is_datagram(child))
		child->ib.dgid = child->request_path.local_gid;
	addrs->addr.ibaddr.sgid = child->ib.sgid;
	addrs->addr.ibaddr.dgid = child->ib.dgid;
	if (vb_cma_is_by_gid(child)) {
		vb_address_ib(&addrs->src_storage, &child->ib.sgid, child->endpoint.service_id);
		vb_address_ib(&addrs->dst_storage, &child->ib.dgid, 0);
	}
}

/* Binds the identifier of a request to the device that the request came to. */
static int attach_child(struct vb_cma_id *child)
{
	struct vb_engine_route route;
	int err = find_child_device(child, &route);

	if (!err)
		err = vb_cma_id_attach(child, route.device);
	if (!err && !fits_device(child))
		err = -ENODEV;
	if (err)
		return err;
	child->ifindex = route.ifindex;
	if (vb_cma_is_infiniband(child))
		take_ports(child);
	return vb_cma_path_make(child);
}

static void explain_refusal(const struct vb_cma_id *child, int err)
{
	char text[VB_ADDRESS_TEXT];

	vb_explain("a connection request for %s is refused: %s",
		   vb_address_print(&child->id.route.addr.src_addr, text),
		   err != -ENODEV ? strerror(-err)
		   : asks_infiniband(child)
			   ? "the request is for an InfiniBand port, and the interface has none"
			   : "the interface has no RoCE device; VERBENA_DEVICES chooses those that "
			     "have one");
}

static void discard_child(struct vb_cma_id *child)
{
	vb_cma_id_detach(child);
	vb_cma_lock();
	vb_cma_id_silence(child);
	vb_cma_id_free(child);
	vb_cma_unlock();
}

/*
 * The application knows the identifier from now on. Before, the identifier had no other events:
 * another thread could have fetched them, while this one finds that it must refuse the request.
 */
static void tell(struct vb_cma_id *child)
{
	vb_cma_lock();
	child->told = true;
	if (child->state == VB_CMA_REMOVED && !child->removing)
		(void)vb_cma_event_raise(child, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	vb_cma_unlock();
}

static enum verdict settle_request(struct vb_cma_event *event)
{
	struct vb_cma_id *child = vb_cma_id(event->event.id);
	int err;

	vb_cma_lock();
	vb_cm_taken(&child->endpoint);
	vb_cma_rearm();
	vb_cma_unlock();
	err = attach_child(child);
	if (!err && event->owner->sync)
		err = vb_cma_id_migrate(child, NULL);
	if (!err) {
		tell(child);
		return REPORT;
	}
	explain_refusal(child, err);
	discard_child(child);
	return DISCARD;
}

/* The QP is ready before the RTU allows the peer to send. */
static int finish_connect(struct vb_cma_id *id, struct ibv_qp *qp)
{
	int err = vb_cma_ece_respond(id, qp);

	if (!err)
		err = vb_cma_qp_ready(id, qp, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH);
	if (err)
		return err;
	vb_cma_lock();
	err = vb_cm_establish(&id->endpoint, vb_now_ns());
	vb_cma_rearm();
	vb_cma_unlock();
	return err;
}

static void give_up_connect(struct vb_cma_id *id)
{
	(void)vb_cma_qp_error(id);
	vb_cma_lock();
	id->connect_error = true;
	if (id->has_endpoint)
		(void)vb_cm_reject(&id->endpoint, VB_CM_REJ_CONSUMER, NULL, 0, NULL, 0,
				   vb_now_ns());
	vb_cma_rearm();
	vb_cma_unlock();
}

static enum verdict settle_response(struct vb_cma_event *event)
{
	struct vb_cma_id *id = event->owner;
	struct ibv_qp *qp = vb_cma_qp_hold(id);
	int err;

	/* The application has a QP of its own, and calls rdma_establish when that is ready. */
	if (!qp)
		return REPORT;
	err = finish_connect(id, qp);
	vb_cma_qp_release(id, qp);
	if (!err) {
		event->event.event = RDMA_CM_EVENT_ESTABLISHED;
		return REPORT;
	}
	vb_explain("the peer accepted the connection, but the QP cannot be used: %s",
		   strerror(-err));
	give_up_connect(id);
	event_fail(event, RDMA_CM_EVENT_CONNECT_ERROR, err);
	return REPORT;
}

static enum verdict settle_established(struct vb_cma_event *event)
{
	struct vb_cma_id *id = event->owner;
	int err;

	if (!vb_cma_is_datagram(id))
		return REPORT;
	err = vb_cma_ah_attr(id, &event->event.param.ud.ah_attr);
	if (err)
		event_fail(event, RDMA_CM_EVENT_ADDR_ERROR, err);
	return REPORT;
}

static bool is_given_up(struct vb_cma_id *id)
{
	bool given_up;

	vb_cma_lock();
	given_up = id->connect_error;
	vb_cma_unlock();
	return given_up;
}

static enum verdict settle_rejected(struct vb_cma_event *event)
{
	if (is_given_up(event->owner))
		return DISCARD;
	(void)vb_cma_qp_error(event->owner);
	return REPORT;
}

static enum verdict settle_disconnected(struct vb_cma_event *event)
{
	return is_given_up(event->owner) ? DISCARD : REPORT;
}

/* Loads and arms the path in the QP of the identifier. The library has no other QP to change. */
static int load_lap_path(struct vb_cma_id *id)
{
	struct ibv_qp *qp = vb_cma_qp_hold(id);
	struct ibv_qp_attr attr = { 0 };
	int mask, err = qp ? 0 : -EINVAL;

	if (!err) {
		vb_cma_path_take_alternate(id);
		mask = vb_cma_qp_alternate(id, &attr);
		err = -ibv_modify_qp(qp, &attr, mask);
	}
	vb_cma_qp_release(id, qp);
	return err;
}

static enum verdict settle_lap(struct vb_cma_event *event)
{
	struct vb_cma_id *id = event->owner;
	const int err = load_lap_path(id);

	vb_cma_lock();
	if (id->has_endpoint)
		(void)vb_cm_lap_answer(&id->endpoint, err ? VB_CM_APR_REJECT : VB_CM_APR_SUCCESS,
				       vb_now_ns());
	vb_cma_rearm();
	vb_cma_unlock();
	return DISCARD;
}

static enum verdict settle(struct vb_cma_event *event)
{
	if (event->lap)
		return settle_lap(event);
	switch ((int)event->event.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return settle_request(event);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return settle_response(event);
	case RDMA_CM_EVENT_ESTABLISHED:
		return settle_established(event);
	case RDMA_CM_EVENT_REJECTED:
		return settle_rejected(event);
	case RDMA_CM_EVENT_DISCONNECTED:
		return settle_disconnected(event);
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		vb_cma_group_joined(event);
		return REPORT;
	case RDMA_CM_EVENT_ADDRINFO_ERROR:
		vb_cma_info_failed(event->owner);
		return REPORT;
	default:
		return REPORT;
	}
}

/*
 * Only the wait for an event is a cancellation point. A thread that is cancelled later would leave
 * an event that no thread acknowledges.
 */
static int get_event(struct vb_cma_channel *channel, struct rdma_cm_event **out)
{
	struct vb_cma_event *event;
	int err = vb_cma_stale(channel->generation, "rdma_get_cm_event");

	while (!err) {
		err = vb_cma_channel_take(channel, &event);
		if (err)
			return err;
		if (event->system || settle(event) == REPORT) {
			*out = &event->event;
			vb_tell_filled(out, sizeof(*out));
			vb_tell_filled(event, sizeof(*event));
			return 0;
		}
		rdma_ack_cm_event(&event->event);
	}
	return err;
}

VB_PUBLIC int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	VB_CANCEL_POINT;

	if (!channel || !event)
		return vb_cma_null(__func__);
	return vb_return_minus_one(get_event((struct vb_cma_channel *)channel, event));
}
