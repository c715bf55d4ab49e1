/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_ATTACH_SECCOMP_H
#define VB_ENGINE_ATTACH_SECCOMP_H

#include <stdbool.h>

/* A system call filter of this process refuses process_vm_readv, or kills for it. */
bool vb_filter_forbids_vm(void);

#endif
