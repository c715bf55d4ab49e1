/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The service thread of rsockets: events of the connection manager, keepalives, and descriptors of
 * datagram rsockets. The thread starts with the first rsocket, and sleeps when nothing is due.
 */
#include "rsocket/service.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork.h"

static struct {
	pthread_mutex_t lock; /* taken last */
	bool running;
	struct rdma_event_channel *channel;
	int epoll_fd, wake_fd;
	struct vb_list keepalives; /* struct vb_rs_stream; each holds a reference of its rsocket */
	struct vb_list accepts;    /* listeners whose backlog has room again */
	struct vb_list unwatched;  /* watches to forget */
} service = { .lock = PTHREAD_MUTEX_INITIALIZER, .epoll_fd = -1, .wake_fd = -1 };

static atomic_uint generation = 1;

unsigned vb_rs_generation(void)
{
	return atomic_load_explicit(&generation, memory_order_relaxed);
}

/* --- events of the connection manager --- */

static void on_connect_request(struct rdma_cm_event *event)
{
	struct vb_rs *listener = event->listen_id->context, *child = NULL;
	struct rdma_cm_id *id = event->id;
	const bool alive = vb_fd_object_try_get(&listener->object);

	if (alive)
		child = vb_rs_request(listener, event);
	/* After the ack the listener's id may go. The children hold a reference to the listener. */
	rdma_ack_cm_event(event);
	if (!child) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
	}
	if (!alive)
		return;
	vb_rs_accept_more(listener);
	vb_rs_put(listener);
}

static void on_cm_event(struct rdma_cm_event *event)
{
	struct vb_rs *rs = event->id->context;
	bool decided;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		on_connect_request(event);
		return;
	}
	/* A thread that destroys the id waits for the ack, so rs is still there. */
	if (!rs || !vb_fd_object_try_get(&rs->object)) {
		rdma_ack_cm_event(event);
		return;
	}
	decided = vb_rs_connect_event(rs, event);
	rdma_ack_cm_event(event);
	if (decided)
		vb_rs_accept_done(rs);
	vb_rs_put(rs);
}

static void on_cm_events(void)
{
	struct rdma_cm_event *event;

	while (!rdma_get_cm_event(service.channel, &event))
		on_cm_event(event);
}

/* --- keepalive --- */

static void wake(void)
{
	const uint64_t one = 1;

	if (write(service.wake_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full, so the thread wakes anyway */
}

void vb_rs_service_keepalive(struct vb_rs *rs)
{
	struct vb_rs_stream *stream = rs->stream;

	/* No thread would take a closed rsocket out of the list again. */
	if (rs->state != VB_RS_CONNECTED || !rs->options.keepalive || rs->closed)
		return;
	pthread_mutex_lock(&service.lock);
	if (!stream->keepalive_rs) {
		stream->keepalive_rs = rs;
		vb_rs_get(rs);
		vb_list_append(&service.keepalives, &stream->keepalive_node);
	}
	stream->keepalive_interval_ns = (uint64_t)rs->options.keep_idle_s * 1000000000u;
	stream->keepalive_due_ns = vb_now_ns() + stream->keepalive_interval_ns;
	pthread_mutex_unlock(&service.lock);
	wake();
}

/* Under the lock of the rsocket, because a second connect frees the stream. */
static bool unlist(struct vb_rs_stream *stream)
{
	bool listed;

	pthread_mutex_lock(&service.lock);
	listed = stream->keepalive_rs;
	vb_list_remove(&stream->keepalive_node);
	stream->keepalive_rs = NULL;
	pthread_mutex_unlock(&service.lock);
	return listed;
}

void vb_rs_service_forget(struct vb_rs *rs)
{
	bool listed;

	pthread_mutex_lock(&rs->lock);
	listed = rs->stream && unlist(rs->stream);
	pthread_mutex_unlock(&rs->lock);
	if (listed)
		vb_rs_put(rs);
}

/* An rsocket whose keepalive is due, with a reference; NULL: *next_ns is the next due time. */
static struct vb_rs *due_keepalive(uint64_t now_ns, uint64_t *next_ns)
{
	struct vb_rs *rs = NULL;

	*next_ns = VB_NEVER_NS;
	pthread_mutex_lock(&service.lock);
	vb_list_for(stream, &service.keepalives, struct vb_rs_stream, keepalive_node) {
		if (stream->keepalive_due_ns <= now_ns) {
			rs = stream->keepalive_rs;
			vb_rs_get(rs);
			stream->keepalive_due_ns = now_ns + stream->keepalive_interval_ns;
			break;
		}
		if (stream->keepalive_due_ns < *next_ns)
			*next_ns = stream->keepalive_due_ns;
	}
	pthread_mutex_unlock(&service.lock);
	return rs;
}

static void send_keepalive(struct vb_rs *rs)
{
	bool ended;

	vb_rs_lock_service(rs);
	vb_rs_progress(rs);
	if (rs->state == VB_RS_CONNECTED && rs->options.keepalive)
		vb_rs_post_control(rs, VB_RS_KEEPALIVE); /* -EAGAIN: there is traffic anyway */
	ended = rs->state != VB_RS_CONNECTED || !rs->options.keepalive;
	pthread_mutex_unlock(&rs->lock);
	if (ended)
		vb_rs_service_forget(rs);
	vb_rs_put(rs);
}

static int keepalive_timeout_ms(void)
{
	uint64_t next_ns, now_ns = vb_now_ns();
	struct vb_rs *rs;

	while ((rs = due_keepalive(now_ns, &next_ns)))
		send_keepalive(rs);
	if (next_ns == VB_NEVER_NS)
		return -1;
	return (int)((next_ns - now_ns) / 1000000u + 1);
}

/* --- room that accept made in a backlog --- */

void vb_rs_service_accept(struct vb_rs *rs)
{
	bool waiting;

	pthread_mutex_lock(&rs->lock);
	pthread_mutex_lock(&service.lock);
	waiting = !vb_list_empty(&rs->listener.requests) && vb_list_empty(&rs->accept_node);
	if (waiting) {
		vb_list_append(&service.accepts, &rs->accept_node);
		vb_rs_get(rs);
	}
	pthread_mutex_unlock(&service.lock);
	pthread_mutex_unlock(&rs->lock);
	if (waiting)
		wake();
}

static struct vb_rs *next_accept(void)
{
	struct vb_rs *rs;

	pthread_mutex_lock(&service.lock);
	rs = vb_list_element(service.accepts.next, &service.accepts, struct vb_rs, accept_node);
	if (rs)
		vb_list_remove(&rs->accept_node);
	pthread_mutex_unlock(&service.lock);
	return rs;
}

static void serve_accepts(void)
{
	struct vb_rs *rs;

	while ((rs = next_accept())) {
		vb_rs_accept_more(rs);
		vb_rs_put(rs);
	}
}

/* --- the thread --- */

int vb_rs_service_watch(struct vb_rs_service_watch *watch)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = watch };
	int err = 0;

	/* Under the lock: the thread takes the lock before it handles events of the epoll. */
	pthread_mutex_lock(&service.lock);
	if (epoll_ctl(service.epoll_fd, EPOLL_CTL_ADD, watch->fd, &event))
		err = -errno;
	pthread_mutex_unlock(&service.lock);
	return err;
}

void vb_rs_service_unwatch(struct vb_rs_service_watch *watch)
{
	epoll_ctl(service.epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	pthread_mutex_lock(&service.lock);
	vb_list_append(&service.unwatched, &watch->node);
	pthread_mutex_unlock(&service.lock);
	wake();
}

/* Between two rounds: no event of an unwatched descriptor is still to be handled. */
static void forget_unwatched(void)
{
	struct vb_rs_service_watch *watch;

	do {
		pthread_mutex_lock(&service.lock);
		watch = vb_list_element(service.unwatched.next, &service.unwatched,
					struct vb_rs_service_watch, node);
		if (watch)
			vb_list_remove(&watch->node);
		pthread_mutex_unlock(&service.lock);
		if (watch)
			watch->gone(watch);
	} while (watch);
}

/* These watches only mark events in the epoll; they have no callbacks. */
static struct vb_rs_service_watch channel_mark, wake_mark;

static void *run_service(void *unused)
{
	struct epoll_event events[16];

	for (;;) {
		int count = epoll_wait(service.epoll_fd, events, 16, keepalive_timeout_ms());

		/* Pairs with vb_rs_service_watch: the watch in an event is complete. */
		pthread_mutex_lock(&service.lock);
		pthread_mutex_unlock(&service.lock);
		for (int i = 0; i < count; i++) {
			struct vb_rs_service_watch *watch = events[i].data.ptr;

			if (watch == &channel_mark)
				on_cm_events();
			else if (watch == &wake_mark)
				vb_rs_event_drain(service.wake_fd);
			else
				watch->ready(watch);
		}
		serve_accepts();
		forget_unwatched();
	}
	return unused;
}

/* The thread and its objects stay with the parent. */
static void forget_service(void)
{
	pthread_mutex_init(&service.lock, NULL);
	service.running = false;
	service.channel = NULL;
	vb_fd_close(&service.epoll_fd);
	vb_fd_close(&service.wake_fd);
	atomic_fetch_add(&generation, 1);
}

static const struct vb_fork_handlers at_fork = { .child = forget_service };

/* Under the lock. */
static int watch_mark(struct vb_rs_service_watch *mark)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = mark };

	return epoll_ctl(service.epoll_fd, EPOLL_CTL_ADD, mark->fd, &event);
}

static int open_descriptors(void)
{
	service.channel = rdma_create_event_channel();
	if (!service.channel)
		return -errno;
	if (fcntl(service.channel->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	service.epoll_fd = vb_fd_high(epoll_create1(EPOLL_CLOEXEC));
	service.wake_fd = vb_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	channel_mark.fd = service.channel->fd;
	wake_mark.fd = service.wake_fd;
	if (service.epoll_fd < 0 || service.wake_fd < 0)
		return -errno;
	return watch_mark(&channel_mark) || watch_mark(&wake_mark) ? -errno : 0;
}

static int start_thread(void)
{
	sigset_t all, before;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	err = pthread_create(&thread, NULL, run_service, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		pthread_detach(thread);
	return -err;
}

static void close_descriptors(void)
{
	if (service.channel)
		rdma_destroy_event_channel(service.channel);
	service.channel = NULL;
	vb_fd_close(&service.epoll_fd);
	vb_fd_close(&service.wake_fd);
}

static int start_service(void)
{
	int err;

	vb_list_init(&service.keepalives);
	vb_list_init(&service.accepts);
	vb_list_init(&service.unwatched);
	err = open_descriptors();
	err = err ? err : start_thread();
	if (err)
		close_descriptors();
	else
		service.running = true;
	return err;
}

int vb_rs_service_start(struct rdma_event_channel **channel)
{
	int err = 0;

	vb_fork_register(VB_FORK_RSOCKET_SERVICE, &at_fork);
	pthread_mutex_lock(&service.lock);
	if (!service.running)
		err = start_service();
	if (channel)
		*channel = service.channel;
	pthread_mutex_unlock(&service.lock);
	return err;
}
