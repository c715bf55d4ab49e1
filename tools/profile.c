/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles of other devices: finds their files, checks them, and says what comes of them here. */
#include "nic/profile.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "doctor.h"
#include "verbena.h"

/* --- reading --- */

static bool read_text(const char *path, char text[VB_PROFILE_BYTES_MAX])
{
	FILE *file = fopen(path, "re");
	size_t length = file ? fread(text, 1, VB_PROFILE_BYTES_MAX, file) : 0;
	const bool failed = !file || ferror(file);

	if (failed)
		complain("%s: %s", path, strerror(errno));
	else if (length == VB_PROFILE_BYTES_MAX || memchr(text, '\0', length))
		complain("%s: not a text of at most %d KiB", path, VB_PROFILE_BYTES_MAX >> 10);
	if (file)
		fclose(file);
	if (failed || length == VB_PROFILE_BYTES_MAX || memchr(text, '\0', length))
		return false;
	text[length] = '\0';
	return true;
}

static bool profile_read(const char *path, struct vb_profile *profile)
{
	static char text[VB_PROFILE_BYTES_MAX];
	char why[VB_PROFILE_WHY_MAX];

	if (!read_text(path, text))
		return false;
	if (!vb_profile_parse(text, profile, why))
		return true;
	complain("%s: %s", path, why);
	return false;
}

/* --- finding --- */

static int is_profile(const struct dirent *entry)
{
	return *entry->d_name != '.' && strcmp(entry->d_name, "meson.build");
}

static void complain_unknown(const char *name)
{
	char folder[PATH_SIZE], names[512] = "none";
	struct dirent **entries = NULL;
	size_t used = 0;
	const int count = share_find("devices", folder)
				  ? scandir(folder, &entries, is_profile, alphasort)
				  : 0;

	for (int i = 0; i < count; i++) {
		if (used < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 i ? ", " : "", entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	complain("there is no profile '%s', and no such file; profiles are: %s", name, names);
}

/* A name without a slash is a profile of ours first. */
static bool profile_find(const char *name, char path[PATH_SIZE])
{
	char candidate[PATH_SIZE], resolved[PATH_MAX];
	const bool is_name = *name && !strchr(name, '/') && *name != '.';

	snprintf(candidate, sizeof(candidate), "devices/%s", name);
	if (is_name && share_find(candidate, path))
		return true;
	if (!realpath(name, resolved)) {
		complain_unknown(name);
		return false;
	}
	snprintf(path, PATH_SIZE, "%s", resolved);
	return true;
}

bool profile_choose(const char *name)
{
	struct vb_profile profile;
	char path[PATH_SIZE];

	return profile_find(name, path) && profile_read(path, &profile) &&
	       !setenv(vb_environment_rows[VB_ENV_AS].name, path, 1);
}

/* --- telling --- */

static unsigned facts_count(const struct vb_profile *profile, bool only_excess)
{
	unsigned count = 0;

	for (int i = 0; i < VB_FACT_COUNT; i++)
		count += only_excess ? vb_profile_exceeds(profile, i) : profile->named[i];
	return count;
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool profile_describe(char text[PROFILE_TEXT])
{
	const char *path = vb_environment_text(VB_ENV_AS);
	struct vb_profile profile;

	if (!path || !profile_read(path, &profile))
		return false;
	snprintf(text, PROFILE_TEXT, "%.100s: %u facts, %u of them beyond this device",
		 name_of(path), facts_count(&profile, false), facts_count(&profile, true));
	return true;
}

void check_profile(void)
{
	const char *path = vb_environment_text(VB_ENV_AS);
	char text[2 * VB_PROFILE_VALUE_MAX];
	struct vb_profile profile;

	if (!path)
		return;
	if (!profile_read(path, &profile)) {
		report(VERDICT_FAIL, "profile", "%s cannot be used", path);
		advise("a message on standard error explains why; see verbena-profiles(7)");
		return;
	}
	report(VERDICT_OK, "profile", "%s: %u facts", path, facts_count(&profile, false));
	for (int i = 0; i < VB_FACT_COUNT; i++) {
		if (!vb_profile_exceeds(&profile, i))
			continue;
		vb_profile_print_excess(&profile, i, text);
		advise("beyond this device: %s", text);
	}
}
