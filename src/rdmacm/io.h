/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the connection manager and the service thread: messages, the timer, first data. All
 * descriptors are in one epoll of ours, which the engine watches.
 */
#ifndef VB_RDMACM_IO_H
#define VB_RDMACM_IO_H

#include "cm/cm.h"

/* Under the lock. */
int vb_cma_io_start(void);
/* In the child of a fork. */
void vb_cma_io_forget(void);

/* Called in the service thread, under the lock. */
typedef void vb_cma_io_fn(int fd, uint32_t arg);

/* A descriptor is watched from now on; and not any more, if it ever was. Under the lock. */
int vb_cma_io_watch(int fd, vb_cma_io_fn *ready, uint32_t arg);
void vb_cma_io_unwatch(int fd);
/* In the child of a fork: closes its copies of what is watched with this callback. */
void vb_cma_io_close(vb_cma_io_fn *ready);
/* For the descriptor of a claim. */
vb_cma_io_fn vb_cma_io_messages;

/* For vb_cm_ops. */
void vb_cma_io_send(void *arg, const struct vb_cm_route *route,
		    const struct vb_cm_message *message);

#endif
