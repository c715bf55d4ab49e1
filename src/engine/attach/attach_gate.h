/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_ATTACH_ATTACH_GATE_H
#define VB_ENGINE_ATTACH_ATTACH_GATE_H

#include <sys/socket.h>

#include "nic/nic.h"

/* Who is at the other end of a unix socket, as the kernel says. 0 or -errno. */
int vb_attach_credentials(int fd, struct ucred *cred);
/* The next connection, and whose it is; -EPERM: it may not stay, -EAGAIN: there is none. Service thread. */
int vb_attach_next(struct vb_nic *nic, int listener, struct ucred *cred);

#endif
