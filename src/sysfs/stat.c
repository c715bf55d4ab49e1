/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaced calls: stat, in all the forms of all versions of the C library. */
#include "sysfs/real.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "sysfs/redirect.h"

/* Programs linked before glibc 2.33 call these; no header declares them any more. */
int __xstat(int version, const char *path, struct stat *info);
int __xstat64(int version, const char *path, struct stat64 *info);
int __lxstat(int version, const char *path, struct stat *info);
int __lxstat64(int version, const char *path, struct stat64 *info);
int __fxstatat(int version, int directory, const char *path, struct stat *info, int flags);
int __fxstatat64(int version, int directory, const char *path, struct stat64 *info, int flags);

#ifdef _STAT_VER_LINUX
enum { STAT_VERSION = _STAT_VER_LINUX };
#elif defined(__x86_64__) || defined(__powerpc64__) || defined(__s390x__)
enum { STAT_VERSION = 1 };
#else
enum { STAT_VERSION = 0 };
#endif

/* An old C library has only one of the two. */
static int real_look(int directory, const char *path, struct stat *info, int flags)
{
	if (REAL(fstatat))
		return REAL(fstatat)(directory, path, info, flags);
	return REAL(__fxstatat)(STAT_VERSION, directory, path, info, flags);
}

static int real_look64(int directory, const char *path, struct stat64 *info, int flags)
{
	if (REAL(fstatat64))
		return REAL(fstatat64)(directory, path, info, flags);
	return REAL(__fxstatat64)(STAT_VERSION, directory, path, info, flags);
}

static int stat_own(int directory, const char *path, struct stat *info, int flags)
{
	struct redirect r;

	return redirect_end(&r,
			    real_look(directory, redirect_begin(&r, path, VB_LOOK), info, flags));
}

static int look64(int directory, const char *path, struct stat64 *info, int flags)
{
	struct redirect r;

	return redirect_end(&r,
			    real_look64(directory, redirect_begin(&r, path, VB_LOOK), info, flags));
}

VB_PUBLIC int stat(const char *path, struct stat *info)
{
	return stat_own(AT_FDCWD, path, info, 0);
}

VB_PUBLIC int stat64(const char *path, struct stat64 *info)
{
	return look64(AT_FDCWD, path, info, 0);
}

VB_PUBLIC int lstat(const char *path, struct stat *info)
{
	return stat_own(AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
}

VB_PUBLIC int lstat64(const char *path, struct stat64 *info)
{
	return look64(AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
}

VB_PUBLIC int fstatat(int directory, const char *path, struct stat *info, int flags)
{
	return stat_own(directory, path, info, flags);
}

VB_PUBLIC int fstatat64(int directory, const char *path, struct stat64 *info, int flags)
{
	return look64(directory, path, info, flags);
}

VB_PUBLIC int statx(int directory, const char *path, int flags, unsigned mask, struct statx *info)
{
	struct redirect r;

	return redirect_end(
		&r, REAL(statx)(directory, redirect_begin(&r, path, VB_LOOK), flags, mask, info));
}

/* --- version: the layout of struct stat that the program was compiled with --- */

static int check_version(int version)
{
	if (version == STAT_VERSION)
		return 0;
	errno = EINVAL;
	return -1;
}

VB_PUBLIC int __xstat(int version, const char *path, struct stat *info)
{
	return check_version(version) ? -1 : stat(path, info);
}

VB_PUBLIC int __xstat64(int version, const char *path, struct stat64 *info)
{
	return check_version(version) ? -1 : stat64(path, info);
}

VB_PUBLIC int __lxstat(int version, const char *path, struct stat *info)
{
	return check_version(version) ? -1 : lstat(path, info);
}

VB_PUBLIC int __lxstat64(int version, const char *path, struct stat64 *info)
{
	return check_version(version) ? -1 : lstat64(path, info);
}

VB_PUBLIC int __fxstatat(int version, int directory, const char *path, struct stat *info, int flags)
{
	return check_version(version) ? -1 : stat_own(directory, path, info, flags);
}

VB_PUBLIC int __fxstatat64(int version, int directory, const char *path, struct stat64 *info,
			   int flags)
{
	return check_version(version) ? -1 : look64(directory, path, info, flags);
}
