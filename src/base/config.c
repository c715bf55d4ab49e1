/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

bool vb_config_explain(void)
{
	static _Atomic int cached = -1;
	int value = atomic_load_explicit(&cached, memory_order_relaxed);

	if (value < 0) {
		const char *text = secure_getenv("VERBENA_EXPLAIN");

		value = text && *text && strcmp(text, "0") != 0;
		atomic_store_explicit(&cached, value, memory_order_relaxed);
	}
	return value;
}
