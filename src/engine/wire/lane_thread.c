/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire/lane_thread.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/message.h"
#include "engine/wire/wire_impl.h"

enum { EVENTS = 2 };
#define DOORBELL_EVENT UINT64_MAX

struct vb_lane_thread {
	struct vb_lane *lane;
	int epoll;                /* the thread sleeps in it */
	int doorbell;             /* eventfd */
	_Atomic uint64_t wake_ns; /* the thread sleeps until then; 0: do not ring */
	_Atomic bool stop, stopped;
};

static void ring(const struct vb_lane_thread *thread)
{
	const uint64_t one = 1;

	if (vb_write(thread->doorbell, &one, sizeof(one)) < 0)
		return; /* a full counter: it rings already */
}

void vb_lane_wake(struct vb_lane *lane)
{
	struct vb_lane_thread *thread = atomic_load(&lane->thread);
	struct vb_nic *nic = lane->nic;

	if (thread && vb_wire_is_late(lane, atomic_load(&thread->wake_ns)))
		ring(thread);
	else if (!thread && vb_wire_is_late(lane, atomic_load(&nic->engine->service_wake_ns)))
		vb_nic_ring(nic);
}

/* Announces the time of waking, then makes sure that no timer came in between. */
static int sleep_until(struct vb_lane_thread *thread, struct epoll_event events[EVENTS])
{
	struct vb_lane *lane = thread->lane;
	const uint64_t now_ns = vb_now_ns(), wake_ns = vb_wire_lane_next_ns(lane, now_ns);
	const bool looks = lane->left || lane->again_ns; /* it comes again soon anyway */
	uint64_t rest_ns = wake_ns > now_ns ? wake_ns - now_ns : 0;
	struct timespec timeout;
	int count;

	atomic_store(&thread->wake_ns, looks ? 0 : wake_ns);
	if (!looks && vb_wire_is_late(lane, wake_ns))
		rest_ns = 0;
	timeout.tv_sec = (time_t)(rest_ns / 1000000000u);
	timeout.tv_nsec = (long)(rest_ns % 1000000000u);
	count = vb_engine_sleep(lane->nic->engine, thread->epoll, events, EVENTS,
				wake_ns == VB_NEVER_NS && rest_ns ? NULL : &timeout);
	atomic_store(&thread->wake_ns, 0);
	return count;
}

/* Packets may leave work for the service thread: events of CQs, flushes of failed QPs. */
static void leave_the_rest(struct vb_nic *nic)
{
	if (atomic_load(&nic->seg.lent->attention) || atomic_load(&nic->flushes_pending))
		vb_nic_ring(nic);
}

static void thread_free(struct vb_lane_thread *thread)
{
	vb_fd_close(&thread->epoll);
	vb_fd_close(&thread->doorbell);
	free(thread);
}

static void *serve(void *arg)
{
	struct vb_lane_thread *thread = arg;
	struct epoll_event events[EVENTS];
	bool woken = false;

	prctl(PR_SET_NAME, "verbena lane");
	while (!atomic_load(&thread->stop)) {
		uint64_t rings;
		int count;

		vb_wire_service_lane(thread->lane, woken);
		leave_the_rest(thread->lane->nic);
		count = sleep_until(thread, events);
		woken = false;
		for (int i = 0; i < count; i++)
			if (events[i].data.u64 != DOORBELL_EVENT)
				woken = true;
			else if (vb_read(thread->doorbell, &rings, sizeof(rings)) < 0)
				continue; /* another event took it */
	}
	atomic_store(&thread->stopped, true); /* the last access */
	return NULL;
}

static struct vb_lane_thread *thread_new(struct vb_lane *lane)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = DOORBELL_EVENT };
	struct vb_lane_thread *thread = calloc(1, sizeof(*thread));

	if (!thread)
		return NULL;
	thread->lane = lane;
	thread->epoll = vb_fd_high(epoll_create1(EPOLL_CLOEXEC));
	thread->doorbell = vb_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (thread->epoll >= 0 && thread->doorbell >= 0 &&
	    !epoll_ctl(thread->epoll, EPOLL_CTL_ADD, thread->doorbell, &event))
		return thread;
	thread_free(thread);
	return NULL;
}

/* The lock keeps other threads from watching the port while it moves. */
void vb_lane_thread_start(struct vb_lane *lane)
{
	struct vb_lane_thread *thread;

	if (!vb_wire_try_lock(lane))
		return;
	lane->served = 0;
	thread = thread_new(lane);
	if (thread) {
		atomic_store(&lane->thread, thread);
		vb_port_move(lane->port, thread->epoll);
		if (vb_engine_start_thread(serve, thread)) {
			vb_port_move(lane->port, lane->nic->engine->epoll);
			atomic_store(&lane->thread, NULL);
			thread_free(thread);
		}
	}
	vb_wire_unlock(lane);
}

void vb_lane_thread_stop(struct vb_lane *lane)
{
	struct vb_lane_thread *thread = atomic_exchange(&lane->thread, NULL);

	if (!thread)
		return;
	vb_port_move(lane->port, lane->nic->engine->epoll);
	atomic_store(&thread->stop, true);
	ring(thread);
	/* It waits for no lock, so this takes no longer than its turn. */
	while (!atomic_load(&thread->stopped))
		sched_yield();
	thread_free(thread);
}
