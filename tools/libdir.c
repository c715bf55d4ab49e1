/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds our own libraries: beside the executable in a build tree, else where the build says. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbena.h"

/* From the directory of the executable, or from the root. */
static const char *const places[] = { "lib", VERBENA_WAY_TO_LIBRARIES };

/* The directory of this executable, without the slash. */
static bool executable_directory(char directory[PATH_SIZE])
{
	ssize_t length = readlink("/proc/self/exe", directory, PATH_SIZE - 1);
	char *slash;

	if (length <= 0)
		return false;
	directory[length] = '\0';
	slash = strrchr(directory, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

static bool has_libraries(const char *directory)
{
	static const char *const names[] = { "libibverbs.so.1", "librdmacm.so.1" };
	char path[2 * PATH_SIZE + 64];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		if (access(path, R_OK))
			return false;
	}
	return true;
}

static void place(char *path, size_t size, const char *base, const char *way)
{
	snprintf(path, size, "%s%s%s", *way == '/' ? "" : base, *way == '/' ? "" : "/", way);
}

bool libdir_find(char directory[PATH_SIZE])
{
	char base[PATH_SIZE], candidate[2 * PATH_SIZE], resolved[PATH_MAX];

	if (!executable_directory(base)) {
		complain("cannot tell where this executable is: is /proc mounted?");
		return false;
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		place(candidate, sizeof(candidate), base, places[i]);
		if (has_libraries(candidate) && realpath(candidate, resolved)) {
			snprintf(directory, PATH_SIZE, "%s", resolved);
			return true;
		}
	}
	/* The last candidate is the place of installed ones. */
	complain("libibverbs.so.1 and librdmacm.so.1 are neither in %s/%s nor in %s; "
		 "build them with 'make', or install again",
		 base, places[0], candidate);
	return false;
}

bool share_find(const char *name, char path[PATH_SIZE])
{
	static const char *const folders[] = { "share/verbena", "../share/verbena" };
	char base[PATH_SIZE], candidate[PATH_SIZE + 128], resolved[PATH_MAX];

	if (!executable_directory(base))
		return false;
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		snprintf(candidate, sizeof(candidate), "%s/%s/%s", base, folders[i], name);
		if (!access(candidate, R_OK) && realpath(candidate, resolved)) {
			snprintf(path, PATH_SIZE, "%s", resolved);
			return true;
		}
	}
	return false;
}

const char *libdir_loaded(void)
{
	/* Not &ibv_get_device_list: it may be an address within the executable. */
	void *function = dlsym(RTLD_DEFAULT, "ibv_get_device_list");
	Dl_info info;

	if (!function || !dladdr(function, &info) || !info.dli_fname)
		return "?";
	return info.dli_fname;
}

bool libdir_loaded_is_ours(void)
{
	char directory[PATH_SIZE], loaded[PATH_MAX];
	size_t length;

	if (!libdir_find(directory) || !realpath(libdir_loaded(), loaded))
		return false;
	length = strlen(directory);
	return !strncmp(loaded, directory, length) && loaded[length] == '/';
}
