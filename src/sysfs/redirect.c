/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/real.h"

#include "sysfs/redirect.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sysfs/tree.h"

/*
 * The list has classes without entries of Verbena, too: a program must not find the adapters of the
 * machine in one class and those of Verbena in another.
 */
static const char devices[] = "/dev/infiniband";
static const char *const prefixes[] = {
	"/sys/class/infiniband",    "/sys/class/infiniband_verbs",  "/sys/class/infiniband_mad",
	"/sys/class/infiniband_cm", "/sys/devices/virtual/verbena", devices,
};

/* Replaces a path that must not exist. */
static const char nowhere[] = "/sys/verbena-nowhere";

/* Calls that the libraries make for this one are not redirected. */
static _Thread_local bool inside __attribute__((tls_model("initial-exec")));

bool vb_redirect_pause(bool pause)
{
	const bool before = inside;

	inside = pause;
	return before;
}

/* --- redirected paths --- */

/* Skips empty parts of a path: "//", "/./". */
static const char *skip_empty(const char *path)
{
	for (;;) {
		if (path[0] == '/' && path[1] == '/')
			path++;
		else if (path[0] == '/' && path[1] == '.' && (path[2] == '/' || !path[2]))
			path += 2;
		else
			return path;
	}
}

static const char *match_prefix(const char *path, const char *prefix)
{
	for (path = skip_empty(path); *prefix; prefix++, path++) {
		if (*path == '/')
			path = skip_empty(path);
		if (*path != *prefix)
			return NULL;
	}
	return *path == '/' || !*path ? path : NULL;
}

const char *vb_redirect_match(const char *path, const char **prefix)
{
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		const char *rest = match_prefix(path, prefixes[i]);

		if (rest) {
			*prefix = prefixes[i];
			return rest;
		}
	}
	return NULL;
}

const char *vb_redirect_node(const char *path)
{
	const char *prefix, *rest = inside ? NULL : vb_redirect_match(path, &prefix);

	if (!rest || prefix != devices)
		return NULL;
	rest = skip_empty(rest);
	return *rest == '/' ? rest + 1 : NULL;
}

/* --- targets --- */

static const char *refuse_call(struct redirect *r, int error)
{
	r->error = error;
	return nowhere;
}

static bool join_root(struct redirect *r, const char *prefix, const char *rest)
{
	char root[PATH_MAX];

	if (!vb_tree_root(root))
		return false;
	r->root_length = strlen(root);
	if (asprintf(&r->path, "%s%s%s", root, prefix, rest) < 0) {
		r->path = NULL;
		return false;
	}
	return true;
}

/* Replaces the link with its device, so that not even lstat sees the link. */
static const char *follow_device(struct redirect *r)
{
	char target[64];
	const ssize_t length = REAL(readlink)(r->path, target, sizeof(target) - 1);

	if (length <= 0)
		return r->path;
	target[length] = '\0';
	memcpy(r->path, target, (size_t)length + 1); /* fits: even the root is longer */
	r->device = true;
	return r->path;
}

/* The tree knows files by their names without links. */
static const char *prepare_read(struct redirect *r)
{
	char canonical[PATH_MAX];
	const char *inner;
	int error;

	if (!REAL(realpath)(r->path, canonical) || strncmp(canonical, r->path, r->root_length) ||
	    canonical[r->root_length] != '/')
		return r->path;
	inner = canonical + r->root_length + 1;
	r->fd = vb_tree_prepare(inner, &error);
	if (r->fd == VB_TREE_REFUSED)
		return refuse_call(r, error);
	if (r->fd == VB_TREE_AS_IT_IS)
		return r->path;
	free(r->path);
	if (asprintf(&r->path, "/proc/self/fd/%d", r->fd) < 0)
		r->path = NULL;
	r->inner = strdup(inner);
	return r->path && r->inner ? r->path : refuse_call(r, ENOMEM);
}

/* No file can be written, not even by root, as with the kernel's own files. */
static const char *refuse_write(struct redirect *r)
{
	return refuse_call(r, REAL(access)(r->path, F_OK) ? ENOENT : EACCES);
}

static const char *find_target(struct redirect *r, const char *prefix, const char *rest,
			       enum vb_purpose purpose)
{
	if (!join_root(r, prefix, rest))
		return refuse_call(r, ENOENT);
	if (prefix == devices && follow_device(r) && r->device)
		return r->path;
	if (purpose == VB_WRITE)
		return refuse_write(r);
	return purpose == VB_READ ? prepare_read(r) : r->path;
}

const char *vb_redirect_begin_ours(struct redirect *r, const char *path, enum vb_purpose purpose)
{
	const int saved_errno = errno;
	const char *prefix, *rest = inside ? NULL : vb_redirect_match(path, &prefix);

	if (!rest)
		return path;
	*r = (struct redirect){ .ours = true, .fd = -1, .guard = vb_cancel_hold_off() };
	inside = true;
	path = find_target(r, prefix, rest, purpose);
	inside = false;
	errno = saved_errno;
	return path;
}

void vb_redirect_end_ours(struct redirect *r)
{
	const int saved_errno = errno;

	if (r->fd >= 0)
		close(r->fd);
	free(r->path);
	free(r->inner);
	vb_cancel_restore(&r->guard);
	errno = r->error ? r->error : saved_errno;
}
