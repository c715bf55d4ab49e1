/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for an rsocket.
 *
 * Three things change a stream: a completion (it makes the channel of an armed CQ readable), an
 * event of the connection manager, and a call of another thread. The last two notify all watches. A
 * thread that wants to sleep arms the CQ, looks again, and polls the channel and an eventfd of its
 * own. The thread that takes the event of the CQ from the channel takes the wake-up from all other
 * sleepers, so it notifies them. Each of them arms again.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "rsocket/rsocket.h"
#include "rsocket/sys.h"

struct thread_event {
	int fd;
	unsigned generation; /* a child of fork shares the descriptor with its parent */
};

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

static void thread_event_free(void *value)
{
	struct thread_event *event = value;

	vb_fd_close(&event->fd);
	free(event);
}

static void thread_key_create(void)
{
	pthread_key_create(&thread_key, thread_event_free);
}

static struct thread_event *thread_event(void)
{
	struct thread_event *event;

	pthread_once(&thread_once, thread_key_create);
	event = pthread_getspecific(thread_key);
	if (event)
		return event;
	event = malloc(sizeof(*event));
	if (!event)
		return NULL;
	event->fd = -1;
	if (pthread_setspecific(thread_key, event)) {
		free(event);
		return NULL;
	}
	return event;
}

int vb_rs_thread_event(void)
{
	struct thread_event *event = thread_event();

	if (!event)
		return -ENOMEM;
	if (event->fd >= 0 && event->generation != vb_rs_generation())
		vb_fd_close(&event->fd);
	if (event->fd < 0) {
		event->fd = vb_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		event->generation = vb_rs_generation();
	}
	return event->fd < 0 ? -errno : event->fd;
}

void vb_rs_event_drain(int event_fd)
{
	uint64_t count;

	if (read(event_fd, &count, sizeof(count)) < 0)
		return; /* the counter was 0 */
}

void vb_rs_event_write(struct vb_rs_watch *watch)
{
	const uint64_t one = 1;

	if (write(watch->event_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full, and so readable */
}

void vb_rs_notify(struct vb_rs *rs, const struct vb_rs_watch *but)
{
	vb_list_for(watch, &rs->watches, struct vb_rs_watch, node) {
		if (watch != but)
			watch->notify(watch);
	}
}

bool vb_rs_arm(struct vb_rs *rs, const struct vb_rs_watch *self)
{
	struct ibv_cq *cq;
	void *context;

	if (!vb_rs_polls_cq(rs))
		return false;
	if (rs->armed && !ibv_get_cq_event(rs->channel, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		rs->armed = false;
		vb_rs_notify(rs, self);
	}
	if (rs->armed)
		return false;
	if (ibv_req_notify_cq(rs->cq, 0)) {
		vb_rs_break(rs, EIO);
		return true;
	}
	rs->armed = true;
	return true;
}

uint64_t vb_rs_deadline(bool nonblock, uint64_t timeout_ns)
{
	if (nonblock)
		return 0;
	return timeout_ns ? vb_now_ns() + timeout_ns : VB_NEVER_NS;
}

/*
 * Every signal handler interrupts poll(2), but socket calls go on after handlers with SA_RESTART.
 * The library does not know which handler ran. If all handlers have SA_RESTART, this one had it.
 */
bool vb_rs_restart(void)
{
	struct sigaction action;

	for (int number = 1; number < NSIG; number++) {
		if (sigaction(number, NULL, &action))
			continue;
		if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN &&
		    !(action.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

struct sleeper {
	struct vb_rs *rs;
	struct vb_rs_watch watch;
};

static void sleeper_cancelled(void *held)
{
	struct sleeper *self = held;

	pthread_mutex_lock(&self->rs->lock);
	vb_list_remove(&self->watch.node);
	pthread_mutex_unlock(&self->rs->lock);
}

/* Releases the lock, and sleeps until a notification, a completion or the deadline. */
static int sleep_until(struct vb_rs *rs, const struct vb_rs_watch *self, uint64_t deadline_ns)
{
	struct pollfd fds[2] = {
		{ .fd = self->event_fd, .events = POLLIN },
		{ .fd = vb_rs_completion_fd(rs), .events = POLLIN },
	};
	struct timespec timeout;
	uint64_t now_ns = vb_now_ns();
	int err = 0;

	if (now_ns >= deadline_ns)
		return -EAGAIN;
	timeout.tv_sec = (time_t)((deadline_ns - now_ns) / 1000000000u);
	timeout.tv_nsec = (long)((deadline_ns - now_ns) % 1000000000u);
	pthread_mutex_unlock(&rs->lock);
	if (vb_sys_sleep(fds, 2, deadline_ns == VB_NEVER_NS ? NULL : &timeout, NULL) < 0)
		err = errno == EINTR && vb_rs_restart() ? 0 : -errno;
	else if (fds[0].revents)
		vb_rs_event_drain(self->event_fd);
	pthread_mutex_lock(&rs->lock);
	return err;
}

static bool look_once(struct vb_rs *rs, vb_rs_test *test)
{
	vb_rs_progress(rs);
	return test(rs);
}

/* An answer often comes within microseconds, and a sleep costs more. */
static bool look_for_a_while(struct vb_rs *rs, vb_rs_test *test)
{
	const uint64_t until_ns = vb_now_ns() + vb_rs_settings()->polling_time_us * 1000u;

	if (!vb_rs_polls_cq(rs))
		return false;
	do {
		pthread_mutex_unlock(&rs->lock);
		pthread_mutex_lock(&rs->lock);
		if (look_once(rs, test))
			return true;
	} while (vb_now_ns() < until_ns);
	return false;
}

static int wait_asleep(struct vb_rs *rs, vb_rs_test *test, uint64_t deadline_ns)
{
	struct sleeper self = { .rs = rs, .watch.notify = vb_rs_event_write };
	struct vb_undo undo;
	int err = 0;

	self.watch.event_fd = vb_rs_thread_event();
	if (self.watch.event_fd < 0)
		return self.watch.event_fd;
	vb_list_append(&rs->watches, &self.watch.node);
	vb_undo_push(&undo, sleeper_cancelled, &self);
	while (!look_once(rs, test)) {
		if (vb_rs_arm(rs, &self.watch))
			continue;
		err = sleep_until(rs, &self.watch, deadline_ns);
		if (err)
			break;
	}
	vb_undo_pop(&undo);
	vb_list_remove(&self.watch.node);
	return err;
}

int vb_rs_wait(struct vb_rs *rs, vb_rs_test *test, uint64_t deadline_ns)
{
	if (look_once(rs, test))
		return 0;
	if (!deadline_ns)
		return -EAGAIN;
	return look_for_a_while(rs, test) ? 0 : wait_asleep(rs, test, deadline_ns);
}
