/* SPDX-License-Identifier: BSD-2-Clause */
/* Carries bytes between an rsocket and the parent's end of a pair; children have the other end. */
#include "preload-sockets/real.h"

#include "preload-sockets/pump.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "rsocket/poll.h"

enum { ROOM = 65536 };

struct direction {
	uint8_t bytes[ROOM];
	size_t start, end; /* of the bytes to write */
	bool over;         /* the writer has ended */
	bool told;         /* the reader knows of the end, or is gone */
};

struct vb_pump {
	struct vb_share *share;
	struct direction out, in; /* out: to the peer; in: to the children */
	bool deserted;            /* no process has the children's end any more */
};

static bool is_empty(const struct direction *direction)
{
	return direction->start == direction->end;
}

/* A count or -errno; 0 is the end. */
static ssize_t read_child(struct vb_pump *pump)
{
	ssize_t count = vb_real()->recv(pump->share->ours, pump->out.bytes, ROOM, MSG_DONTWAIT);

	return count < 0 ? -errno : count;
}

static ssize_t read_peer(struct vb_pump *pump)
{
	const struct iovec iov = { pump->in.bytes, ROOM };

	return vb_rs_recvv(pump->share->rs, &iov, 1, MSG_DONTWAIT);
}

static ssize_t write_child(struct vb_pump *pump, const uint8_t *bytes, size_t size)
{
	ssize_t count =
		vb_real()->send(pump->share->ours, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);

	return count < 0 ? -errno : count;
}

static ssize_t write_peer(struct vb_pump *pump, const uint8_t *bytes, size_t size)
{
	const struct iovec iov = { (void *)bytes, size };

	return vb_rs_sendv(pump->share->rs, &iov, 1, MSG_DONTWAIT);
}

static void tell_child(struct vb_pump *pump)
{
	vb_real()->shutdown(pump->share->ours, SHUT_WR);
}

static void tell_peer(struct vb_pump *pump)
{
	vb_rs_shutdown(pump->share->rs, SHUT_WR);
}

/* The reader is gone, so writing fails from now on. */
static void refuse_child(struct vb_pump *pump)
{
	vb_real()->shutdown(pump->share->ours, SHUT_RD);
}

static void refuse_peer(struct vb_pump *pump)
{
	vb_rs_shutdown(pump->share->rs, SHUT_RD);
}

struct ways {
	ssize_t (*read)(struct vb_pump *pump);
	ssize_t (*write)(struct vb_pump *pump, const uint8_t *bytes, size_t size);
	void (*tell)(struct vb_pump *pump), (*refuse)(struct vb_pump *pump);
};

static const struct ways outward = { read_child, write_peer, tell_peer, refuse_child };
static const struct ways inward = { read_peer, write_child, tell_child, refuse_peer };

static void direction_fill(struct vb_pump *pump, struct direction *direction,
			   const struct ways *ways)
{
	ssize_t count;

	if (direction->over || !is_empty(direction))
		return;
	count = ways->read(pump);
	if (count == -EAGAIN || count == -EINTR)
		return;
	direction->over = count <= 0;
	direction->start = 0;
	direction->end = count > 0 ? (size_t)count : 0;
}

static void direction_drain(struct vb_pump *pump, struct direction *direction,
			    const struct ways *ways)
{
	while (!is_empty(direction)) {
		const ssize_t count = ways->write(pump, direction->bytes + direction->start,
						  direction->end - direction->start);

		if (count == -EAGAIN || count == -EINTR)
			return;
		if (count < 0) {
			ways->refuse(pump);
			direction->over = direction->told = true;
			direction->start = direction->end = 0;
			return;
		}
		direction->start += (size_t)count;
	}
	if (direction->over && !direction->told) {
		ways->tell(pump);
		direction->told = true;
	}
}

static short wanted(const struct direction *from, const struct direction *to)
{
	return (short)((from->over || !is_empty(from) ? 0 : POLLIN) | (is_empty(to) ? 0 : POLLOUT));
}

/*
 * Waits until a direction can move. An rsocket without wanted events is left out, because an ended
 * one would be ready for ever.
 */
static void pump_wait(struct vb_pump *pump, bool alone)
{
	struct vb_share *share = pump->share;
	struct pollfd fds[3] = {
		{ .fd = pump->deserted ? -1 : share->ours,
		  .events = wanted(&pump->out, &pump->in) },
		{ .fd = share->wake_fd, .events = POLLIN },
		{ .fd = -1, .events = wanted(&pump->in, &pump->out) },
	};
	struct vb_rs *rsockets[3] = { 0 };

	if (!alone)
		fds[2].events &= POLLOUT;
	if (fds[2].events)
		rsockets[2] = share->rs;
	if (vb_rs_poll(fds, rsockets, 3, VB_NEVER_NS, NULL) < 0)
		return;
	if (fds[1].revents)
		vb_rs_event_drain(share->wake_fd);
	if (fds[0].revents & POLLHUP)
		pump->deserted = true;
}

/* The pump runs until the last bytes of the children are sent. */
static bool is_done(const struct vb_pump *pump)
{
	return pump->deserted && pump->out.over && is_empty(&pump->out);
}

struct vb_pump *vb_pump_create(struct vb_share *share)
{
	struct vb_pump *pump = calloc(1, sizeof(*pump));

	if (pump)
		pump->share = share;
	return pump;
}

void vb_pump_run(struct vb_pump *pump)
{
	while (!is_done(pump)) {
		/* Pairs with vb_share_hand_over. */
		const bool alone = atomic_load(&pump->share->alone);

		direction_fill(pump, &pump->out, &outward);
		direction_drain(pump, &pump->out, &outward);
		if (alone) {
			direction_fill(pump, &pump->in, &inward);
			direction_drain(pump, &pump->in, &inward);
		}
		if (!pump->deserted || !is_empty(&pump->out))
			pump_wait(pump, alone);
	}
	free(pump);
}
