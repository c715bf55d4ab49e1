/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of others that the service thread watches for them. */
#ifndef VB_ENGINE_WATCH_H
#define VB_ENGINE_WATCH_H

#include "engine/engine.h"

typedef void (*vb_watch_fn)(int fd, void *arg);

/* Above every user-space address; the rest is a number of ours. */
#define VB_WATCH_EVENT (1ull << 63)

/*
 * Calls ready(fd, arg) in the service thread, with no lock held, as long as fd is readable. Starts
 * the service thread. 0, -EEXIST, ... Any thread.
 */
int vb_watch(struct vb_nic *nic, int fd, vb_watch_fn ready, void *arg);
/* The same where it is known to run: under any lock. */
int vb_watch_running(struct vb_nic *nic, int fd, vb_watch_fn ready, void *arg);
/* No call begins after this; one that is under way is not waited for. */
void vb_unwatch(struct vb_nic *nic, int fd);

/* By the service thread: the epoll entry with this data has something. */
void vb_watch_event(uint64_t data);

#endif
