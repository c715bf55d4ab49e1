/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of other processes that do not move, as the kernel sees them. */
#ifndef VB_NIC_STOPPED_H
#define VB_NIC_STOPPED_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * True: the thread is stopped by a signal, and before that it returned from process_vm_readv or
 * process_vm_writev. False: it is not, or the kernel does not say.
 */
bool vb_stopped_behind_copy(pid_t pid, pid_t tid);
/* True: the process is stopped, by a signal or by a debugger. */
bool vb_stopped_process(pid_t pid);
/* True: the thread has ended, or the kernel does not say. */
bool vb_stopped_for_ever(pid_t pid, pid_t tid);

#endif
