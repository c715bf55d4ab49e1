/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An eventfd that counts the events of a queue, so that it is readable as long as there is one, and
 * the lock of that queue. Programs destroy a queue while a thread of theirs still waits in it.
 * As at a descriptor of the kernel, that thread is not woken. But it may have been, by an event
 * that was withdrawn since: so this outlives the queue until the last thread has left.
 */
#ifndef VB_BASE_EVENT_FD_H
#define VB_BASE_EVENT_FD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct vb_event_fd {
	int fd;
	pthread_mutex_t lock; /* the queue is there; and what follows */
	bool closed;
	bool nonblocking; /* when it was closed */
	unsigned users;   /* the queue, and threads that take from it */
	pid_t owner;      /* a child process has a copy of it, with a lock that nobody gives back */
};

int vb_event_fd_open(struct vb_event_fd **out);
/* Its number may be used again; the rest of it stays until vb_event_fd_put. */
void vb_event_fd_close(struct vb_event_fd *events);
void vb_event_fd_put(struct vb_event_fd *events);

/* After fork, in the child: a count of its own under the same number, and nobody waits. */
void vb_event_fd_own(struct vb_event_fd *events);

/* So many events more. Neither this nor the next does anything once it is closed. */
void vb_event_fd_count(struct vb_event_fd *events, uint64_t more);
/* One event less, if somebody who waits has not taken it already. Never blocks. */
void vb_event_fd_uncount(struct vb_event_fd *events);
/* Takes an event from a queue, under the lock; NULL: the one that was counted is withdrawn. */
typedef void *vb_event_take(void *queue);
/* The next event; blocks or -EAGAIN, as the descriptor is set. A cancellation point. */
int vb_event_fd_take(struct vb_event_fd *events, vb_event_take *take, void *queue, void **event);

#endif
