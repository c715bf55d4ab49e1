/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port events. The routing socket tells that an interface or an address changed; then every device
 * that is open is compared with what it was: IBV_EVENT_PORT_ERR, PORT_ACTIVE, GID_CHANGE, LID_CHANGE,
 * SM_CHANGE, CLIENT_REREGISTER; and PKEY_CHANGE where engine/pkey_watch.h asks for it.
 */
#ifndef VB_ENGINE_LINK_WATCH_H
#define VB_ENGINE_LINK_WATCH_H

#include "nic/context.h"

#define VB_LINK_EVENT (UINT64_MAX - 2) /* the data of the socket in the service thread's epoll */

/* The service thread starts: the socket is opened and put into its epoll. Without it there are no
 * port events, nothing worse. */
void vb_link_watch_start(int epoll);
/* The socket is readable. By the service thread. */
void vb_link_event(void);

/* A context was opened, and is about to be closed: after this no event touches it. */
void vb_link_watch_add(struct vb_context *ctx);
void vb_link_watch_remove(struct vb_context *ctx);

/* Called after addresses of this host may have changed, by the service thread; NULL: nothing is. */
void vb_link_hook(void (*hook)(void));

/* Compares all open devices with what they were. False: nothing changed. */
bool vb_link_compare(void);

#endif
