/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the path that a program asks for to the one that is opened instead.
 *
 *	struct redirect r;
 *
 *	return redirect_end(&r, REAL(access)(redirect_begin(&r, path, VB_LOOK), mode));
 *
 * Any other path comes back as it is, after a look at its first letters.
 */
#ifndef VB_SYSFS_REDIRECT_H
#define VB_SYSFS_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>

enum vb_purpose {
	VB_LOOK,  /* the name: stat, access, readlink */
	VB_READ,  /* the content of a file or directory */
	VB_WRITE, /* to open for writing, or to create */
};

struct redirect {
	bool ours;
	bool device;        /* a character device stands for it */
	int fd;             /* of a nameless file behind path, or -1 */
	int error;          /* what the call must fail with, or 0 */
	char *path;         /* owned */
	char *inner;        /* owned; with fd: the name within the tree that it stands for */
	size_t root_length; /* of what path begins with, if it is in the tree */
};

const char *vb_redirect_begin_ours(struct redirect *r, const char *path, enum vb_purpose purpose);
void vb_redirect_end_ours(struct redirect *r);
/* The part of path behind the prefix that is redirected, or NULL. */
const char *vb_redirect_match(const char *path, const char **prefix);

/* Cheap, and true for some more than are redirected: /sys/c*, /sys/d*, /dev/i*, odd slashes. */
static inline bool redirect_may_match(const char *path)
{
	if (!path || path[0] != '/')
		return false;
	if (path[1] == '/' || path[1] == '.')
		return true;
	if (path[1] == 's' && path[2] == 'y' && path[3] == 's' && path[4] == '/')
		return path[5] == 'c' || path[5] == 'd' || path[5] == '/' || path[5] == '.';
	if (path[1] == 'd' && path[2] == 'e' && path[3] == 'v' && path[4] == '/')
		return path[5] == 'i' || path[5] == '/' || path[5] == '.';
	return false;
}

static inline bool redirect_matches(const char *path)
{
	const char *prefix;

	return redirect_may_match(path) && vb_redirect_match(path, &prefix);
}

static inline const char *redirect_begin(struct redirect *r, const char *path,
					 enum vb_purpose purpose)
{
	r->ours = false;
	return redirect_may_match(path) ? vb_redirect_begin_ours(r, path, purpose) : path;
}

#define redirect_end(r, call)                       \
	({                                          \
		__typeof__(call) result_ = (call);  \
		if (__builtin_expect((r)->ours, 0)) \
			vb_redirect_end_ours(r);    \
		result_;                            \
	})

#endif
