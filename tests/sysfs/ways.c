/* SPDX-License-Identifier: BSD-2-Clause */
#include "ways.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* A function of the C library that the headers hide: as a program finds it that calls it. */
static void *find(const char *name)
{
	void *function = dlsym(RTLD_DEFAULT, name);

	if (!function)
		print_message("# %s: not in this C library\n", name);
	return function;
}

/* --- every way to open a file --- */

static int by_open(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int by_open64(const char *path)
{
	return open64(path, O_RDONLY);
}

static int by_openat(const char *path)
{
	return openat(AT_FDCWD, path, O_RDONLY);
}

static int by_openat64(const char *path)
{
	return openat64(-1, path, O_RDONLY | O_NOFOLLOW);
}

static int by_open_2(const char *path)
{
	int (*function)(const char *, int) = find("__open_2");

	return function ? function(path, O_RDONLY) : open(path, O_RDONLY);
}

static int by_open64_2(const char *path)
{
	int (*function)(const char *, int) = find("__open64_2");

	return function ? function(path, O_RDONLY) : open(path, O_RDONLY);
}

static int by_openat64_2(const char *path)
{
	int (*function)(int, const char *, int) = find("__openat64_2");

	return function ? function(AT_FDCWD, path, O_RDONLY) : open(path, O_RDONLY);
}

static int of_stream(FILE *stream)
{
	int fd;

	if (!stream)
		return -1;
	fd = dup(fileno(stream));
	fclose(stream);
	return fd;
}

static int by_fopen(const char *path)
{
	return of_stream(fopen(path, "r"));
}

static int by_fopen64(const char *path)
{
	return of_stream(fopen64(path, "re"));
}

static int by_freopen(const char *path)
{
	return of_stream(freopen(path, "r", fopen("/dev/null", "r")));
}

static int by_directory(const char *path)
{
	char directory[PATH_MAX];
	int parent, fd;

	snprintf(directory, sizeof(directory), "%s", path);
	*strrchr(directory, '/') = '\0';
	parent = open(directory, O_RDONLY | O_DIRECTORY);
	fd = openat(parent, strrchr(path, '/') + 1, O_RDONLY);
	close(parent);
	return fd;
}

const struct opener openers[] = {
	{ "open", by_open },
	{ "open64", by_open64 },
	{ "openat", by_openat },
	{ "openat64", by_openat64 },
	{ "__open_2", by_open_2 },
	{ "__open64_2", by_open64_2 },
	{ "__openat64_2", by_openat64_2 },
	{ "fopen", by_fopen },
	{ "fopen64", by_fopen64 },
	{ "freopen", by_freopen },
	{ "openat in a directory", by_directory },
	{ 0 },
};

/* --- every way to ask about one --- */

static int by_stat(const char *path, mode_t *mode)
{
	struct stat info;
	int result = stat(path, &info);

	*mode = info.st_mode;
	return result;
}

static int by_stat64(const char *path, mode_t *mode)
{
	struct stat64 info;
	int result = stat64(path, &info);

	*mode = info.st_mode;
	return result;
}

static int by_fstatat(const char *path, mode_t *mode)
{
	struct stat info;
	int result = fstatat(-1, path, &info, 0);

	*mode = info.st_mode;
	return result;
}

static int by_fstatat64(const char *path, mode_t *mode)
{
	struct stat64 info;
	int result = fstatat64(AT_FDCWD, path, &info, 0);

	*mode = info.st_mode;
	return result;
}

static int by_statx(const char *path, mode_t *mode)
{
	struct statx info;
	int result = statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &info);

	*mode = info.stx_mode;
	return result;
}

static int by_xstat(const char *path, mode_t *mode)
{
	int (*function)(int, const char *, struct stat *) = find("__xstat64");
	struct stat info;
	int result;

	if (!function)
		return by_stat(path, mode);
#if defined(__x86_64__)
	result = function(1, path, &info);
#else
	result = function(0, path, &info);
#endif
	*mode = info.st_mode;
	return result;
}

const struct looker lookers[] = {
	{ "stat", by_stat },
	{ "stat64", by_stat64 },
	{ "fstatat", by_fstatat },
	{ "fstatat64", by_fstatat64 },
	{ "statx", by_statx },
	{ "__xstat64", by_xstat },
	{ 0 },
};
