/* SPDX-License-Identifier: BSD-2-Clause */
/* The descriptors of the exported functions. */
#ifndef VB_RSOCKET_PUBLIC_H
#define VB_RSOCKET_PUBLIC_H

#include "rsocket/rsocket.h"

/* NULL: no rsocket of this process. The caller puts the rsocket when done. */
struct vb_rs *vb_rs_lookup(int fd);
/* Returns a new descriptor for rs. Takes the caller's reference, even on failure. */
int vb_rs_install(struct vb_rs *rs, bool cloexec);
struct vb_rs *vb_rs_uninstall(int fd);
/* Registers the fork handler of the tables of descriptors. */
void vb_rs_watch_fork(void);

#endif
