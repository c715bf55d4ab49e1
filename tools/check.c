/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena run --check: the words behind it, for the library that checks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "check/rules.h"
#include "verbena.h"

/* A file means this directory, wherever the program goes. */
static bool add_word(char *text, size_t size, const char *word, size_t length)
{
	const size_t used = strlen(text);
	const bool relative = *word != '/' && memchr(word, '/', length);
	char directory[PATH_SIZE] = "";

	if (relative && !getcwd(directory, sizeof(directory)))
		return false;
	return (size_t)snprintf(text + used, size - used, "%s%s%s%.*s", used ? "," : "", directory,
				relative ? "/" : "", (int)length, word) < size - used;
}

bool check_choose(const char *words)
{
	char text[2 * PATH_SIZE] = "", wrong[128];
	struct vb_check_options options;

	for (const char *at = words ? words : "1"; *at; at += strcspn(at, ","), at += *at == ',')
		if (!add_word(text, sizeof(text), at, strcspn(at, ","))) {
			complain("run: '--check=%s' is too long", words);
			return false;
		}
	if (vb_check_options_read(text, &options, wrong, sizeof(wrong))) {
		/* Keys that are equal by chance hide a mistake. */
		setenv(vb_environment_rows[VB_ENV_KEYS].name, "distinct", 0);
		return !setenv(vb_environment_rows[VB_ENV_CHECK].name, text, 1);
	}
	complain("run: '--check' does not know '%s': warn, -RULE or a file with a slash", wrong);
	return false;
}
