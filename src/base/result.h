/* SPDX-License-Identifier: BSD-2-Clause */
/* The one place where 0 or -errno becomes the result that a man page promises. */
#ifndef VB_BASE_RESULT_H
#define VB_BASE_RESULT_H

#include <errno.h>
#include <stddef.h>

/* Calls that return an errno value. errno is set as well: many programs look there. */
static inline int vb_return_errno(int err)
{
	if (err)
		errno = -err;
	return -err;
}

/* Calls that return -1 and set errno. */
static inline int vb_return_minus_one(int err)
{
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

/* Calls that return a count, or the errno value negated. They set errno, too. */
static inline int vb_return_negative(int err)
{
	errno = -err;
	return err;
}

/* Calls that return NULL and set errno. */
static inline void *vb_return_null(int err)
{
	errno = -err;
	return NULL;
}

#endif
