/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel says about a thread of another process that does not move. */
#ifndef VB_NIC_STOPPED_H
#define VB_NIC_STOPPED_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The thread is stopped by a signal, and the last thing that it did was to return from
 * process_vm_readv or process_vm_writev. False: it is not, or nobody may know.
 */
bool vb_stopped_behind_copy(pid_t pid, pid_t tid);
/* The thread has ended, or nobody may know. */
bool vb_stopped_for_ever(pid_t pid, pid_t tid);

#endif
