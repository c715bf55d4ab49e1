/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Redirection: from the path that a program names to the path that is opened instead.
 *
 *	struct redirect r;
 *
 *	return redirect_end(&r, REAL(access)(redirect_begin(&r, path, VB_LOOK), mode));
 *
 * Any other path comes back unchanged, after a look at its first letters.
 */
#ifndef VB_SYSFS_REDIRECT_H
#define VB_SYSFS_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cancel.h"

enum vb_purpose {
	VB_LOOK,  /* the name: stat, access, readlink */
	VB_READ,  /* the content of a file or directory */
	VB_WRITE, /* to open for writing, or to create */
};

struct redirect {
	bool ours;
	bool device;        /* path is a character device */
	int fd;             /* a nameless file behind path, or -1 */
	int error;          /* the error of the call, or 0 */
	char *path;         /* owned */
	char *inner;        /* owned; with fd: the name in the tree that the file stands for */
	size_t root_length; /* of the root of the tree, which path begins with */
	struct vb_cancel_guard guard; /* from begin to end: files of the tree never block */
};

const char *vb_redirect_begin_ours(struct redirect *r, const char *path, enum vb_purpose purpose);
void vb_redirect_end_ours(struct redirect *r);
/* Calls of this thread are not redirected while it is set. Returns the value before. */
bool vb_redirect_pause(bool pause);
/* The part of path after the redirected prefix; NULL: path is not redirected. */
const char *vb_redirect_match(const char *path, const char **prefix);

/* The name below /dev/infiniband; NULL: the path is another, or is not redirected now. */
const char *vb_redirect_node(const char *path);

/* A cheap test, which some other paths pass as well: /sys/c*, /sys/d*, /dev/i*, odd slashes. */
static inline bool redirect_may_match(const char *path)
{
	/* The headers of libc promise that no path is NULL, and the compiler believes them. */
	__asm__("" : "+r"(path));
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
