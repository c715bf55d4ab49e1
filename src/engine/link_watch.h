/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port events. The routing socket tells that an interface or an address changed. Then every open
 * device is compared with its last state: IBV_EVENT_PORT_ERR, PORT_ACTIVE, GID_CHANGE, LID_CHANGE,
 * SM_CHANGE, CLIENT_REREGISTER; and PKEY_CHANGE where engine/pkey_watch.h asks for it.
 */
#ifndef VB_ENGINE_LINK_WATCH_H
#define VB_ENGINE_LINK_WATCH_H

#include "nic/context.h"

#define VB_LINK_EVENT (UINT64_MAX - 2) /* the data of the socket in the service thread's epoll */

/*
 * The service thread starts: opens the routing socket and puts it into the thread's epoll. Without
 * the socket there are no port events, nothing worse.
 */
void vb_link_watch_start(int epoll);
/* By the service thread: the socket is readable. */
void vb_link_event(void);

/* A context was opened, or is about to be closed. After the removal no event touches it. */
void vb_link_watch_add(struct vb_context *ctx);
void vb_link_watch_remove(struct vb_context *ctx);

/* The service thread calls hook() after addresses of this host may have changed. NULL: none. */
void vb_link_hook(void (*hook)(void));

/* Compares all open devices with their last state. False: nothing changed. */
bool vb_link_compare(void);

#endif
