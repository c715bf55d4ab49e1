/* SPDX-License-Identifier: BSD-2-Clause */
#include "system/forward.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

/* The functions of the system's library, or NULL where its version has none. */
#define INT(name, params, args)            int(*name) params;
#define COUNT(name, params, args)          ssize_t(*name) params;
#define RESULT(result, name, params, args) result(*name) params;
#define NOTHING(name, params, args)        void(*name) params;
static struct {
	VB_SYSTEM_CALLS(INT, INT, COUNT, RESULT, RESULT, NOTHING)
} calls;
#undef INT
#undef COUNT
#undef RESULT
#undef NOTHING

void vb_system_forward_find(void)
{
/* Through memory: a pointer to a function and one to an object are of different kinds. */
#define FIND(name, params, args)                *(void **)&calls.name = vb_system_symbol(#name);
#define FIND_RESULT(result, name, params, args) FIND(name, params, args)
	VB_SYSTEM_CALLS(FIND, FIND, FIND, FIND_RESULT, FIND_RESULT, FIND)
#undef FIND
#undef FIND_RESULT
}

/* Explains a failure and sets errno. To find no event, or nothing at an index, is no failure. */
static int fail(const char *call, int err)
{
	if (err != EAGAIN && err != ENODATA && err != EINTR)
		vb_explain("%s: the system's libibverbs answers: %s", call, strerror(err));
	errno = err;
	return err;
}

/* Some calls return a negative number: one of their own, or an errno value. */
static int number_error(int result)
{
	const int err = result > 0 ? result : vb_system_errno();

	return result < 0 && err == EIO ? -result : err;
}

static int missing(const char *call)
{
	vb_explain("%s: the version of rdma-core on this host has no such call, and the device is "
		   "the system's",
		   call);
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

#define NUMBER(name, params, args)                         \
	int vb_system_##name params                        \
	{                                                  \
		int result;                                \
		if (!calls.name)                           \
			return missing(#name);             \
		vb_system_enter();                         \
		result = calls.name args;                  \
		if (result)                                \
			fail(#name, number_error(result)); \
		return result;                             \
	}

#define MINUS(name, params, args)                       \
	int vb_system_##name params                     \
	{                                               \
		int result;                             \
		if (!calls.name)                        \
			return missing(#name), -1;      \
		vb_system_enter();                      \
		result = calls.name args;               \
		if (result < 0)                         \
			fail(#name, vb_system_errno()); \
		return result;                          \
	}

#define COUNT(name, params, args)                  \
	ssize_t vb_system_##name params            \
	{                                          \
		ssize_t result;                    \
		if (!calls.name)                   \
			return -missing(#name);    \
		vb_system_enter();                 \
		result = calls.name args;          \
		if (result < 0)                    \
			fail(#name, (int)-result); \
		return result;                     \
	}

#define POINTER(type, name, params, args)               \
	type vb_system_##name params                    \
	{                                               \
		type result;                            \
		if (!calls.name)                        \
			return missing(#name), NULL;    \
		vb_system_enter();                      \
		result = calls.name args;               \
		if (!result)                            \
			fail(#name, vb_system_errno()); \
		return result;                          \
	}

#define ZERO(type, name, params, args)  \
	type vb_system_##name params    \
	{                               \
		if (!calls.name)        \
			return 0;       \
		vb_system_enter();      \
		return calls.name args; \
	}

#define NOTHING(name, params, args)     \
	void vb_system_##name params    \
	{                               \
		if (!calls.name) {      \
			missing(#name); \
			return;         \
		}                       \
		vb_system_enter();      \
		calls.name args;        \
	}

VB_SYSTEM_CALLS(NUMBER, MINUS, COUNT, POINTER, ZERO, NOTHING)
