/* SPDX-License-Identifier: BSD-2-Clause */
/* The poll(2) events of an rsocket. */
#include <poll.h>

#include "rsocket/datagram.h"
#include "rsocket/rsocket.h"

enum {
	READ_EVENTS = POLLIN | POLLRDNORM,
	WRITE_EVENTS = POLLOUT | POLLWRNORM,
	ENDED = READ_EVENTS | WRITE_EVENTS | POLLRDHUP | POLLHUP,
};

static short connected(struct vb_rs *rs)
{
	short events = 0;

	if (vb_rs_readable_size(rs) || rs->peer_shut || rs->read_shut)
		events |= READ_EVENTS;
	if (rs->write_shut || vb_rs_can_send(rs))
		events |= WRITE_EVENTS;
	if (rs->peer_shut)
		events |= POLLRDHUP;
	/* Both directions are over. As with DISCONNECTED below, unread bytes come first. */
	if (rs->peer_shut && rs->write_shut && !vb_rs_readable_size(rs))
		events |= POLLHUP;
	return events;
}

static short stream_events(struct vb_rs *rs)
{
	switch (rs->state) {
	case VB_RS_INIT:
	case VB_RS_BOUND:
		return WRITE_EVENTS | POLLHUP; /* as with TCP */
	case VB_RS_LISTENING:
		if (rs->error)
			return READ_EVENTS | POLLERR;
		return vb_list_empty(&rs->listener.ready) ? 0 : READ_EVENTS;
	case VB_RS_RESOLVING:
	case VB_RS_CONNECTING:
	case VB_RS_ACCEPTING:
		return 0;
	case VB_RS_CONNECTED:
		return connected(rs);
	case VB_RS_DISCONNECTED:
		/* A program that stops at POLLHUP must not miss unread bytes. */
		return vb_rs_readable_size(rs) ? ENDED & ~POLLHUP : ENDED;
	case VB_RS_FAILED:
	case VB_RS_BROKEN:
		break;
	}
	return ENDED | POLLERR;
}

short vb_rs_ready(struct vb_rs *rs, short events)
{
	short holds;

	vb_rs_progress(rs);
	if (rs->closed)
		return POLLNVAL;
	holds = rs->type == SOCK_STREAM ? stream_events(rs) : vb_rs_datagram_events(rs);
	return (short)(holds & (events | POLLERR | POLLHUP));
}

bool vb_rs_polls_cq(const struct vb_rs *rs)
{
	return rs->cq && (rs->type == SOCK_DGRAM || rs->state >= VB_RS_CONNECTED);
}

int vb_rs_completion_fd(const struct vb_rs *rs)
{
	return vb_rs_polls_cq(rs) ? rs->channel->fd : -1;
}
