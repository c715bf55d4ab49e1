/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_ATTACH_SECCOMP_H
#define VB_ENGINE_ATTACH_SECCOMP_H

#include <stdbool.h>

/* True: a system call filter refuses process_vm_readv to this process, or kills for it. */
bool vb_filter_forbids_vm(void);

#endif
