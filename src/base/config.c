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

/* A variable that has one of a few values; without it, or where it is empty, the first one. */
struct choice {
	const char *name, *values[4];
	const char *wrong;  /* what another value is */
	_Atomic int cached; /* 1 + which value; 0: not read yet, or another one */
	_Atomic bool told;
};

enum { UNKNOWN = -1 };

static struct choice path = {
	.name = "VERBENA_PATH",
	.values = { [VB_PATH_AUTO] = "auto",
		    [VB_PATH_WIRE] = "wire",
		    [VB_PATH_SLOT] = "slot",
		    [VB_PATH_SIM] = "sim" },
	.wrong = "none of auto, wire, slot and sim",
};

static struct choice keys = {
	.name = "VERBENA_KEYS",
	.values = { "equal", "distinct" },
	.wrong = "neither equal nor distinct",
};

static int choice_read(const struct choice *choice)
{
	const char *text = secure_getenv(choice->name);

	if (!text || !*text)
		return 0;
	for (int i = 0; i < 4 && choice->values[i]; i++)
		if (!strcmp(text, choice->values[i]))
			return i;
	return UNKNOWN;
}

static int choice_get(struct choice *choice)
{
	int value = atomic_load_explicit(&choice->cached, memory_order_relaxed) - 1;

	if (value == UNKNOWN) {
		value = choice_read(choice);
		atomic_store_explicit(&choice->cached, value + 1, memory_order_relaxed);
	}
	return value;
}

/* A program that asks for the wire and gets memory would mislead its user, as with fault rules. */
static int choice_check(struct choice *choice)
{
	const char *text = secure_getenv(choice->name);

	if (choice_get(choice) != UNKNOWN)
		return 0;
	if (!atomic_exchange(&choice->told, true))
		vb_complain("%s is '%s', which is %s", choice->name, text ? text : "",
			    choice->wrong);
	return -EINVAL;
}

enum vb_path_choice vb_config_path(void)
{
	const int value = choice_get(&path);

	return value == UNKNOWN ? VB_PATH_AUTO : (enum vb_path_choice)value;
}

bool vb_config_distinct_keys(void)
{
	return choice_get(&keys) == 1;
}

int vb_config_check(void)
{
	const int err = choice_check(&path);

	return err ? err : choice_check(&keys);
}
