/* SPDX-License-Identifier: BSD-2-Clause */
/* An observer of messages that found no receive at their peer: the check of `verbena run`. */
#ifndef VB_PATH_NO_RECEIVE_H
#define VB_PATH_NO_RECEIVE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Called under locks of the path, by the thread that found out. NULL: no observer. */
extern void (*_Atomic vb_no_receive_hook)(uint32_t qpn);

static inline void vb_no_receive_tell(uint32_t qpn)
{
	void (*hook)(uint32_t qpn) =
		atomic_load_explicit(&vb_no_receive_hook, memory_order_relaxed);

	if (__builtin_expect(hook != NULL, 0))
		hook(qpn);
}

#endif
