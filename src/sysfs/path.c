/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaced calls: rights, links, the real name, attributes, the working directory. */
#include "sysfs/real.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sysfs/redirect.h"

/* Programs compiled with _FORTIFY_SOURCE call these; no header declares them. */
ssize_t __readlink_chk(const char *path, char *text, size_t size, size_t room);
ssize_t __readlinkat_chk(int directory, const char *path, char *text, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);

/* --- rights --- */

VB_PUBLIC int access(const char *path, int mode)
{
	struct redirect r;

	return redirect_end(&r, REAL(access)(redirect_begin(&r, path, VB_LOOK), mode));
}

VB_PUBLIC int faccessat(int directory, const char *path, int mode, int flags)
{
	struct redirect r;

	return redirect_end(
		&r, REAL(faccessat)(directory, redirect_begin(&r, path, VB_LOOK), mode, flags));
}

VB_PUBLIC int euidaccess(const char *path, int mode)
{
	struct redirect r;

	return redirect_end(&r, REAL(euidaccess)(redirect_begin(&r, path, VB_LOOK), mode));
}

VB_PUBLIC int eaccess(const char *path, int mode)
{
	return euidaccess(path, mode);
}

/* --- links --- */

VB_PUBLIC ssize_t readlink(const char *path, char *text, size_t size)
{
	struct redirect r;

	return redirect_end(&r, REAL(readlink)(redirect_begin(&r, path, VB_LOOK), text, size));
}

VB_PUBLIC ssize_t readlinkat(int directory, const char *path, char *text, size_t size)
{
	struct redirect r;

	return redirect_end(
		&r, REAL(readlinkat)(directory, redirect_begin(&r, path, VB_LOOK), text, size));
}

VB_PUBLIC ssize_t __readlink_chk(const char *path, char *text, size_t size, size_t room)
{
	struct redirect r;

	return redirect_end(
		&r, REAL(__readlink_chk)(redirect_begin(&r, path, VB_LOOK), text, size, room));
}

VB_PUBLIC ssize_t __readlinkat_chk(int directory, const char *path, char *text, size_t size,
				   size_t room)
{
	struct redirect r;

	return redirect_end(&r, REAL(__readlinkat_chk)(directory, redirect_begin(&r, path, VB_LOOK),
						       text, size, room));
}

/* --- the real name --- */

/* The name of a device is the path that was asked for, without empty parts. */
static void name_device(const char *path, char *name)
{
	const char *prefix, *rest = vb_redirect_match(path, &prefix);

	snprintf(name, PATH_MAX, "%s/%s", prefix, rest + strspn(rest, "/"));
}

/* Removes the root of the tree from a resolved name, in place. */
static void hide_tree(const struct redirect *r, const char *asked, char *name)
{
	if (r->device)
		name_device(asked, name);
	else if (!strncmp(name, r->path, r->root_length) && name[r->root_length] == '/')
		memmove(name, name + r->root_length, strlen(name + r->root_length) + 1);
}

static char *resolve_real_name(const char *path, char *resolved)
{
	struct redirect r;
	char *name = REAL(realpath)(redirect_begin(&r, path, VB_LOOK), resolved);

	if (name && r.ours && r.device && !resolved) {
		free(name);
		name = malloc(PATH_MAX);
	}
	if (name && r.ours)
		hide_tree(&r, path, name);
	return redirect_end(&r, name);
}

VB_PUBLIC char *realpath(const char *path, char *resolved)
{
	if (!redirect_matches(path))
		return REAL(realpath)(path, resolved);
	return resolve_real_name(path, resolved);
}

VB_PUBLIC char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	/* The function of the C library ends the program if there is too little room. */
	if (!redirect_matches(path) || room < PATH_MAX)
		return REAL(__realpath_chk)(path, resolved, room);
	return resolve_real_name(path, resolved);
}

VB_PUBLIC char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}

/* --- extended attributes: an existing file has none --- */

VB_PUBLIC ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	struct redirect r;

	return redirect_end(&r,
			    REAL(getxattr)(redirect_begin(&r, path, VB_LOOK), name, value, size));
}

VB_PUBLIC ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	struct redirect r;

	return redirect_end(&r,
			    REAL(lgetxattr)(redirect_begin(&r, path, VB_LOOK), name, value, size));
}

VB_PUBLIC ssize_t listxattr(const char *path, char *list, size_t size)
{
	struct redirect r;

	return redirect_end(&r, REAL(listxattr)(redirect_begin(&r, path, VB_LOOK), list, size));
}

VB_PUBLIC ssize_t llistxattr(const char *path, char *list, size_t size)
{
	struct redirect r;

	return redirect_end(&r, REAL(llistxattr)(redirect_begin(&r, path, VB_LOOK), list, size));
}

/* --- the working directory --- */

VB_PUBLIC int chdir(const char *path)
{
	struct redirect r;

	return redirect_end(&r, REAL(chdir)(redirect_begin(&r, path, VB_READ)));
}
