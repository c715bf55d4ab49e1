/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tools that watch programs take their options from the environment. Our options go in front, so
 * that a setting of the user wins.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbena.h"

static const char *set_by_user(const char *variable)
{
	const char *value = getenv(variable);

	return value ? value : "";
}

/* An option that is there already is not repeated: a program may be run by verbena run twice. */
static bool put_in_front(const char *variable, const char *options, char between)
{
	const char *user = set_by_user(variable);
	char *value;
	int result;

	if (!*user)
		return !setenv(variable, options, 1);
	if (strstr(user, options))
		return true;
	if (asprintf(&value, "%s%c%s", options, between, user) < 0)
		return false;
	result = setenv(variable, value, 1);
	free(value);
	return !result;
}

/*
 * A program built with gcc's AddressSanitizer refuses to start if a library is loaded before its
 * runtime. Our libraries are harmless: they allocate nothing before the program begins.
 */
static bool prepare_asan(void)
{
	return put_in_front("ASAN_OPTIONS", "verify_asan_link_order=0", ':');
}

/*
 * ThreadSanitizer reads one file of suppressions. If the user has one, it is told to leave out the
 * calls of all code that was not built for it. That is coarser: a race in the arguments of the
 * program's own memcpy is not found.
 */
static bool prepare_tsan(void)
{
	char path[PATH_SIZE], options[PATH_SIZE + 32];
	bool found = share_find("tsan.supp", path) && !strchr(path, '\'');

	if (found)
		snprintf(options, sizeof(options), "suppressions='%s'", path);
	if (found && strstr(set_by_user("TSAN_OPTIONS"), options))
		return true;
	if (!found || strstr(set_by_user("TSAN_OPTIONS"), "suppressions="))
		snprintf(options, sizeof(options), "ignore_noninstrumented_modules=1");
	return put_in_front("TSAN_OPTIONS", options, ':');
}

/*
 * valgrind runs one thread at a time. Without fair scheduling a thread that polls keeps the turn.
 * Its options have no quotes: a path with a space cannot be told.
 */
static bool prepare_valgrind(void)
{
	char path[PATH_SIZE], options[PATH_SIZE + 64] = "--fair-sched=try";

	if (share_find("valgrind.supp", path) && !strpbrk(path, " \t\n"))
		snprintf(options, sizeof(options), "--fair-sched=try --suppressions=%s", path);
	return put_in_front("VALGRIND_OPTS", options, ' ');
}

bool tools_prepare(void)
{
	return prepare_asan() && prepare_tsan() && prepare_valgrind();
}
