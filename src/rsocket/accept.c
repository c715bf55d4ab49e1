/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listening. The service thread accepts requests as they come, up to the backlog. The established
 * connections wait for accept. Requests beyond the backlog wait for a place; meanwhile the
 * connection manager answers their copies.
 */
#include <errno.h>
#include <stdlib.h>

#include "rsocket/rsocket.h"

enum {
	BACKLOG_MAX = 4096,
	REQUESTS_MAX = 8192, /* of one listener, with and without an answer */
	RETRY_FOREVER = 7,
};

int vb_rs_listen(struct vb_rs *rs, int backlog)
{
	int err = 0;

	if (rs->type != SOCK_STREAM)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&rs->lock);
	rs->listener.backlog = backlog <= 0            ? 1
			       : backlog > BACKLOG_MAX ? BACKLOG_MAX
						       : (unsigned)backlog;
	if (rs->state == VB_RS_INIT)
		err = vb_rs_bind_any(rs); /* an identifier without an address has no family */
	if (!err && rs->state == VB_RS_BOUND) {
		rs->state = VB_RS_LISTENING;
		if (rdma_listen(rs->id, BACKLOG_MAX)) {
			err = -errno;
			rs->state = VB_RS_BOUND;
		}
	} else if (!err && rs->state != VB_RS_LISTENING) {
		err = -EINVAL;
	}
	pthread_mutex_unlock(&rs->lock);
	return err;
}

static struct vb_rs *make_child(struct vb_rs *listener, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct vb_rs_conn peer;
	struct vb_rs *child;

	if (vb_rs_conn_parse(param->private_data, param->private_data_len, &peer))
		return NULL;
	child = vb_rs_alloc(listener->domain, SOCK_STREAM, &listener->options);
	if (!child)
		return NULL;
	child->stream = calloc(1, sizeof(*child->stream));
	if (!child->stream) {
		vb_rs_put(child);
		return NULL;
	}
	vb_list_init(&child->stream->mappings);
	vb_list_init(&child->stream->keepalive_node);
	child->stream->peer = peer;
	child->state = VB_RS_ACCEPTING;
	child->id = event->id;
	child->id->context = child;
	child->parent = listener;
	vb_rs_get(listener);
	return child;
}

static unsigned count_list(const struct vb_list *head)
{
	unsigned count = 0;

	for (const struct vb_list *node = head->next; node != head; node = node->next)
		count++;
	return count;
}

struct vb_rs *vb_rs_request(struct vb_rs *listener, const struct rdma_cm_event *event)
{
	struct vb_rs *child = NULL;

	pthread_mutex_lock(&listener->lock);
	if (listener->state == VB_RS_LISTENING && !listener->closed &&
	    count_list(&listener->listener.requests) < REQUESTS_MAX)
		child = make_child(listener, event);
	if (child)
		vb_list_append(&listener->listener.requests, &child->accept_node);
	pthread_mutex_unlock(&listener->lock);
	return child;
}

/* The next request to accept, with a reference. */
static struct vb_rs *next_request(struct vb_rs *listener)
{
	struct vb_rs *found = NULL;

	pthread_mutex_lock(&listener->lock);
	if (listener->listener.begun < listener->listener.backlog) {
		vb_list_for(child, &listener->listener.requests, struct vb_rs, accept_node) {
			if (!child->begun) {
				found = child;
				break;
			}
		}
	}
	if (found) {
		found->begun = true;
		listener->listener.begun++;
		vb_rs_get(found);
	}
	pthread_mutex_unlock(&listener->lock);
	return found;
}

static int answer_request(struct vb_rs *rs)
{
	uint8_t description[VB_RS_CONN_SIZE];
	struct rdma_conn_param param = {
		.private_data = description,
		.private_data_len = sizeof(description),
		.flow_control = 1,
		.rnr_retry_count = RETRY_FOREVER,
	};
	struct vb_rs_conn peer = rs->stream->peer;
	int err = vb_rs_endpoint_create(rs);

	if (err)
		return err;
	vb_rs_endpoint_start(rs, &peer);
	vb_rs_endpoint_describe(rs, description);
	return rdma_accept(rs->id, &param) ? -errno : 0;
}

void vb_rs_accept_more(struct vb_rs *listener)
{
	struct vb_rs *child;

	while ((child = next_request(listener))) {
		int err;

		pthread_mutex_lock(&child->lock);
		err = child->closed ? -EBADF : answer_request(child);
		if (err)
			child->state = VB_RS_FAILED;
		pthread_mutex_unlock(&child->lock);
		if (err)
			vb_rs_accept_done(child);
		vb_rs_put(child);
	}
}

/* The listener of rs, with a reference; NULL: it was closed. */
static struct vb_rs *parent_of(struct vb_rs *rs)
{
	struct vb_rs *listener;

	pthread_mutex_lock(&rs->lock);
	listener = rs->parent;
	if (listener)
		vb_rs_get(listener);
	pthread_mutex_unlock(&rs->lock);
	return listener;
}

/* Under the lock of the listener, of which the caller has a reference. */
static void leave_parent(struct vb_rs *rs)
{
	struct vb_rs *listener;

	vb_list_remove(&rs->accept_node);
	pthread_mutex_lock(&rs->lock);
	listener = rs->parent;
	rs->parent = NULL;
	pthread_mutex_unlock(&rs->lock);
	listener->listener.begun -= rs->begun;
	vb_rs_put(listener);
}

void vb_rs_accept_done(struct vb_rs *rs)
{
	struct vb_rs *listener = parent_of(rs);
	bool lost = false;

	if (!listener)
		return;
	pthread_mutex_lock(&listener->lock);
	/* If rs is in no list, another thread closes the listener. */
	if (!vb_list_empty(&rs->accept_node)) {
		/* No other thread knows rs yet, so its state cannot change. */
		lost = rs->state == VB_RS_FAILED;
		if (lost) {
			leave_parent(rs);
		} else {
			vb_list_remove(&rs->accept_node);
			vb_list_append(&listener->listener.ready, &rs->accept_node);
			vb_rs_notify(listener, NULL);
		}
	}
	pthread_mutex_unlock(&listener->lock);
	vb_rs_put(listener);
	if (lost)
		vb_rs_put(rs);
}

static bool accept_decided(struct vb_rs *rs)
{
	return !vb_list_empty(&rs->listener.ready) || rs->closed || rs->error;
}

/* Established connections come first, then the error of the device. */
static int accept_refusal(struct vb_rs *rs)
{
	if (rs->closed)
		return -EBADF;
	return vb_list_empty(&rs->listener.ready) ? -rs->error : 0;
}

static struct vb_rs *take_ready(struct vb_rs *rs)
{
	struct vb_rs *child = vb_list_element(rs->listener.ready.next, &rs->listener.ready,
					      struct vb_rs, accept_node);

	leave_parent(child);
	return child;
}

int vb_rs_accept(struct vb_rs *rs, struct vb_rs **out)
{
	int err;

	if (rs->type != SOCK_STREAM)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&rs->lock);
	err = rs->state == VB_RS_LISTENING ? 0 : -EINVAL;
	if (!err)
		err = vb_rs_wait(rs, accept_decided,
				 vb_rs_deadline(rs->nonblock, rs->options.receive_timeout_ns));
	if (!err)
		err = accept_refusal(rs);
	if (!err)
		*out = take_ready(rs);
	pthread_mutex_unlock(&rs->lock);
	if (!err)
		vb_rs_service_accept(rs);
	return err;
}

static struct vb_rs *take_any(struct vb_rs *rs)
{
	struct vb_list *lists[] = { &rs->listener.ready, &rs->listener.requests };
	struct vb_rs *child = NULL;

	pthread_mutex_lock(&rs->lock);
	for (int i = 0; i < 2 && !child; i++)
		child = vb_list_element(lists[i]->next, lists[i], struct vb_rs, accept_node);
	if (child)
		leave_parent(child);
	pthread_mutex_unlock(&rs->lock);
	return child;
}

void vb_rs_listener_close(struct vb_rs *rs)
{
	struct rdma_cm_id *id;
	struct vb_rs *child;

	pthread_mutex_lock(&rs->lock);
	if (rs->state != VB_RS_LISTENING) {
		pthread_mutex_unlock(&rs->lock);
		return;
	}
	rs->closed = true;
	rs->listener.backlog = 0;
	id = rs->id;
	rs->id = NULL;
	vb_rs_notify(rs, NULL);
	pthread_mutex_unlock(&rs->lock);
	/* Before the last reference goes: the port must be free when close returns. */
	rdma_destroy_id(id);
	while ((child = take_any(rs))) {
		vb_rs_close(child);
		vb_rs_put(child);
	}
}
