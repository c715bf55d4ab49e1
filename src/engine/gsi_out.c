/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writing to other processes' names. The queue of a unix datagram socket may be as short as ten
 * messages, and a lost MAD costs its sender seconds: what finds no room is written again, each
 * millisecond, for a while.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "engine/gsi_impl.h"
#include "engine/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { HELD_MAX = 4096 };
#define AGAIN_NS    1000000l
#define PATIENCE_NS 2000000000ull /* then its reader does not read */

struct held {
	struct vb_list node;
	uint64_t give_up_ns;
	struct vb_cm_target target;
	struct vb_gsi_datagram datagram;
	bool stuck; /* found no room in this round */
};

/* 0, -ECONNREFUSED: nobody is there, -EAGAIN: no room. */
static int write_now(struct vb_gsi *gsi, const struct vb_cm_target *target,
		     const struct vb_gsi_datagram *datagram)
{
	if (sendto(gsi->out, datagram, sizeof(*datagram), MSG_DONTWAIT | MSG_NOSIGNAL,
		   (const void *)&target->address, target->length) >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == EINTR
		       ? -EAGAIN
		       : -ECONNREFUSED;
}

static void set_timer(const struct vb_gsi *gsi, bool on)
{
	const struct itimerspec spec = { .it_value = { 0, on ? AGAIN_NS : 0 },
					 .it_interval = { 0, on ? AGAIN_NS : 0 } };

	timerfd_settime(gsi->timer, 0, &spec, NULL);
}

static bool same_target(const struct vb_cm_target *a, const struct vb_cm_target *b)
{
	return a->length == b->length && !memcmp(&a->address, &b->address, a->length);
}

/* Under the lock: does something that waits have to go before it? */
static bool is_stuck(const struct vb_gsi *gsi, const struct vb_cm_target *target)
{
	vb_list_for(held, &gsi->held, struct held,
		    node) if (held->stuck && same_target(&held->target, target)) return true;
	return false;
}

static void drop(struct vb_gsi *gsi, struct held *held)
{
	vb_list_remove(&held->node);
	gsi->held_count--;
	free(held);
}

static void try_one(struct vb_gsi *gsi, struct held *held, uint64_t now_ns)
{
	int err = is_stuck(gsi, &held->target) ? -EAGAIN
					       : write_now(gsi, &held->target, &held->datagram);

	if (err == -EAGAIN && now_ns < held->give_up_ns) {
		held->stuck = true;
		return;
	}
	vb_gsi_count(gsi, !err ? VB_GSI_ROUTED : VB_GSI_FULL);
	drop(gsi, held);
}

/* By the service thread. */
static void on_timer(int fd, void *arg)
{
	struct vb_gsi *gsi = arg;
	uint64_t count, now_ns = vb_now_ns();

	if (read(fd, &count, sizeof(count)) < 0)
		return;
	pthread_mutex_lock(&gsi->lock);
	vb_list_for(held, &gsi->held, struct held, node) held->stuck = false;
	vb_list_for(held, &gsi->held, struct held, node) try_one(gsi, held, now_ns);
	if (vb_list_empty(&gsi->held))
		set_timer(gsi, false);
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

static bool hold(struct vb_gsi *gsi, const struct vb_cm_target *target,
		 const struct vb_gsi_datagram *datagram)
{
	struct held *held =
		gsi->held_count < HELD_MAX && open_timer(gsi) ? malloc(sizeof(*held)) : NULL;

	if (!held)
		return false;
	held->give_up_ns = vb_now_ns() + PATIENCE_NS;
	held->target = *target;
	held->datagram = *datagram;
	held->stuck = true;
	if (vb_list_empty(&gsi->held))
		set_timer(gsi, true);
	vb_list_append(&gsi->held, &held->node);
	gsi->held_count++;
	return true;
}

enum vb_gsi_fate vb_gsi_write(struct vb_gsi *gsi, const struct vb_cm_target *target,
			      const struct vb_gsi_datagram *datagram)
{
	enum vb_gsi_fate fate = VB_GSI_GIVEN;
	int err;

	pthread_mutex_lock(&gsi->lock);
	err = is_stuck(gsi, target) ? -EAGAIN : write_now(gsi, target, datagram);
	if (!err) {
		vb_gsi_count(gsi, VB_GSI_ROUTED);
	} else if (err == -ECONNREFUSED) {
		fate = VB_GSI_ABSENT;
	} else if (hold(gsi, target, datagram)) {
		vb_gsi_count(gsi, VB_GSI_WAITED);
	} else {
		vb_gsi_count(gsi, VB_GSI_FULL);
		fate = VB_GSI_LOST;
	}
	pthread_mutex_unlock(&gsi->lock);
	return fate;
}
