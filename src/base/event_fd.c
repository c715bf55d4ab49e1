/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/event_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/message.h"

int vb_event_fd_open(struct vb_event_fd **out)
{
	struct vb_event_fd *events = calloc(1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	events->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (events->fd < 0) {
		int err = -errno;

		free(events);
		return err;
	}
	pthread_mutex_init(&events->lock, NULL);
	events->users = 1;
	events->owner = getpid();
	*out = events;
	return 0;
}

static bool is_inherited(const struct vb_event_fd *events)
{
	return events->owner != getpid();
}

static void events_free(struct vb_event_fd *events)
{
	pthread_mutex_destroy(&events->lock);
	free(events);
}

void vb_event_fd_close(struct vb_event_fd *events)
{
	if (is_inherited(events)) {
		vb_close(events->fd);
		return;
	}
	pthread_mutex_lock(&events->lock);
	events->nonblocking = fcntl(events->fd, F_GETFL) & O_NONBLOCK;
	events->closed = true;
	vb_close(events->fd);
	pthread_mutex_unlock(&events->lock);
}

/* Called under the lock, which the function releases. */
static void user_leave(struct vb_event_fd *events)
{
	bool last = --events->users == 0;

	pthread_mutex_unlock(&events->lock);
	if (last)
		events_free(events);
}

void vb_event_fd_put(struct vb_event_fd *events)
{
	if (is_inherited(events)) {
		free(events);
		return;
	}
	pthread_mutex_lock(&events->lock);
	user_leave(events);
}

void vb_event_fd_own(struct vb_event_fd *events)
{
	int nonblocking = fcntl(events->fd, F_GETFL) & O_NONBLOCK;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE | nonblocking);

	if (fd >= 0) {
		dup3(fd, events->fd, O_CLOEXEC);
		vb_close(fd);
	}
	pthread_mutex_init(&events->lock, NULL);
	events->users = 1;
	events->owner = getpid();
}

void vb_event_fd_count(struct vb_event_fd *events, uint64_t more)
{
	if (!events->closed && vb_write(events->fd, &more, sizeof(more)) < 0)
		return; /* 2^64 - 2 events are counted: the descriptor is readable anyway */
}

void vb_event_fd_uncount(struct vb_event_fd *events)
{
	uint64_t count;
	struct iovec iov = { &count, sizeof(count) };
	struct pollfd ready = { .fd = events->fd, .events = POLLIN };

	if (events->closed || is_inherited(events))
		return;
	/* Callers hold locks: preadv2 is a cancellation point, syscall() is not. */
	if (syscall(SYS_preadv2, events->fd, &iov, 1UL, -1L, -1L, RWF_NOWAIT) >= 0 ||
	    errno == EAGAIN)
		return;
	/* This kernel has no RWF_NOWAIT for eventfds. */
	if (vb_ppoll(&ready, 1, (struct timespec){ 0 }) == 1 &&
	    vb_read(events->fd, &count, sizeof(count)) < 0)
		return;
}

struct take {
	struct vb_event_fd *events;
	volatile uint64_t count; /* 1: the count was taken */
};

/* The thread may have taken a count before it was cancelled. The event waits for another thread. */
static void take_cancelled(void *held)
{
	struct take *take = held;

	pthread_mutex_lock(&take->events->lock);
	if (take->count)
		vb_event_fd_count(take->events, take->count);
	user_leave(take->events);
}

static int take_count(struct vb_event_fd *events)
{
	struct take take = { .events = events };
	struct vb_undo undo;
	int err;

	vb_undo_push(&undo, take_cancelled, &take);
	VB_SLEEP_BEGIN;
	err = read(events->fd, (void *)&take.count, sizeof(take.count)) < 0 ? -errno : 0;
	VB_SLEEP_END;
	vb_undo_pop(&undo);
	return err;
}

/* Behaves as a read of the descriptor, which is closed now: the thread waits for a signal. */
static int wait_for_nothing(bool nonblocking)
{
	if (nonblocking)
		return -EAGAIN;
	VB_SLEEP_BEGIN;
	pause();
	VB_SLEEP_END;
	return -EINTR;
}

int vb_event_fd_take(struct vb_event_fd *events, vb_event_take *take, void *queue, void **event)
{
	bool gone, nonblocking;
	int err = 0;

	*event = NULL;
	pthread_mutex_lock(&events->lock);
	events->users++;
	while (!err && !*event && !events->closed) {
		pthread_mutex_unlock(&events->lock);
		err = take_count(events);
		pthread_mutex_lock(&events->lock);
		if (!err && !events->closed)
			*event = take(queue);
	}
	gone = events->closed && !*event && (!err || err == -EBADF);
	nonblocking = events->nonblocking;
	user_leave(events);
	return gone ? wait_for_nothing(nonblocking) : err;
}
