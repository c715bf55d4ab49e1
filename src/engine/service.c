/* SPDX-License-Identifier: BSD-2-Clause */
/* The service thread holds the life word, answers attaches, and works when no program polls. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/adversary.h"
#include "base/annotate.h"
#include "base/barrier.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/attach/capture.h"
#include "engine/attach/seccomp.h"
#include "engine/engine.h"
#include "engine/link_watch.h"
#include "engine/pkey_watch.h"
#include "engine/quiet.h"
#include "engine/watch.h"
#include "engine/why_quit.h"
#include "engine/wire/listen.h"
#include "engine/wire/multicast.h"
#include "engine/wire/wire.h"
#include "nic/move.h"

enum {
	EVENTS = 32,
	STACK_SIZE = 256 << 10,
	FLUSH_LOOK_NS = 200000,
};

#define DOORBELL_EVENT       UINT64_MAX
#define PEERS_DOORBELL_EVENT (UINT64_MAX - 3)

/*
 * The data of an epoll entry: a constant for a doorbell, a port and the routing socket, the
 * number of a listener, a number above all addresses for a watched descriptor (watch.h), else the
 * address of a peer.
 */
static bool is_listener(const struct vb_nic *nic, uint64_t data)
{
	return data < VB_OWN_SLOTS && data < nic->slot_count;
}

/* A peer can make its doorbell blocking, and read it before this thread: so never wait. */
static void drain_doorbell(int doorbell)
{
	uint64_t count;
	struct iovec iov = { &count, sizeof(count) };

	if (preadv2(doorbell, &iov, 1, -1, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP &&
	    read(doorbell, &count, sizeof(count)) < 0)
		return;
}

static void on_link_event(struct vb_nic *nic)
{
	vb_wire_catch_up(nic); /* earlier packets complete before the event */
	vb_link_event();
	vb_listen_again(nic);
	vb_wire_enter_again(nic);
	vb_multicast_again(nic);
}

static void handle_event(struct vb_engine *engine, const struct epoll_event *event)
{
	struct vb_nic *nic = engine->nic;

	if (event->data.u64 == DOORBELL_EVENT)
		drain_doorbell(nic->doorbell);
	else if (event->data.u64 == PEERS_DOORBELL_EVENT)
		drain_doorbell(nic->peers_doorbell);
	else if (event->data.u64 - VB_PORT_EVENT < VB_LANES_MAX)
		/* vb_wire_service follows every sleep */
		engine->ports_woke |= 1u << (event->data.u64 - VB_PORT_EVENT);
	else if (event->data.u64 == VB_LINK_EVENT)
		on_link_event(nic);
	else if (is_listener(nic, event->data.u64))
		vb_attach_accept(nic, nic->slots[event->data.u64].listener);
	else if (event->data.u64 & VB_WATCH_EVENT)
		vb_watch_event(event->data.u64);
	else
		vb_attach_event(nic, event->data.ptr);
}

static uint64_t wake_time_ns(struct vb_engine *engine)
{
	uint64_t now_ns = vb_now_ns(), wake_ns = vb_engine_next_wake_ns(engine, now_ns);
	uint64_t wire_ns = vb_wire_next_ns(engine->nic, now_ns);

	if (atomic_load(&engine->nic->flushes_pending) && wake_ns > now_ns + FLUSH_LOOK_NS)
		wake_ns = now_ns + FLUSH_LOOK_NS;
	if (atomic_load(&engine->peer_ended) && wake_ns > now_ns + FLUSH_LOOK_NS)
		wake_ns = now_ns + FLUSH_LOOK_NS;
	if (vb_cq_next_due_ns(engine->nic) < wake_ns)
		wake_ns = vb_cq_next_due_ns(engine->nic);
	if (vb_quiet_next_ns(now_ns) < wake_ns)
		wake_ns = vb_quiet_next_ns(now_ns);
	return wire_ns < wake_ns ? wire_ns : wake_ns;
}

/*
 * Announces the time of waking, then makes sure that nothing came in between. -1: sleep for ever,
 * 0: not at all, 1: for *timeout.
 */
static int sleep_time(struct vb_engine *engine, bool polled, struct timespec *timeout)
{
	uint64_t wake_ns = wake_time_ns(engine), now_ns;

	/* While pollers retry, no thread needs to ring for a QP that waits. */
	polled =
		(polled && wake_ns <= vb_now_ns() + VB_POLLED_LOOK_NS) || vb_wire_left(engine->nic);
	atomic_store(&engine->service_wake_ns, polled ? 0 : wake_ns);
	atomic_thread_fence(memory_order_seq_cst); /* pairs with the one in vb_engine_pend */
	if ((!polled && (vb_engine_next_wake_ns(engine, wake_ns) < wake_ns ||
			 vb_wire_too_late(engine->nic, wake_ns))) ||
	    atomic_load(&engine->nic->seg.lent->attention))
		return 0;
	if (wake_ns == VB_NEVER_NS)
		return -1;
	now_ns = vb_now_ns();
	wake_ns = wake_ns > now_ns ? wake_ns - now_ns : 0;
	timeout->tv_sec = (time_t)(wake_ns / 1000000000u);
	timeout->tv_nsec = (long)(wake_ns % 1000000000u);
	return wake_ns ? 1 : 0;
}

int vb_engine_sleep(struct vb_engine *engine, int epoll, struct epoll_event *events, int most,
		    const struct timespec *timeout)
{
	int count = -1;

	if (!atomic_load_explicit(&engine->coarse, memory_order_relaxed))
		count = epoll_pwait2(epoll, events, most, timeout, NULL);
	/* Before Linux 5.11, or where a filter refuses the call: milliseconds, rounded up. */
	if (count < 0 && errno != EINTR)
		atomic_store_explicit(&engine->coarse, true, memory_order_relaxed);
	if (!atomic_load_explicit(&engine->coarse, memory_order_relaxed))
		return count;
	return epoll_wait(
		epoll, events, most,
		!timeout ? -1
			 : (int)(timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000));
}

static int wait_events(struct vb_engine *engine, struct epoll_event *events, bool polled)
{
	struct timespec timeout = { 0 };
	int kind = sleep_time(engine, polled, &timeout);
	int count =
		vb_engine_sleep(engine, engine->epoll, events, EVENTS, kind < 0 ? NULL : &timeout);

	/* This thread is awake: no thread needs to ring until the next sleep. */
	atomic_store(&engine->service_wake_ns, 0);
	return count;
}

static void *service(void *arg)
{
	struct vb_engine *engine = arg;
	struct vb_nic *nic = engine->nic;
	struct epoll_event events[EVENTS];

	prctl(PR_SET_NAME, "verbena");
	nic->self->tid = (pid_t)syscall(SYS_gettid);
	nic->untouchable = vb_filter_forbids_vm();
	/* The adversary cuts copies into pieces where they go through the kernel. */
	if (vb_adversary_on() && !nic->untouchable)
		atomic_fetch_add(&nic->on_demand, 1);
	/* Held for life: the kernel marks the mutex when this process ends or calls exec. */
	pthread_mutex_lock(&nic->seg.head->life);
	atomic_store(&engine->started, 1);
	vb_link_compare(); /* changes that came before the routing socket was watched */
	vb_pkey_watch_start(nic);
	for (bool polled = false;;) {
		int count = wait_events(engine, events, polled);

		pthread_mutex_lock(&vb_service_turn);
		for (int i = 0; i < count; i++)
			handle_event(engine, &events[i]);
		polled = !vb_engine_service(engine);
		vb_wire_service(nic, engine->ports_woke);
		engine->ports_woke = 0;
		vb_engine_let_go(engine);
		vb_quiet_look(nic, vb_now_ns());
		vb_why_quit_look();
		pthread_mutex_unlock(&vb_service_turn);
	}
	return NULL;
}

static int epoll_add(int epoll, int fd, uint64_t data)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = data };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/*
 * The thread runs wherever the first thread of the program may. The calling thread may be pinned to
 * a CPU that it keeps busy.
 */
static void let_roam(pthread_attr_t *attr)
{
	cpu_set_t cpus;

	if (!sched_getaffinity(getpid(), sizeof(cpus), &cpus))
		pthread_attr_setaffinity_np(attr, sizeof(cpus), &cpus);
}

/*
 * The application's signals are not for this thread. pthread_sigmask leaves the C library's own
 * signals unblocked: without them setuid() would wait for this thread for ever.
 */
int vb_engine_start_thread(void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	let_roam(&attr);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

static int engine_init(struct vb_engine *engine, struct vb_nic *nic)
{
	int err;

	engine->nic = nic;
	engine->coarse = vb_on_valgrind(); /* it may not know epoll_pwait2, and says so aloud */
	nic->private_nonce = vb_random64();
	nic->unregistered_barrier = !vb_barrier_register();
	/* Under Yama only ancestors may touch a process: peers are none (see verbena(7)). */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	engine->epoll = vb_fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (engine->epoll < 0)
		return -errno;
	err = vb_nic_doorbells_make(nic);
	if (!err)
		err = epoll_add(engine->epoll, nic->doorbell, DOORBELL_EVENT);
	if (!err)
		err = epoll_add(engine->epoll, nic->peers_doorbell, PEERS_DOORBELL_EVENT);
	if (!err) {
		nic->engine = engine;
		vb_link_watch_start(engine->epoll);
		vb_why_quit_watch(nic);
		err = vb_engine_start_thread(service, engine);
	}
	return err;
}

int vb_engine_start(struct vb_nic *nic)
{
	struct vb_engine *engine;
	int err = 0;

	bool first;

	pthread_mutex_lock(&nic->lock);
	first = !nic->engine;
	if (first) {
		engine = aligned_alloc(64, (sizeof(*engine) + 63) & ~63ul);
		if (engine)
			memset(engine, 0, sizeof(*engine));
		err = engine ? engine_init(engine, nic) : -ENOMEM;
		if (err) {
			vb_explain("cannot start the service thread: %s", strerror(-err));
			if (engine)
				vb_fd_close(&engine->epoll);
			free(engine);
			nic->engine = NULL;
		} else {
			while (!atomic_load(&engine->started))
				sched_yield();
		}
	}
	for (; !err && nic->engine->watched_slots < nic->slot_count; nic->engine->watched_slots++) {
		unsigned i = nic->engine->watched_slots;

		err = epoll_add(nic->engine->epoll, nic->slots[i].listener, i);
	}
	pthread_mutex_unlock(&nic->lock);
	if (first && !err)
		vb_capture_join(nic);
	return err;
}
