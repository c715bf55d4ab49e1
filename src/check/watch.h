/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive buffers that the program uses while they are posted. All of it under the lock. */
#ifndef VB_CHECK_WATCH_H
#define VB_CHECK_WATCH_H

#include "check/check.h"

/* When a device is opened: the first event of a system takes milliseconds. */
void vb_watch_begin(void);
/* A receive was posted: it may be the one that is watched. */
void vb_watch_receive(struct vb_object *owner, struct vb_work *work);
/* Reports what was seen. */
void vb_watch_tell(void);
/* The watched receive ends. */
void vb_watch_ends(struct vb_work *work);
/* The same for the receive of this owner, which does not receive any more. NULL: of any. */
void vb_watch_forget(const struct vb_object *owner);
/* The memory is no longer the device's. */
void vb_watch_forget_memory(uint64_t addr, uint64_t length);
void vb_watch_forked(void);

#endif
