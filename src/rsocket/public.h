/* SPDX-License-Identifier: BSD-2-Clause */
/* The descriptors of the exported functions. */
#ifndef VB_RSOCKET_PUBLIC_H
#define VB_RSOCKET_PUBLIC_H

#include "rsocket/rsocket.h"

/* NULL: no rsocket of this process. Else put it when done. */
struct vb_rs *vb_rs_lookup(int fd);
/* A new descriptor for rs, whose reference it takes (also on failure). */
int vb_rs_install(struct vb_rs *rs, bool cloexec);
struct vb_rs *vb_rs_uninstall(int fd);

#endif
