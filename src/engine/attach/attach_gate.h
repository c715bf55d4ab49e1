/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_ATTACH_ATTACH_GATE_H
#define VB_ENGINE_ATTACH_ATTACH_GATE_H

#include <sys/socket.h>

#include "nic/nic.h"

/* The process at the other end of a unix socket, as the kernel knows it. 0 or -errno. */
int vb_attach_credentials(int fd, struct ucred *cred);
/*
 * By the service thread: the next connection, and the process behind it. -EPERM: the connection was
 * refused. -EAGAIN: there is none.
 */
int vb_attach_next(struct vb_nic *nic, int listener, struct ucred *cred);

#endif
