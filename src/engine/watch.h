/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors that the service thread watches for other parts of the library. */
#ifndef VB_ENGINE_WATCH_H
#define VB_ENGINE_WATCH_H

#include "engine/engine.h"

typedef void (*vb_watch_fn)(int fd, void *arg);

/* The data of such an epoll entry: this bit, above every user-space address, and a number. */
#define VB_WATCH_EVENT (1ull << 63)

/*
 * The service thread calls ready(fd, arg), with no lock held, as long as fd is readable. Starts the
 * service thread. 0, -EEXIST, ... Any thread.
 */
int vb_watch(struct vb_nic *nic, int fd, vb_watch_fn ready, void *arg);
/* The same where the service thread is known to run: under any lock. */
int vb_watch_running(struct vb_nic *nic, int fd, vb_watch_fn ready, void *arg);
/* No call begins after this. A call that is under way is not waited for. */
void vb_unwatch(struct vb_nic *nic, int fd);

/* By the service thread: the descriptor of the epoll entry with this data is readable. */
void vb_watch_event(uint64_t data);

#endif
