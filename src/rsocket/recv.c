/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving a stream: bytes are copied out of the ring that the peer writes, and room is granted.
 */
#include <errno.h>
#include <sched.h>

#include "base/cancel.h"
#include "rsocket/cursor.h"
#include "rsocket/rsocket.h"

static bool receive_decided(struct vb_rs *rs)
{
	switch (rs->state) {
	case VB_RS_RESOLVING:
	case VB_RS_CONNECTING:
	case VB_RS_ACCEPTING:
		return rs->closed;
	case VB_RS_CONNECTED:
		return rs->stream->rx.available >= rs->receive_low || rs->peer_shut ||
		       rs->read_shut || rs->closed;
	case VB_RS_INIT:
	case VB_RS_BOUND:
	case VB_RS_LISTENING:
	case VB_RS_DISCONNECTED:
	case VB_RS_FAILED:
	case VB_RS_BROKEN:
		break;
	}
	return true;
}

/* The result of a receive without bytes: 0 is the end of the stream. */
static int end_of_stream(struct vb_rs *rs)
{
	int error;

	if (rs->closed)
		return -EBADF;
	switch (rs->state) {
	case VB_RS_CONNECTED:
	case VB_RS_DISCONNECTED:
		return 0;
	case VB_RS_FAILED:
	case VB_RS_BROKEN:
		error = rs->error;
		rs->error = 0;
		return -error; /* the error once, then the end */
	case VB_RS_RESOLVING:
	case VB_RS_CONNECTING:
	case VB_RS_ACCEPTING:
	case VB_RS_INIT:
	case VB_RS_BOUND:
	case VB_RS_LISTENING:
		break;
	}
	return -ENOTCONN;
}

uint32_t vb_rs_readable_size(struct vb_rs *rs)
{
	return rs->stream ? rs->stream->rx.available : 0;
}

/* Releases the lock while it copies: only the receiving thread consumes. */
static void copy_out(struct vb_rs *rs, struct vb_cursor *to, int flags)
{
	struct vb_rs_rx *rx = &rs->stream->rx;
	struct vb_rs_rx peeked = *rx;

	while (to->left && peeked.available) {
		uint32_t size = vb_rs_rx_piece(&peeked);

		if (size > to->left)
			size = (uint32_t)to->left;
		pthread_mutex_unlock(&rs->lock);
		if (flags & MSG_TRUNC)
			vb_cursor_skip(to, size);
		else
			vb_cursor_write(to, rs->stream->recv_buffer + peeked.read_offset, size);
		pthread_mutex_lock(&rs->lock);
		vb_rs_rx_consume(&peeked, size);
		if (!(flags & MSG_PEEK)) {
			vb_rs_rx_consume(rx, size);
			vb_rs_progress(rs); /* grants a half that is free now */
		}
	}
}

/* MSG_PEEK with MSG_WAITALL waits for all bytes, as far as the granted half has room for them. */
static uint32_t low_water(const struct vb_rs *rs, size_t size, int flags)
{
	if (!(flags & MSG_PEEK) || !(flags & MSG_WAITALL) || !rs->stream)
		return 1;
	return size < rs->stream->rx.half ? (uint32_t)size : rs->stream->rx.half;
}

static ssize_t receive_stream(struct vb_rs *rs, struct vb_cursor *to, int flags,
			      uint64_t deadline_ns)
{
	const size_t total = to->left;
	int err = 0;

	rs->receive_low = low_water(rs, total, flags);
	do {
		if (vb_rs_readable_size(rs) < rs->receive_low)
			err = vb_rs_wait_in(rs, &rs->in, receive_decided, deadline_ns);
		if (err && !(flags & MSG_PEEK && vb_rs_readable_size(rs)))
			break;
		if (!vb_rs_readable_size(rs)) {
			err = end_of_stream(rs);
			break;
		}
		copy_out(rs, to, flags);
	} while (to->left && (flags & MSG_WAITALL) && !(flags & MSG_PEEK));
	return to->left < total ? (ssize_t)(total - to->left) : err;
}

/* A program that receives in a loop without waiting may keep its peer from the CPU. */
static void yield_at_times(struct vb_rs *rs)
{
	enum { LOOKS = 32 };

	if (atomic_fetch_add_explicit(&rs->empty_looks, 1, memory_order_relaxed) % LOOKS ==
	    LOOKS - 1)
		sched_yield();
}

ssize_t vb_rs_recvv(struct vb_rs *rs, const struct iovec *iov, int count, int flags)
{
	struct vb_cursor to;
	struct vb_undo undo;
	uint64_t deadline_ns;
	ssize_t result = vb_cursor_init(&to, iov, count);

	if (result)
		return result;
	if (flags & MSG_OOB)
		return -EINVAL;
	if (flags & MSG_ERRQUEUE)
		return -EAGAIN; /* the error queue is always empty */
	vb_rs_lock(rs);
	deadline_ns = vb_rs_deadline(rs->nonblock || (flags & MSG_DONTWAIT),
				     rs->options.receive_timeout_ns);
	result = to.left ? vb_rs_begin(rs, &rs->in, deadline_ns) : 0;
	if (to.left && !result) {
		vb_undo_push(&undo, vb_rs_undo_in, rs);
		result = receive_stream(rs, &to, flags, deadline_ns);
		vb_undo_pop(&undo);
		vb_rs_end(rs, &rs->in);
	}
	pthread_mutex_unlock(&rs->lock);
	if (result == -EAGAIN)
		yield_at_times(rs);
	return result;
}
