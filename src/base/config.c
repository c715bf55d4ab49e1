/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/config.h"
#include "base/log.h"

#include <errno.h>
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

enum { PATH_UNREAD = -1, PATH_UNKNOWN = VB_PATH_SIM + 1 };

static int read_path(void)
{
	static const char *const names[] = {
		[VB_PATH_AUTO] = "auto",
		[VB_PATH_WIRE] = "wire",
		[VB_PATH_SLOT] = "slot",
		[VB_PATH_SIM] = "sim",
	};
	const char *text = secure_getenv("VERBENA_PATH");

	if (!text || !*text)
		return VB_PATH_AUTO;
	for (int i = VB_PATH_AUTO; i <= VB_PATH_SIM; i++)
		if (!strcmp(text, names[i]))
			return i;
	return PATH_UNKNOWN;
}

static int path(void)
{
	static _Atomic int cached = PATH_UNREAD;
	int value = atomic_load_explicit(&cached, memory_order_relaxed);

	if (value == PATH_UNREAD) {
		value = read_path();
		atomic_store_explicit(&cached, value, memory_order_relaxed);
	}
	return value;
}

enum vb_path_choice vb_config_path(void)
{
	const int value = path();

	return value == PATH_UNKNOWN ? VB_PATH_AUTO : (enum vb_path_choice)value;
}

/* Who asks for the wire and gets memory would draw wrong conclusions, as with fault rules. */
int vb_config_check(void)
{
	static _Atomic bool told;
	const char *text = secure_getenv("VERBENA_PATH");

	if (path() != PATH_UNKNOWN)
		return 0;
	if (!atomic_exchange(&told, true))
		vb_complain("VERBENA_PATH is '%s', which is none of auto, wire, slot and sim",
			    text ? text : "");
	return -EINVAL;
}
