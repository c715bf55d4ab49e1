/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager's input from the service thread: messages, the timer, the first data of a
 * connection. One epoll descriptor holds all descriptors of the library, and the engine watches it.
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

/* Under the lock. unwatch does nothing to a descriptor that is not watched. */
int vb_cma_io_watch(int fd, vb_cma_io_fn *ready, uint32_t arg);
void vb_cma_io_unwatch(int fd);
/* In the child of a fork: closes its copies of the descriptors that have this callback. */
void vb_cma_io_close(vb_cma_io_fn *ready);
/* The callback for the descriptor of a claim. */
vb_cma_io_fn vb_cma_io_messages;

/* A member of vb_cm_ops. */
void vb_cma_io_send(void *arg, const struct vb_cm_route *route,
		    const struct vb_cm_message *message);

#endif
