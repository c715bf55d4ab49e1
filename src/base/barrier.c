/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/barrier.h"

#include <sys/syscall.h>
#include <unistd.h>
#include <linux/membarrier.h>

/*
 * A filter (seccomp) may refuse one command or both. A process that cannot fence others has peers
 * with the same filter, as a rule, so its own registration would be worth nothing.
 */
bool vb_barrier_register(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) &&
	       vb_barrier_others();
}

bool vb_barrier_others(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}
