/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/barrier.h"

#include <sys/syscall.h>
#include <unistd.h>
#include <linux/membarrier.h>

bool vb_barrier_register(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

bool vb_barrier_others(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}
