/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaced calls: opening files. */
#include "sysfs/real.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sysfs/redirect.h"
#include "sysfs/reread.h"
#include "sysfs/umad.h"

/* Programs compiled with _FORTIFY_SOURCE call these; no header declares them. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int directory, const char *path, int flags);
int __openat64_2(int directory, const char *path, int flags);

static enum vb_purpose purpose_of_flags(int flags)
{
	if (flags & O_PATH)
		return VB_LOOK;
	return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) ? VB_WRITE
										: VB_READ;
}

/* The path of a nameless file in /proc is a link. */
static int flags_for(const struct redirect *r, int flags)
{
	return r->ours && r->fd >= 0 ? flags & ~O_NOFOLLOW : flags;
}

static int opened(struct redirect *r, int fd)
{
	if (r->ours && r->fd >= 0 && fd >= 0)
		vb_reread_watch(fd, r->inner);
	return redirect_end(r, fd);
}

static mode_t mode_argument(int flags, va_list arguments)
{
	return __OPEN_NEEDS_MODE(flags) ? va_arg(arguments, mode_t) : 0;
}

/* VB_UMAD_OTHER: the path is no node for MADs. */
static inline int open_umad(const char *path, int flags)
{
	const char *node = redirect_may_match(path) ? vb_redirect_node(path) : NULL;

	return node ? vb_umad_open(node, flags) : VB_UMAD_OTHER;
}

#define DEFINE_OPEN(name)                                                          \
	VB_PUBLIC int name(const char *path, int flags, ...)                       \
	{                                                                          \
		const char *target;                                                \
		struct redirect r;                                                 \
		va_list arguments;                                                 \
		mode_t mode;                                                       \
		int umad = open_umad(path, flags);                                 \
                                                                                   \
		if (umad != VB_UMAD_OTHER)                                         \
			return umad;                                               \
		va_start(arguments, flags);                                        \
		mode = mode_argument(flags, arguments);                            \
		va_end(arguments);                                                 \
		target = redirect_begin(&r, path, purpose_of_flags(flags));        \
		return opened(&r, REAL(name)(target, flags_for(&r, flags), mode)); \
	}

#define DEFINE_OPENAT(name)                                                                   \
	VB_PUBLIC int name(int directory, const char *path, int flags, ...)                   \
	{                                                                                     \
		const char *target;                                                           \
		struct redirect r;                                                            \
		va_list arguments;                                                            \
		mode_t mode;                                                                  \
		int umad = open_umad(path, flags);                                            \
                                                                                              \
		if (umad != VB_UMAD_OTHER)                                                    \
			return umad;                                                          \
		va_start(arguments, flags);                                                   \
		mode = mode_argument(flags, arguments);                                       \
		va_end(arguments);                                                            \
		target = redirect_begin(&r, path, purpose_of_flags(flags));                   \
		return opened(&r, REAL(name)(directory, target, flags_for(&r, flags), mode)); \
	}

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

#define DEFINE_OPEN_2(name)                                                  \
	VB_PUBLIC int name(const char *path, int flags)                      \
	{                                                                    \
		const int umad = open_umad(path, flags);                     \
		const char *target;                                          \
		struct redirect r;                                           \
                                                                             \
		if (umad != VB_UMAD_OTHER)                                   \
			return umad;                                         \
		target = redirect_begin(&r, path, purpose_of_flags(flags));  \
		return opened(&r, REAL(name)(target, flags_for(&r, flags))); \
	}

#define DEFINE_OPENAT_2(name)                                                           \
	VB_PUBLIC int name(int directory, const char *path, int flags)                  \
	{                                                                               \
		const int umad = open_umad(path, flags);                                \
		const char *target;                                                     \
		struct redirect r;                                                      \
                                                                                        \
		if (umad != VB_UMAD_OTHER)                                              \
			return umad;                                                    \
		target = redirect_begin(&r, path, purpose_of_flags(flags));             \
		return opened(&r, REAL(name)(directory, target, flags_for(&r, flags))); \
	}

DEFINE_OPEN_2(__open_2)
DEFINE_OPEN_2(__open64_2)
DEFINE_OPENAT_2(__openat_2)
DEFINE_OPENAT_2(__openat64_2)

/* --- streams --- */

static enum vb_purpose purpose_of_mode(const char *mode)
{
	return strpbrk(mode, "wa+") ? VB_WRITE : VB_READ;
}

#define DEFINE_FOPEN(name)                                                            \
	VB_PUBLIC FILE *name(const char *path, const char *mode)                      \
	{                                                                             \
		struct redirect r;                                                    \
		const char *target = redirect_begin(&r, path, purpose_of_mode(mode)); \
                                                                                      \
		return redirect_end(&r, REAL(name)(target, mode));                    \
	}

#define DEFINE_FREOPEN(name)                                                          \
	VB_PUBLIC FILE *name(const char *path, const char *mode, FILE *stream)        \
	{                                                                             \
		struct redirect r;                                                    \
		const char *target = redirect_begin(&r, path, purpose_of_mode(mode)); \
                                                                                      \
		return redirect_end(&r, REAL(name)(target, mode, stream));            \
	}

DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)
DEFINE_FREOPEN(freopen)
DEFINE_FREOPEN(freopen64)
