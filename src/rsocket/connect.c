/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting. The caller begins to resolve the address. The service thread takes every later step,
 * when the event of the step before comes. So the program can do other work meanwhile, as with TCP.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rsocket/rsocket.h"

enum { RESOLVE_TIMEOUT_MS = 2000, RETRY_FOREVER = 7 };

/* Reasons of a REJ. */
enum { REJECT_STALE = 10, REJECT_CONSUMER = 28 };

static void connect_fail(struct vb_rs *rs, int error)
{
	if (rs->state == VB_RS_CONNECTED)
		vb_rs_break(rs, error);
	/* An rsocket connects once: other threads may still read from the old connection. */
	if (rs->state > VB_RS_CONNECTED)
		return;
	/* A listener keeps its requests until it is closed. */
	if (rs->state != VB_RS_LISTENING)
		rs->state = VB_RS_FAILED;
	rs->error = error;
	vb_rs_notify(rs, NULL);
}

static int begin_route(struct vb_rs *rs)
{
	if (!rs->options.route)
		return rdma_resolve_route(rs->id, RESOLVE_TIMEOUT_MS) ? -errno : 0;
	/* RDMA_OPTION_IB_PATH raises ROUTE_RESOLVED, as rdma_resolve_route does. */
	return rdma_set_option(rs->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, rs->options.route,
			       rs->options.route_size)
		       ? -errno
		       : 0;
}

static int send_request(struct vb_rs *rs)
{
	uint8_t description[VB_RS_CONN_SIZE];
	struct rdma_conn_param param = {
		.private_data = description,
		.private_data_len = sizeof(description),
		.flow_control = 1,
		.retry_count = RETRY_FOREVER,
		.rnr_retry_count = RETRY_FOREVER,
	};
	int err = vb_rs_endpoint_create(rs);

	if (err)
		return err;
	vb_rs_endpoint_describe(rs, description);
	if (rdma_connect(rs->id, &param))
		return -errno;
	rs->state = VB_RS_CONNECTING;
	return 0;
}

static void remember_names(struct vb_rs *rs)
{
	vb_rs_take_name(rs, rdma_get_local_addr(rs->id), &rs->local);
	vb_rs_take_name(rs, rdma_get_peer_addr(rs->id), &rs->peer);
}

static int connect_established(struct vb_rs *rs, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct vb_rs_conn peer;
	int err = 0;

	if (rs->state == VB_RS_CONNECTING) {
		err = vb_rs_conn_parse(param->private_data, param->private_data_len, &peer);
		if (err)
			return -ECONNREFUSED; /* the peer speaks another protocol */
		vb_rs_endpoint_start(rs, &peer);
	}
	remember_names(rs);
	rs->state = VB_RS_CONNECTED;
	vb_rs_progress(rs); /* grants the second half of the buffer to the peer */
	vb_rs_service_keepalive(rs);
	vb_rs_notify(rs, NULL);
	return 0;
}

/*
 * A peer that closes sends VB_RS_DISCONNECT or VB_RS_SHUTDOWN first. Without that message the peer
 * was killed, or closed with unsent data: the stream has no regular end. The message may still be
 * on its way through the CQ. So the QP goes to ERR, and the first flushed receive, which comes
 * behind the message, ends the stream (progress.c).
 */
static void connect_lost(struct vb_rs *rs)
{
	vb_rs_progress(rs);
	if (rs->state == VB_RS_CONNECTED && rs->peer_shut) {
		rs->state = VB_RS_DISCONNECTED;
	} else if (rs->state == VB_RS_CONNECTED) {
		rdma_disconnect(rs->id);
		vb_rs_progress(rs);
	} else if (rs->state < VB_RS_CONNECTED) {
		connect_fail(rs, ECONNRESET);
	}
	vb_rs_notify(rs, NULL);
}

/* The error of a connect that ends with this event. */
static int error_of(const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_REJECTED:
		return event->status == REJECT_STALE ? ECONNRESET : ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return event->status == -ENETUNREACH || event->status == -EHOSTUNREACH
			       ? -event->status
			       : ETIMEDOUT;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return ENETDOWN;
	default:
		return event->status < 0 ? -event->status : EHOSTUNREACH;
	}
}

static void connect_step(struct vb_rs *rs, const struct rdma_cm_event *event)
{
	int err = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		err = begin_route(rs);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		err = send_request(rs);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		err = connect_established(rs, event);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		connect_lost(rs);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		err = -error_of(event);
		break;
	default: /* TIMEWAIT_EXIT, ADDR_CHANGE, and events that streams never get */
		break;
	}
	if (err)
		connect_fail(rs, -err);
}

bool vb_rs_connect_event(struct vb_rs *rs, const struct rdma_cm_event *event)
{
	bool decided;

	vb_rs_lock_service(rs);
	decided = rs->state == VB_RS_ACCEPTING;
	/* The event of another id belongs to an earlier connect. */
	if (!rs->closed && event->id == rs->id)
		connect_step(rs, event);
	decided = decided && rs->state != VB_RS_ACCEPTING;
	pthread_mutex_unlock(&rs->lock);
	return decided;
}

bool vb_rs_connect_decided(struct vb_rs *rs)
{
	return (rs->state != VB_RS_RESOLVING && rs->state != VB_RS_CONNECTING) || rs->closed;
}

static int begin_connect(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size)
{
	union vb_rs_addr target = { 0 };
	int err = vb_rs_check_addr(rs, addr, size);

	if (err)
		return err;
	memcpy(&target, addr, vb_rs_addr_size(rs->domain));
	if (rs->domain == AF_INET && target.in.sin_addr.s_addr == htonl(INADDR_ANY))
		target.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (rs->domain == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&target.in6.sin6_addr))
		target.in6.sin6_addr = in6addr_loopback;
	rs->peer = target;
	rs->state = VB_RS_RESOLVING;
	if (rdma_resolve_addr(rs->id, NULL, &target.sa, RESOLVE_TIMEOUT_MS)) {
		rs->state = VB_RS_INIT;
		return -errno;
	}
	return 0;
}

/* After a failed connect everything but the options and the name begins anew. */
static int start_over(struct vb_rs *rs)
{
	const bool bound = rs->local.in.sin_port; /* at the same place in both families */
	struct rdma_cm_id *id, *old = rs->id;
	int err = vb_rs_create_id(rs, &id);

	if (err)
		return err;
	vb_rs_endpoint_destroy(rs);
	rs->id = id;
	/* rdma_destroy_id waits for the service thread, which may need the lock for an event. */
	rs->state = VB_RS_RESOLVING; /* other threads see a connect under way */
	pthread_mutex_unlock(&rs->lock);
	rdma_destroy_id(old);
	pthread_mutex_lock(&rs->lock);
	rs->state = VB_RS_INIT;
	if (rs->closed)
		return -EBADF;
	if (bound && rdma_bind_addr(id, &rs->local.sa))
		return -errno;
	return 0;
}

static int begin_or_refuse(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size)
{
	int err;

	switch (rs->state) {
	case VB_RS_INIT:
	case VB_RS_BOUND:
		return begin_connect(rs, addr, size);
	case VB_RS_RESOLVING:
	case VB_RS_CONNECTING:
		return -EALREADY;
	case VB_RS_FAILED:
		err = rs->error;
		rs->error = 0;
		if (err)
			return -err;
		err = start_over(rs);
		return err ? err : begin_connect(rs, addr, size);
	case VB_RS_LISTENING:
		return -EOPNOTSUPP;
	case VB_RS_ACCEPTING:
	case VB_RS_CONNECTED:
	case VB_RS_DISCONNECTED:
	case VB_RS_BROKEN:
		break;
	}
	return -EISCONN;
}

static int take_connect_error(struct vb_rs *rs)
{
	int error = rs->error;

	if (rs->closed)
		return -EBADF;
	if (rs->state != VB_RS_FAILED)
		return 0;
	rs->error = 0;
	return error ? -error : -ECONNABORTED;
}

int vb_rs_connect(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size)
{
	int err;

	pthread_mutex_lock(&rs->lock);
	err = begin_or_refuse(rs, addr, size);
	if (!err && rs->nonblock)
		err = -EINPROGRESS;
	if (!err) {
		err = vb_rs_wait(rs, vb_rs_connect_decided,
				 vb_rs_deadline(false, rs->options.send_timeout_ns));
		err = err == -EAGAIN ? -EINPROGRESS : err ? err : take_connect_error(rs);
	}
	pthread_mutex_unlock(&rs->lock);
	return err;
}
