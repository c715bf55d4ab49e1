/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "rdmacm/cma.h"
#include "rdmacm/connect_retry.h"
#include "rdmacm/disconnect_delay.h"
#include "rdmacm/neighbour.h"
#include "rdmacm/peer_watch.h"
#include "rdmacm/probe.h"

enum {
	DATAGRAMS_AT_ONCE = 64, /* a flood at one descriptor must not starve the others */
	EVENTS_AT_ONCE = 32,
};

static int epoll = -1, timer = -1;
static uint64_t timer_ns = VB_NEVER_NS; /* the time that the timer is set to */

/*
 * By descriptor. An event may come late, for a descriptor that is closed and whose number the
 * application has by now. The library touches only descriptors that are in this table.
 */
struct watched {
	vb_cma_io_fn *ready; /* NULL: not a descriptor of the library */
	uint32_t arg;
};
static struct watched *watched;
static int watched_size;

/* --- the timer --- */

static uint64_t next_due_ns(void)
{
	const uint64_t due_ns[] = { vb_cma_disconnect_delay_next_ns(),
				    vb_cma_connect_retry_next_ns(), vb_cma_peer_watch_next_ns(),
				    vb_cma_neighbour_next_ns(), vb_cma_probe_next_ns() };
	uint64_t next_ns = vb_cm_next_ns(vb_cma_cm());

	for (size_t i = 0; i < sizeof(due_ns) / sizeof(*due_ns); i++)
		next_ns = due_ns[i] < next_ns ? due_ns[i] : next_ns;
	return next_ns;
}

void vb_cma_rearm(void)
{
	uint64_t next_ns = next_due_ns();
	struct itimerspec when = { 0 };

	/* A timer that fires too early costs less than a system call for each change. */
	if (timer < 0 || next_ns >= timer_ns)
		return;
	when.it_value.tv_sec = (time_t)(next_ns / 1000000000u);
	when.it_value.tv_nsec = (long)(next_ns % 1000000000u);
	if (!when.it_value.tv_sec && !when.it_value.tv_nsec)
		when.it_value.tv_nsec = 1; /* zero would disarm the timer */
	if (!timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL))
		timer_ns = next_ns;
}

static void timer_fired(int fd, uint32_t arg)
{
	uint64_t count, now_ns = vb_now_ns();

	(void)arg;
	if (read(fd, &count, sizeof(count)) != sizeof(count))
		return;
	timer_ns = VB_NEVER_NS;
	vb_cm_tick(vb_cma_cm(), now_ns);
	vb_cma_disconnect_delay_tick(now_ns);
	vb_cma_connect_retry_tick(now_ns);
	vb_cma_peer_watch_tick(now_ns);
	vb_cma_neighbour_tick(now_ns);
	vb_cma_probe_tick(now_ns);
}

/* --- messages --- */

static void input(const struct vb_gsi_datagram *datagram, uid_t uid)
{
	struct vb_cm_route route = {
		.local = datagram->dst,
		.remote = datagram->src,
		.scope = datagram->scope,
		.user = datagram->from_wire ? 0 : uid + 1,
		.traffic_class = datagram->traffic_class,
	};
	struct vb_cm_message message;

	/* The engine has dropped and counted what is no message of the connection manager. */
	if (vb_cm_parse(datagram->mad, sizeof(datagram->mad), &message) != VB_CM_OK)
		return;
	vb_cma_probe_heard(&route);
	vb_cm_input(vb_cma_cm(), &route, &message, vb_now_ns());
}

void vb_cma_io_messages(int fd, uint32_t arg)
{
	struct vb_gsi_datagram datagram;
	uid_t uid;

	(void)arg;
	for (int i = 0; i < DATAGRAMS_AT_ONCE; i++) {
		int err = vb_cma_engine()->gsi_receive(fd, &datagram, &uid);

		if (!err)
			input(&datagram, uid);
		else if (err != -EBADMSG)
			return;
	}
}

void vb_cma_io_send(void *arg, const struct vb_cm_route *route, const struct vb_cm_message *message)
{
	struct vb_gsi_datagram datagram = {
		.magic = VB_GSI_MAGIC,
		.src = route->local,
		.dst = route->remote,
		.scope = route->scope,
		.traffic_class = route->traffic_class,
	};

	(void)arg;
	vb_cm_emit(message, datagram.mad);
	/* The protocol sends again what is lost here. */
	(void)vb_cma_engine()->gsi_send(&datagram);
}

/* In the service thread: a message has arrived at a QP in RTR, so the peer has our REP. */
static void data_arrived(uint32_t qpn)
{
	vb_cma_lock();
	vb_cm_data_arrived(vb_cma_cm(), qpn, vb_now_ns());
	vb_cma_rearm();
	vb_cma_unlock();
}

/* --- the epoll --- */

static void dispatch(const struct epoll_event *event)
{
	int fd = event->data.fd;

	if (fd < watched_size && watched[fd].ready)
		watched[fd].ready(fd, watched[fd].arg);
}

/* In the service thread. */
static void epoll_ready(int fd, void *arg)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	int count;

	(void)arg;
	vb_cma_lock();
	count = fd == epoll ? epoll_wait(fd, events, EVENTS_AT_ONCE, 0) : 0;
	for (int i = 0; i < count; i++)
		dispatch(&events[i]);
	vb_cma_rearm();
	vb_cma_unlock();
}

static int grow_watched(int fd)
{
	int size = 2 * fd + 64;
	struct watched *table;

	if (fd < watched_size)
		return 0;
	table = realloc(watched, (size_t)size * sizeof(*table));
	if (!table)
		return -ENOMEM;
	memset(table + watched_size, 0, (size_t)(size - watched_size) * sizeof(*table));
	watched = table;
	watched_size = size;
	return 0;
}

int vb_cma_io_watch(int fd, vb_cma_io_fn *callback, uint32_t arg)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
	int err = grow_watched(fd);

	if (err)
		return err;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	watched[fd] = (struct watched){ callback, arg };
	return 0;
}

void vb_cma_io_unwatch(int fd)
{
	if (fd >= watched_size || !watched[fd].ready)
		return;
	epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
	watched[fd].ready = NULL;
}

void vb_cma_io_close(vb_cma_io_fn *callback)
{
	for (int fd = 0; fd < watched_size; fd++) {
		if (watched[fd].ready == callback)
			close(fd);
	}
}

/* --- beginning and end --- */

static int start_epoll(void)
{
	epoll = vb_fd_high(epoll_create1(EPOLL_CLOEXEC));
	return epoll < 0 ? -errno : vb_cma_engine()->watch(epoll, epoll_ready, NULL);
}

static int start_timer(void)
{
	timer = vb_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	timer_ns = VB_NEVER_NS;
	return timer < 0 ? -errno : vb_cma_io_watch(timer, timer_fired, 0);
}

int vb_cma_io_start(void)
{
	const struct vb_engine_table *engine = vb_cma_engine();
	int fd = engine->gsi_open();
	int err = fd < 0 ? fd : start_epoll();

	if (!err)
		err = start_timer();
	if (!err)
		err = vb_cma_io_watch(fd, vb_cma_io_messages, 0);
	if (!err)
		err = engine->on_comm_est(data_arrived);
	if (err && epoll >= 0)
		engine->unwatch(epoll);
	if (err)
		vb_cma_io_forget();
	return err;
}

/* Closing the child's copy takes nothing out of the epoll of the parent. */
void vb_cma_io_forget(void)
{
	vb_fd_close(&timer);
	vb_fd_close(&epoll);
	watched_size = 0;
	watched = NULL;
}
