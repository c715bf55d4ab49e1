/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writing to names of other processes. The queue of a unix datagram socket may be as short as ten
 * messages, and a lost MAD costs its sender seconds. So a datagram that finds no room waits in a
 * line and is tried again: soon while the reader makes room, each millisecond while it does not,
 * for two seconds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/message.h"
#include "engine/watch.h"
#include "gsi/impl.h"

enum { HELD_MAX = 8192 };
#define AGAIN_NS_MIN 100000l       /* while the reader makes room */
#define AGAIN_NS_MAX 1000000l      /* while the reader makes none */
#define PATIENCE_NS  2000000000ull /* a datagram is lost after so long */

/* The datagrams that wait for one name, in order. */
struct line {
	struct vb_list node; /* in gsi->lines */
	struct vb_cm_target target;
	struct vb_list held; /* the oldest first; never empty */
	unsigned count;      /* datagrams in held */
};

struct held {
	struct vb_list node;
	uint64_t give_up_ns;
	struct vb_gsi_datagram datagram;
};

int vb_gsi_open_out(void)
{
	int fd = vb_fd_high(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	const int size = 1 << 20;

	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return fd;
}

/*
 * A process that does not read must not use up the send buffer for others. A new socket has a new
 * send buffer. Unread datagrams stay in their queues, and each queue is bounded.
 */
static bool exchange_out(struct vb_gsi *gsi)
{
	int fd = vb_fd_send_room_is_used(gsi->out) ? vb_gsi_open_out() : -1;

	if (fd < 0)
		return false;
	vb_fd_close(&gsi->out);
	gsi->out = fd;
	return true;
}

/* 0, -ECONNREFUSED: no process has the name, -EAGAIN: no room. */
static int write_datagram(const struct vb_gsi *gsi, const struct vb_cm_target *target,
			  const struct vb_gsi_datagram *datagram)
{
	if (vb_sendto(gsi->out, datagram, sizeof(*datagram), MSG_DONTWAIT | MSG_NOSIGNAL,
		      (const void *)&target->address, target->length) >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == EINTR
		       ? -EAGAIN
		       : -ECONNREFUSED;
}

/* The same, with a new socket if the send buffer is full. Under gsi->lock. */
static int write_now(struct vb_gsi *gsi, const struct vb_cm_target *target,
		     const struct vb_gsi_datagram *datagram)
{
	int err = write_datagram(gsi, target, datagram);

	return err == -EAGAIN && exchange_out(gsi) ? write_datagram(gsi, target, datagram) : err;
}

static void set_timer(struct vb_gsi *gsi, long again_ns)
{
	const struct itimerspec spec = { .it_value = { 0, again_ns },
					 .it_interval = { 0, again_ns } };

	if (gsi->again_ns != again_ns)
		timerfd_settime(gsi->timer, 0, &spec, NULL);
	gsi->again_ns = again_ns;
}

static bool same_target(const struct vb_cm_target *a, const struct vb_cm_target *b)
{
	return a->length == b->length && !memcmp(&a->address, &b->address, a->length);
}

/* Datagrams that wait go before a new one. Under gsi->lock. */
static struct line *find_line(const struct vb_gsi *gsi, const struct vb_cm_target *target)
{
	vb_list_for(line, &gsi->lines, struct line, node)
		if (same_target(&line->target, target))
			return line;
	return NULL;
}

/* True: the oldest datagram of the line was written or given up. False: there is no room. */
static bool try_oldest(struct vb_gsi *gsi, struct line *line, uint64_t now_ns)
{
	struct held *held = vb_container(line->held.next, struct held, node);
	int err = write_now(gsi, &line->target, &held->datagram);

	if (err == -EAGAIN && now_ns < held->give_up_ns)
		return false;
	vb_gsi_count(gsi, !err ? VB_GSI_ROUTED : VB_GSI_FULL);
	vb_list_remove(&held->node);
	line->count--;
	gsi->held_count--;
	free(held);
	return true;
}

/* True: at least one datagram left the line. */
static bool try_line(struct vb_gsi *gsi, struct line *line, uint64_t now_ns)
{
	bool any = false;

	while (!vb_list_empty(&line->held) && try_oldest(gsi, line, now_ns))
		any = true;
	if (vb_list_empty(&line->held)) {
		vb_list_remove(&line->node);
		free(line);
	}
	return any;
}

static void set_next(struct vb_gsi *gsi, bool any)
{
	if (vb_list_empty(&gsi->lines))
		set_timer(gsi, 0);
	else if (any)
		set_timer(gsi, AGAIN_NS_MIN);
	else if (gsi->again_ns < AGAIN_NS_MAX)
		set_timer(gsi, 2 * gsi->again_ns < AGAIN_NS_MAX ? 2 * gsi->again_ns : AGAIN_NS_MAX);
}

/* Called by the service thread. */
static void on_timer(int fd, void *arg)
{
	struct vb_gsi *gsi = arg;
	uint64_t count, now_ns = vb_now_ns();
	bool any = false;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
	pthread_mutex_lock(&gsi->lock);
	vb_list_for(line, &gsi->lines, struct line, node)
		any |= try_line(gsi, line, now_ns);
	set_next(gsi, any);
	pthread_mutex_unlock(&gsi->lock);
}

static bool open_timer(struct vb_gsi *gsi)
{
	if (gsi->timer >= 0)
		return true;
	gsi->timer = vb_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (gsi->timer < 0)
		return false;
	if (!gsi->nic->engine || vb_watch_running(gsi->nic, gsi->timer, on_timer, gsi))
		vb_fd_close(&gsi->timer);
	return gsi->timer >= 0;
}

static struct line *new_line(struct vb_gsi *gsi, const struct vb_cm_target *target)
{
	struct line *line = open_timer(gsi) ? malloc(sizeof(*line)) : NULL;

	if (!line)
		return NULL;
	line->target = *target;
	line->count = 0;
	vb_list_init(&line->held);
	vb_list_append(&gsi->lines, &line->node);
	set_timer(gsi, AGAIN_NS_MIN);
	return line;
}

/* A line may grow while more room is free than it has taken: no line fills all of it. */
static bool has_room(const struct vb_gsi *gsi, const struct line *line)
{
	return gsi->held_count + (line ? line->count : 0) < HELD_MAX;
}

static bool hold_datagram(struct vb_gsi *gsi, struct line *line, const struct vb_cm_target *target,
			  const struct vb_gsi_datagram *datagram)
{
	struct held *held = has_room(gsi, line) ? malloc(sizeof(*held)) : NULL;

	if (held && !line)
		line = new_line(gsi, target);
	if (!held || !line) {
		free(held);
		return false;
	}
	held->give_up_ns = vb_now_ns() + PATIENCE_NS;
	held->datagram = *datagram;
	vb_list_append(&line->held, &held->node);
	line->count++;
	gsi->held_count++;
	return true;
}

enum vb_gsi_fate vb_gsi_write(struct vb_gsi *gsi, const struct vb_cm_target *target,
			      const struct vb_gsi_datagram *datagram)
{
	enum vb_gsi_fate fate = VB_GSI_GIVEN;
	struct line *line;
	int err;

	pthread_mutex_lock(&gsi->lock);
	line = find_line(gsi, target);
	err = line ? -EAGAIN : write_now(gsi, target, datagram);
	if (!err) {
		vb_gsi_count(gsi, VB_GSI_ROUTED);
	} else if (err == -ECONNREFUSED) {
		fate = VB_GSI_ABSENT;
	} else if (hold_datagram(gsi, line, target, datagram)) {
		vb_gsi_count(gsi, VB_GSI_WAITED);
	} else {
		vb_gsi_count(gsi, VB_GSI_FULL);
		fate = VB_GSI_LOST;
	}
	pthread_mutex_unlock(&gsi->lock);
	return fate;
}
