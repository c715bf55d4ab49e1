/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts of the system's library. Programs have the library's own objects: each begins with the
 * address of its context, and the inline functions of <infiniband/verbs.h> call its provider.
 */
#ifndef VB_SYSTEM_CONTEXT_H
#define VB_SYSTEM_CONTEXT_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "system/load.h"

/* At most so many at a time. */
enum { VB_SYSTEM_CONTEXTS_MAX = 256 };

/*
 * The context may come to the program from now on; it may be known. 0 or -errno. Failures of the
 * calls behind it set the errno of the program from then on.
 */
int vb_system_learn(struct ibv_context *context);
/* The context is about to be closed. */
void vb_system_forget(struct ibv_context *context);

bool vb_system_knows(const struct ibv_context *context);

static inline bool vb_system_has_context(const struct ibv_context *context)
{
	return vb_system_on() && vb_system_knows(context);
}

/* An object that begins with its context, or NULL. */
static inline bool vb_system_has(const void *object)
{
	return vb_system_on() && object && vb_system_knows(*(struct ibv_context *const *)object);
}

/*
 * -EINVAL with an explanation: the part of a new object of the system's is not the system's. The
 * provider would take it for its own.
 */
int vb_system_check_part(const void *part, const char *what, const char *call);

#endif
