/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that a child process inherited by fork belong to its parent's NIC. */
#ifndef VB_VERBS_STALE_H
#define VB_VERBS_STALE_H

#include <errno.h>

#include "base/log.h"
#include "nic/nic.h"

/* 0, or -EINVAL with an explanation. */
static inline int vb_stale(const struct vb_nic *nic, const char *call)
{
	if (__builtin_expect(nic == vb_nic_current(), 1))
		return 0;
	vb_explain("%s: the object was created before fork() and belongs to the parent; create it "
		   "in the process that uses it (daemon() forks, too)",
		   call);
	return -EINVAL;
}

#endif
