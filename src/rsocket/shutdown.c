/* SPDX-License-Identifier: BSD-2-Clause */
/* Ending one direction of a stream, or both. */
#include <errno.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "rsocket/datagram.h"
#include "rsocket/rsocket.h"

static const uint64_t control_wait_ns = 2000000000u;

static bool control_decided(struct vb_rs *rs)
{
	return rs->state != VB_RS_CONNECTED || rs->stream->control_free;
}

/* Sends the message after all data. Under lock, by the sending thread. */
static int post_end(struct vb_rs *rs, enum vb_rs_control control, uint64_t deadline_ns)
{
	int err = vb_rs_wait_in(rs, &rs->out, control_decided, deadline_ns);

	if (err || rs->state != VB_RS_CONNECTED || rs->stream->said_disconnect)
		return err;
	if (control == VB_RS_DISCONNECT)
		rs->stream->said_disconnect = true;
	return vb_rs_post_control(rs, control);
}

/* The notification wakes a sender that waits for credits, and it leaves. */
static void shut_directions(struct vb_rs *rs, bool read, bool write)
{
	rs->read_shut |= read;
	rs->write_shut |= write;
	vb_rs_notify(rs, NULL);
}

/* Chooses the message to the peer after the flags have changed; false: none. */
static bool choose_message(const struct vb_rs *rs, bool read, bool write,
			   enum vb_rs_control *control)
{
	if (!rs->write_shut || (rs->read_shut == read && rs->write_shut == write))
		return false;
	/* If the peer sends nothing, or this side reads nothing, both directions end. */
	*control = rs->read_shut || rs->peer_shut ? VB_RS_DISCONNECT : VB_RS_SHUTDOWN;
	return true;
}

static int end_directions(struct vb_rs *rs, int how)
{
	const bool read = rs->read_shut, write = rs->write_shut;
	const uint64_t deadline_ns = vb_now_ns() + control_wait_ns;
	enum vb_rs_control control;
	int err;

	shut_directions(rs, how != SHUT_WR, how != SHUT_RD);
	if (!choose_message(rs, read, write, &control))
		return 0;
	err = vb_rs_begin(rs, &rs->out, deadline_ns);
	if (err)
		return err;
	err = post_end(rs, control, deadline_ns);
	vb_rs_end(rs, &rs->out);
	return err;
}

int vb_rs_shutdown(struct vb_rs *rs, int how)
{
	VB_NO_CANCEL_ASLEEP;
	int err;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	pthread_mutex_lock(&rs->lock);
	if (rs->type == SOCK_DGRAM && vb_rs_datagram_is_connected(rs)) {
		shut_directions(rs, how != SHUT_WR, how != SHUT_RD);
		err = 0;
	} else if (rs->state == VB_RS_CONNECTED) {
		err = end_directions(rs, how);
	} else if (rs->state == VB_RS_DISCONNECTED) {
		shut_directions(rs, how != SHUT_WR, how != SHUT_RD);
		err = 0;
	} else {
		err = -ENOTCONN;
	}
	pthread_mutex_unlock(&rs->lock);
	return err;
}

void vb_rs_finish(struct vb_rs *rs, uint64_t deadline_ns)
{
	VB_NO_CANCEL_ASLEEP;
	bool was_connected;

	pthread_mutex_lock(&rs->lock);
	was_connected = rs->state >= VB_RS_CONNECTED && rs->state != VB_RS_FAILED;
	if (rs->state == VB_RS_CONNECTED) {
		shut_directions(rs, true, true);
		/* deadline 0 (SO_LINGER with time 0): unsent data are dropped. */
		if (deadline_ns && !vb_rs_begin(rs, &rs->out, deadline_ns)) {
			if (!post_end(rs, VB_RS_DISCONNECT, deadline_ns))
				vb_rs_wait_in(rs, &rs->out, vb_rs_all_sent, deadline_ns);
			vb_rs_end(rs, &rs->out);
		}
	}
	pthread_mutex_unlock(&rs->lock);
	if (was_connected)
		rdma_disconnect(rs->id);
}
