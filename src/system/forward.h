/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of the system's libibverbs: vb_system_ibv_alloc_pd and so on, with the results and the
 * errno that the man pages promise. A name that its version lacks answers EOPNOTSUPP.
 */
#ifndef VB_SYSTEM_FORWARD_H
#define VB_SYSTEM_FORWARD_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/verbs.h"
#include "system/calls.h"
#include "system/context.h"
#include "system/devices.h"
#include "system/load.h"

/* They hide functions of the same name. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define VB_SYSTEM_INT(name, params, args)            int vb_system_##name params;
#define VB_SYSTEM_COUNT(name, params, args)          ssize_t vb_system_##name params;
#define VB_SYSTEM_RESULT(result, name, params, args) result vb_system_##name params;
#define VB_SYSTEM_NOTHING(name, params, args)        void vb_system_##name params;
VB_SYSTEM_CALLS(VB_SYSTEM_INT, VB_SYSTEM_INT, VB_SYSTEM_COUNT, VB_SYSTEM_RESULT, VB_SYSTEM_RESULT,
		VB_SYSTEM_NOTHING)
#undef VB_SYSTEM_INT
#undef VB_SYSTEM_COUNT
#undef VB_SYSTEM_RESULT
#undef VB_SYSTEM_NOTHING

/* Finds the names in the library that was loaded. */
void vb_system_forward_find(void);

/*
 * The first line of a public call: an object of the system's library goes there. Without such a
 * library this costs a load and a branch.
 */
#define VB_SYSTEM_PASS(object, name, args)            \
	do {                                          \
		if (vb_system_has(object))            \
			return vb_system_##name args; \
	} while (0)
#define VB_SYSTEM_PASS_VOID(object, name, args) \
	do {                                    \
		if (vb_system_has(object)) {    \
			vb_system_##name args;  \
			return;                 \
		}                               \
	} while (0)
/* The same by the context. */
#define VB_SYSTEM_PASS_CONTEXT(context, name, args)   \
	do {                                          \
		if (vb_system_has_context(context))   \
			return vb_system_##name args; \
	} while (0)

#endif
