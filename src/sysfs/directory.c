/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaced calls: listing directories. */
#include "sysfs/real.h"

#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>

#include "sysfs/redirect.h"

VB_PUBLIC DIR *opendir(const char *path)
{
	struct redirect r;

	return redirect_end(&r, REAL(opendir)(redirect_begin(&r, path, VB_READ)));
}

typedef int filter_fn(const struct dirent *entry);
typedef int filter64_fn(const struct dirent64 *entry);
typedef int order_fn(const struct dirent **a, const struct dirent **b);
typedef int order64_fn(const struct dirent64 **a, const struct dirent64 **b);

VB_PUBLIC int scandir(const char *path, struct dirent ***list, filter_fn *filter, order_fn *order)
{
	struct redirect r;

	return redirect_end(&r,
			    REAL(scandir)(redirect_begin(&r, path, VB_READ), list, filter, order));
}

VB_PUBLIC int scandir64(const char *path, struct dirent64 ***list, filter64_fn *filter,
			order64_fn *order)
{
	struct redirect r;

	return redirect_end(
		&r, REAL(scandir64)(redirect_begin(&r, path, VB_READ), list, filter, order));
}

VB_PUBLIC int scandirat(int directory, const char *path, struct dirent ***list, filter_fn *filter,
			order_fn *order)
{
	struct redirect r;

	return redirect_end(&r, REAL(scandirat)(directory, redirect_begin(&r, path, VB_READ), list,
						filter, order));
}

VB_PUBLIC int scandirat64(int directory, const char *path, struct dirent64 ***list,
			  filter64_fn *filter, order64_fn *order)
{
	struct redirect r;

	return redirect_end(&r, REAL(scandirat64)(directory, redirect_begin(&r, path, VB_READ),
						  list, filter, order));
}

/* --- patterns: the C library matches them, and calls these functions for directories --- */

static void *pattern_opendir(const char *path)
{
	return opendir(path);
}

static struct dirent *pattern_readdir(void *directory)
{
	return readdir(directory);
}

static struct dirent64 *pattern_readdir64(void *directory)
{
	return readdir64(directory);
}

static void pattern_closedir(void *directory)
{
	closedir(directory);
}

VB_PUBLIC int glob(const char *pattern, int flags, int (*error)(const char *path, int number),
		   glob_t *found)
{
	if (!redirect_matches(pattern) || (flags & GLOB_ALTDIRFUNC))
		return REAL(glob)(pattern, flags, error, found);
	found->gl_opendir = pattern_opendir;
	found->gl_readdir = pattern_readdir;
	found->gl_closedir = pattern_closedir;
	found->gl_stat = stat;
	found->gl_lstat = lstat;
	return REAL(glob)(pattern, flags | GLOB_ALTDIRFUNC, error, found);
}

VB_PUBLIC int glob64(const char *pattern, int flags, int (*error)(const char *path, int number),
		     glob64_t *found)
{
	if (!redirect_matches(pattern) || (flags & GLOB_ALTDIRFUNC))
		return REAL(glob64)(pattern, flags, error, found);
	found->gl_opendir = pattern_opendir;
	found->gl_readdir = pattern_readdir64;
	found->gl_closedir = pattern_closedir;
	found->gl_stat = stat64;
	found->gl_lstat = lstat64;
	return REAL(glob64)(pattern, flags | GLOB_ALTDIRFUNC, error, found);
}
