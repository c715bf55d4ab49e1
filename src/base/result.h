/* SPDX-License-Identifier: BSD-2-Clause */
/* The one place where 0 or -errno becomes the result that a man page promises. */
#ifndef VB_BASE_RESULT_H
#define VB_BASE_RESULT_H

#include <errno.h>
#include <stddef.h>

#include "base/log.h"

/* Sets errno. Under VERBENA_EXPLAIN a failure that nothing has explained gets a line. */
static inline void vb_return_fail(const char *function, int err)
{
	vb_explain_rest(function, -err);
	errno = -err;
}

/* Calls that return an errno value. errno is set as well: many programs look there. */
static inline int vb_return_errno_of(const char *function, int err)
{
	if (err)
		vb_return_fail(function, err);
	return -err;
}
#define vb_return_errno(err) vb_return_errno_of(__func__, err)

/* Calls that return -1 and set errno. */
static inline int vb_return_minus_one_of(const char *function, int err)
{
	if (!err)
		return 0;
	vb_return_fail(function, err);
	return -1;
}
#define vb_return_minus_one(err) vb_return_minus_one_of(__func__, err)

/* Calls that return a count, or the errno value negated. They set errno, too. */
static inline int vb_return_negative_of(const char *function, int err)
{
	vb_return_fail(function, err);
	return err;
}
#define vb_return_negative(err) vb_return_negative_of(__func__, err)

/* Calls that return NULL and set errno. */
static inline void *vb_return_null_of(const char *function, int err)
{
	vb_return_fail(function, err);
	return NULL;
}
#define vb_return_null(err) vb_return_null_of(__func__, err)

/* Calls that return a value of their own for a failure. */
static inline int vb_return_value_of(const char *function, int value, int err)
{
	vb_return_fail(function, err);
	return value;
}
#define vb_return_value(value, err) vb_return_value_of(__func__, value, err)

#endif
