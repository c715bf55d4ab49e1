/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported calls whose feature does not exist yet: they fail with ENOSYS by the convention of
 * their man page. The prototypes come from the installed headers, so a mistake in the list does
 * not compile.
 */
#ifndef VB_RDMACM_MISSING_H
#define VB_RDMACM_MISSING_H

#include <errno.h>
#include <stddef.h>

#include "verbs/symver.h"

#define MISSING_RETURNS(type, name, parameters, failure) \
	VB_PUBLIC type name parameters                   \
	{                                                \
		errno = ENOSYS;                          \
		return failure;                          \
	}                                                \
	_Static_assert(1, "takes the semicolon")

#define MISSING(name, parameters)		MISSING_RETURNS(int, name, parameters, -1)
#define MISSING_TYPE(type, name, parameters)	MISSING_RETURNS(type, name, parameters, (type)-1)
#define MISSING_POINTER(type, name, parameters) MISSING_RETURNS(type *, name, parameters, NULL)

#define MISSING_VOID(name, parameters) \
	VB_PUBLIC void name parameters \
	{                              \
	}                              \
	_Static_assert(1, "takes the semicolon")

#endif
