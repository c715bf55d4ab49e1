/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_disconnect and rdma_notify. */
#include <errno.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/cma.h"
#include "rdmacm/connect_retry.h"
#include "rdmacm/disconnect_delay.h"
#include "rdmacm/probe.h"
#include "rdmacm/qp.h"
#include "rdmacm/system.h"

/* After CONNECT_ERROR the application does not see the events that are queued. */
static bool has_event(const struct vb_cma_id *id)
{
	const struct vb_cma_channel *channel = (const void *)id->id.channel;

	return channel && !id->connect_error && !vb_list_empty(&channel->events);
}

/* Does an event follow, or would a synchronous identifier wait for ever? */
static bool event_follows(const struct vb_cma_id *id)
{
	switch (id->endpoint.state) {
	case VB_CM_REP_SENT:
	case VB_CM_ESTABLISHED:
	case VB_CM_DREQ_SENT:
		return true;
	case VB_CM_TIMEWAIT:
		return !id->endpoint.never_was || has_event(id);
	case VB_CM_IDLE:
	case VB_CM_LISTEN:
	case VB_CM_REQ_SENT:
	case VB_CM_REQ_RECEIVED:
	case VB_CM_REP_RECEIVED:
	case VB_CM_DREQ_RECEIVED:
	case VB_CM_REJECTED:
	case VB_CM_SIDR_REQ_SENT:
	case VB_CM_SIDR_REQ_RECEIVED:
	case VB_CM_SIDR_REP_SENT:
	case VB_CM_STATES:
		break;
	}
	return has_event(id);
}

/*
 * Linux reports nothing about a connection that was never established, or is over. A synchronous
 * call would wait for ever, so it fails.
 */
static int nothing_to_end(const struct vb_cma_id *id)
{
	if (!id->sync || event_follows(id))
		return 0;
	vb_explain("rdma_disconnect: there is no connection: the request was rejected, or the "
		   "connection is over");
	return -EINVAL;
}

/* Under the lock. */
static int end_connection(struct vb_cma_id *id)
{
	int err;

	if (!id->has_endpoint || id->state == VB_CMA_LISTEN) {
		vb_explain("rdma_disconnect: the identifier is %s", vb_cma_state_name(id->state));
		return -EINVAL;
	}
	id->disconnecting = true;
	vb_cma_connect_retry_end(id);
	vb_cma_disconnect_delay_end(id);
	id->since_ns = vb_now_ns();
	err = vb_cm_disconnect(&id->endpoint, id->since_ns);
	if (err)
		vb_explain("rdma_disconnect: there is no connection: the endpoint is %s",
			   vb_cm_state_name(id->endpoint.state));
	/* The answer may be lost, and the peer may end: a probe finds out. */
	if (!err && !vb_cma_engine()->gid_is_local(&id->endpoint.route.remote))
		vb_cma_probe_begin(vb_now_ns());
	vb_cma_rearm();
	return err && err != -EINVAL ? err : nothing_to_end(id);
}

static int disconnect(struct vb_cma_id *id)
{
	int err = vb_cma_stale(id->generation, "rdma_disconnect");

	if (!err && !id->device) {
		vb_explain("rdma_disconnect: the identifier was never connected");
		err = -EINVAL;
	}
	/* The QP fails first, so that it receives nothing after the DREQ. */
	if (!err)
		err = vb_cma_qp_error(id);
	if (err)
		return err;
	vb_cma_lock();
	err = end_connection(id);
	vb_cma_unlock();
	return err;
}

VB_PUBLIC int rdma_disconnect(struct rdma_cm_id *id)
{
	VB_NO_CANCEL;
	VB_CMA_PASS_WAIT(id, rdma_disconnect, (shadow));
	const bool sync = vb_cma_id(id)->sync;
	int err = disconnect(vb_cma_id(id));

	if (!err)
		err = vb_cma_event_wait(vb_cma_id(id), sync);
	return vb_return_minus_one(err);
}

/* Under the lock. */
static int notify(struct vb_cma_id *id, enum ibv_event_type event)
{
	int err = vb_cma_stale(id->generation, "rdma_notify");

	if (err)
		return err;
	if (!id->has_endpoint || event != IBV_EVENT_COMM_EST) {
		vb_explain("rdma_notify: needs IBV_EVENT_COMM_EST and a connection");
		return -EINVAL;
	}
	err = vb_cm_notify(&id->endpoint, vb_now_ns());
	if (err)
		vb_explain("rdma_notify: the identifier is %s: %s", vb_cma_state_name(id->state),
			   err == -EISCONN ? "the connection is there already"
					   : "it must have called rdma_accept for a request, and "
					     "wait for the client");
	vb_cma_rearm();
	return err;
}

VB_PUBLIC int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	VB_NO_CANCEL;
	VB_CMA_PASS(id, rdma_notify, (shadow, event));
	int err;

	vb_cma_lock();
	err = notify(vb_cma_id(id), event);
	vb_cma_unlock();
	return vb_return_minus_one(err);
}
