/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/real.h"

#include <dlfcn.h>
#include <stdatomic.h>

#define NAME(name) #name,
static const char *const names[VB_REAL_COUNT] = { VB_REAL_EACH(NAME) };
#undef NAME

static _Atomic(void *) functions[VB_REAL_COUNT];

void *vb_real(enum vb_real which)
{
	void *function = atomic_load_explicit(&functions[which], memory_order_relaxed);

	if (__builtin_expect(!function, 0)) {
		function = dlsym(RTLD_NEXT, names[which]);
		atomic_store_explicit(&functions[which], function, memory_order_relaxed);
	}
	return function;
}

/*
 * All functions are found while the program starts. Later the first call may come from a signal
 * handler or from a child of fork, which must not take the loader's lock. The constructors of other
 * libraries run before this one, so vb_real looks as well.
 */
__attribute__((constructor)) static void find_all(void)
{
	for (int i = 0; i < VB_REAL_COUNT; i++)
		vb_real((enum vb_real)i);
}
