/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that prepare a program for fork(). A NIC needs them because it keeps physical pages while
 * copy-on-write moves the parent to new ones. Here all copies go through page tables, so the
 * parent's registrations survive a fork without these calls. A device of the system's needs them,
 * and before its first region: so they load the system's library.
 */
#include <infiniband/verbs.h>

#include "base/cancel.h"
#include "base/symver.h"
#include "system/forward.h"

VB_PUBLIC int ibv_fork_init(void)
{
	VB_NO_CANCEL;

	return vb_system_load() ? vb_system_ibv_fork_init() : 0;
}

VB_PUBLIC enum ibv_fork_status ibv_is_fork_initialized(void)
{
	VB_NO_CANCEL;

	return vb_system_load() ? vb_system_ibv_is_fork_initialized() : IBV_FORK_UNNEEDED;
}

/* The next two are for providers; the installed headers do not declare them. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

VB_PUBLIC int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

VB_PUBLIC int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
