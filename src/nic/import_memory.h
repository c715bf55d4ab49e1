/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_NIC_IMPORT_MEMORY_H
#define VB_NIC_IMPORT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The address at which this process maps the memory that process pid has at addr: the same part of
 * the same file, mapped shared by both. -EOPNOTSUPP: no such mapping, or the kernel does not say.
 */
int vb_import_locate(pid_t pid, uint64_t addr, uint64_t length, bool write, uint64_t *here);

#endif
