/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/adversary.h"
#include "base/environment.h"
#include "base/limits.h"
#include "base/log.h"

/* --- settings that are read once --- */

enum explain { EXPLAIN_OFF, EXPLAIN_HINT, EXPLAIN_ON };

static enum explain explain_read(void)
{
	const char *text = vb_environment_text(VB_ENV_EXPLAIN);

	if (!text || !strcmp(text, "0"))
		return EXPLAIN_OFF;
	return strcmp(text, "hint") ? EXPLAIN_ON : EXPLAIN_HINT;
}

static enum explain explain_get(void)
{
	static _Atomic int cached = -1;
	int value = atomic_load_explicit(&cached, memory_order_relaxed);

	if (value < 0) {
		value = explain_read();
		atomic_store_explicit(&cached, value, memory_order_relaxed);
	}
	return (enum explain)value;
}

bool vb_config_explain(void)
{
	return explain_get() == EXPLAIN_ON;
}

bool vb_config_explain_hint(void)
{
	return explain_get() == EXPLAIN_HINT;
}

/* Words and numbers that mean yes; all other values are names of files. */
const char *vb_config_explain_file(void)
{
	static const char *const yes[] = { "yes", "true", "on" };
	const char *text = vb_environment_text(VB_ENV_EXPLAIN);

	if (!text || !text[strspn(text, "0123456789")])
		return NULL;
	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		if (!strcasecmp(text, yes[i]))
			return NULL;
	return text;
}

bool vb_config_system(void)
{
	static _Atomic int cached = -1;
	int value = atomic_load_explicit(&cached, memory_order_relaxed);

	if (value < 0) {
		value = vb_environment_has(VB_ENV_DEVICES, VB_WORD_SYSTEM);
		atomic_store_explicit(&cached, value, memory_order_relaxed);
	}
	return value;
}

struct choice {
	enum vb_variable variable;
	_Atomic int cached; /* 1 + index of the value; 0: not read yet, or no value of the table */
	_Atomic bool told;  /* the user has been told of a wrong value */
};

static struct choice path = { .variable = VB_ENV_PATH }, keys = { .variable = VB_ENV_KEYS },
		     map = { .variable = VB_ENV_MAP };

/* The index of the value; -EINVAL: the table has no such value. */
static int choice_get(struct choice *choice)
{
	int value = atomic_load_explicit(&choice->cached, memory_order_relaxed) - 1;

	if (value < 0) {
		value = vb_environment_choice(choice->variable);
		if (value >= 0)
			atomic_store_explicit(&choice->cached, value + 1, memory_order_relaxed);
	}
	return value;
}

enum vb_path_choice vb_config_path(void)
{
	const int value = choice_get(&path);

	return value < 0 ? VB_PATH_AUTO : (enum vb_path_choice)value;
}

bool vb_config_distinct_keys(void)
{
	return choice_get(&keys) == 1;
}

/* 0: unset; -EINVAL: no number of lanes. */
static int lanes_get(void)
{
	const char *text = vb_environment_text(VB_ENV_LANES);
	char *end;
	long value;

	if (!text)
		return 0;
	value = strtol(text, &end, 10);
	return *end || value < 1 || value > VB_LANES_MAX ? -EINVAL : (int)value;
}

unsigned vb_config_lanes(void)
{
	const int value = lanes_get();

	return value < 0 ? 0 : (unsigned)value;
}

enum vb_map_choice vb_config_map(void)
{
	const int value = choice_get(&map);

	if (value <= VB_MAP_OFF)
		return VB_MAP_OFF;
	/* A program sees no copy to a mapped region in pieces. */
	return vb_adversary_on() || vb_config_system() ? VB_MAP_OFF : (enum vb_map_choice)value;
}

/* --- values that do not exist --- */

enum { WORDS = 128 };

/* Writes "neither a nor b", or "none of a, b and c". */
static void values_negate(const struct vb_environment_row *row, char words[WORDS])
{
	const char *const *values = row->values;
	int length;

	if (!values[2]) {
		snprintf(words, WORDS, "neither %s nor %s", values[0], values[1]);
		return;
	}
	length = snprintf(words, WORDS, "none of %s", values[0]);
	for (int i = 1; i < VB_ENV_VALUES_MAX && values[i]; i++) {
		const bool last = i + 1 == VB_ENV_VALUES_MAX || !values[i + 1];

		length += snprintf(words + length, WORDS - (size_t)length, "%s%s",
				   last ? " and " : ", ", values[i]);
	}
}

/* A program that asks for the wire and gets memory would mislead its user, as with fault rules. */
static int choice_check(struct choice *choice)
{
	const struct vb_environment_row *row = &vb_environment_rows[choice->variable];
	const char *text = vb_environment(choice->variable);
	char words[WORDS];

	if (choice_get(choice) >= 0)
		return 0;
	values_negate(row, words);
	if (!atomic_exchange(&choice->told, true))
		vb_complain("%s is '%s', which is %s", row->name, text ? text : "", words);
	return -EINVAL;
}

static int lanes_check(void)
{
	static _Atomic bool told;
	const char *text = vb_environment(VB_ENV_LANES);

	if (lanes_get() >= 0)
		return 0;
	if (!atomic_exchange(&told, true))
		vb_complain("VERBENA_LANES is '%s', which is no number from 1 to %d",
			    text ? text : "", VB_LANES_MAX);
	return -EINVAL;
}

int vb_config_check(void)
{
	int err = choice_check(&path);

	if (!err)
		err = choice_check(&keys);
	if (!err)
		err = lanes_check();
	return err ? err : choice_check(&map);
}

int vb_config_refuse(const char *where, const char *why)
{
	vb_complain("%.80s: %s", where, why);
	return -EINVAL;
}

/* --- files that variables name --- */

static ssize_t read_all(int fd, char *text, size_t size)
{
	size_t used = 0;
	ssize_t part;

	while (used < size && (part = read(fd, text + used, size - used)) != 0) {
		if (part < 0 && errno != EINTR)
			return -errno;
		used += part > 0 ? (size_t)part : 0;
	}
	return (ssize_t)used;
}

int vb_config_read_file(const char *file, int flags, char *text, size_t size)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | flags);
	ssize_t length = fd < 0 ? -errno : read_all(fd, text, size);
	char why[64];

	if (fd >= 0)
		close(fd);
	if (length < 0)
		return vb_config_refuse(file, strerror((int)-length));
	if ((size_t)length < size && !memchr(text, '\0', (size_t)length)) {
		text[length] = '\0';
		return 0;
	}
	snprintf(why, sizeof(why), "not a text of at most %zu KiB", size / 1024);
	return vb_config_refuse(file, why);
}
