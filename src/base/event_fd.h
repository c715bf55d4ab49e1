/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An eventfd that counts the events of a queue, so that the descriptor is readable while the queue
 * has an event; and the lock of that queue. Programs destroy a queue while one of their threads
 * still waits in it. As with a descriptor of the kernel, the destruction does not wake that thread.
 * But an event that was withdrawn since may have woken the thread. So this object outlives the
 * queue until the last thread has left.
 */
#ifndef VB_BASE_EVENT_FD_H
#define VB_BASE_EVENT_FD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct vb_event_fd {
	int fd;
	pthread_mutex_t lock; /* guards the queue and the members below */
	bool closed;
	bool nonblocking; /* O_NONBLOCK of the descriptor when it was closed */
	unsigned users;   /* the queue, and threads that take from it */
	pid_t owner;      /* another process has a copy, with a lock that may be held for ever */
};

int vb_event_fd_open(struct vb_event_fd **out);
/* Closes the descriptor, whose number is free then; the object stays until vb_event_fd_put. */
void vb_event_fd_close(struct vb_event_fd *events);
void vb_event_fd_put(struct vb_event_fd *events);

/* After fork, in the child: a new count under the same descriptor, and no thread waits. */
void vb_event_fd_own(struct vb_event_fd *events);

/* Counts more events. This function and the next do nothing once the descriptor is closed. */
void vb_event_fd_count(struct vb_event_fd *events, uint64_t more);
/* Counts one event less, unless a waiting thread has already taken the count. Never blocks. */
void vb_event_fd_uncount(struct vb_event_fd *events);
/* Takes an event from a queue, under the lock; NULL: the counted event was withdrawn. */
typedef void *vb_event_take(void *queue);
/*
 * The next event. Without one the call blocks, or returns -EAGAIN if the descriptor does not block.
 * A cancellation point, inside a guard (cancel.h).
 */
int vb_event_fd_take(struct vb_event_fd *events, vb_event_take *take, void *queue, void **event);

#endif
