/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls about descriptors: copies, flags. */
/* With _FILE_OFFSET_BITS=64 headers rename fcntl to fcntl64, and this file defines both. */
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/close_range.h>

#include "base/cancel.h"
#include "base/symver.h"
#include "preload-sockets/entry.h"
#include "preload-sockets/epoll_set.h"

/* newfd is a copy of fd in the kernel. Adds it to the table, too. */
static int copied(int fd, int newfd)
{
	struct vb_entry *entry;
	int err;

	if (newfd < 0 || !vb_entry_exists(fd) || vb_entry_is_guest())
		return newfd;
	entry = vb_entry_get(fd);
	if (!entry)
		return newfd;
	err = vb_entry_alias(entry, newfd);
	vb_entry_put(entry);
	if (!err)
		return newfd;
	vb_real()->close(newfd);
	errno = -err;
	return -1;
}

VB_PUBLIC int dup(int fd)
{
	VB_NO_CANCEL;
	return copied(fd, vb_real()->dup(fd));
}

/* The copy closes newfd, but only if it succeeds. */
static bool drop_target(int fd, int newfd)
{
	if (fd == newfd || vb_real()->fcntl(fd, F_GETFD) < 0)
		return false;
	vb_entry_drop(newfd);
	vb_epoll_drop(newfd);
	return true;
}

VB_PUBLIC int dup2(int fd, int newfd)
{
	VB_NO_CANCEL;
	if (!drop_target(fd, newfd))
		return vb_real()->dup2(fd, newfd);
	return copied(fd, vb_real()->dup2(fd, newfd));
}

VB_PUBLIC int dup3(int fd, int newfd, int flags)
{
	VB_NO_CANCEL;
	if (!drop_target(fd, newfd))
		return vb_real()->dup3(fd, newfd, flags);
	return copied(fd, vb_real()->dup3(fd, newfd, flags));
}

VB_PUBLIC int close_range(unsigned first, unsigned last, int flags)
{
	VB_NO_CANCEL;
	if (!vb_real()->close_range) {
		errno = ENOSYS;
		return -1;
	}
	if (first <= last && !(flags & CLOSE_RANGE_CLOEXEC)) {
		vb_entry_drop_range(first, last);
		vb_epoll_drop_range(first, last);
	}
	return vb_real()->close_range(first, last, flags);
}

VB_PUBLIC void closefrom(int first)
{
	VB_NO_CANCEL;
	const unsigned from = first < 0 ? 0 : (unsigned)first;

	vb_entry_drop_range(from, ~0u);
	vb_epoll_drop_range(from, ~0u);
	if (vb_real()->closefrom)
		vb_real()->closefrom(first);
}

static bool is_listener(struct vb_entry *entry)
{
	bool listener;

	pthread_mutex_lock(&entry->lock);
	listener = entry->kind == VB_KIND_LISTENER;
	pthread_mutex_unlock(&entry->lock);
	return listener;
}

static int entry_flags(struct vb_entry *entry, int fd)
{
	int flags = vb_real()->fcntl(fd, F_GETFL);

	if (flags >= 0 && is_listener(entry))
		flags = (flags & ~O_NONBLOCK) | (entry->nonblock ? O_NONBLOCK : 0);
	return flags;
}

/* The kernel's socket of a listener never blocks, because accept looks at both sockets. */
static int set_entry_flags(struct vb_entry *entry, int fd, int flags)
{
	vb_entry_set_nonblock(entry, flags & O_NONBLOCK);
	if (is_listener(entry))
		flags |= O_NONBLOCK;
	return vb_real()->fcntl(fd, F_SETFL, flags);
}

static int control_entry(int fd, int command, void *argument)
{
	VB_NO_CANCEL;
	struct vb_entry *entry = vb_entry_get(fd);
	int result;

	if (!entry) {
		VB_CANCEL_END(); /* F_SETLKW is a cancellation point */
		return vb_real()->fcntl(fd, command, argument);
	}
	switch (command) {
	case F_GETFL:
		result = entry_flags(entry, fd);
		break;
	case F_SETFL:
		result = set_entry_flags(entry, fd, (int)(intptr_t)argument);
		break;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		result = copied(fd, vb_real()->fcntl(fd, command, argument));
		break;
	default:
		result = vb_real()->fcntl(fd, command, argument);
	}
	vb_entry_put(entry);
	return result;
}

/* The argument is a number, a pointer, or missing: one word in each case. */
VB_PUBLIC int fcntl(int fd, int command, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return control_entry(fd, command, argument);
}

/* The same function: on 64-bit machines the structs have the same layout. */
VB_PUBLIC int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

static int readable_size(struct vb_rs *rs)
{
	int size;

	pthread_mutex_lock(&rs->lock);
	vb_rs_progress(rs);
	size = (int)vb_rs_readable_size(rs);
	pthread_mutex_unlock(&rs->lock);
	return size;
}

static int control_device(struct vb_entry *entry, int fd, unsigned long request, void *argument)
{
	struct vb_rs *rs;

	if (request == FIONBIO) {
		const int flags = entry_flags(entry, fd);

		return flags < 0 ? -1
				 : set_entry_flags(entry, fd,
						   *(int *)argument ? flags | O_NONBLOCK
								    : flags & ~O_NONBLOCK);
	}
	rs = request == FIONREAD ? vb_entry_rsocket(entry, fd) : NULL;
	if (!rs)
		return vb_real()->ioctl(fd, request, argument);
	*(int *)argument = readable_size(rs);
	vb_rs_put(rs);
	return 0;
}

VB_PUBLIC int ioctl(int fd, unsigned long request, ...)
{
	VB_NO_CANCEL;
	struct vb_entry *entry = vb_entry_get(fd);
	va_list arguments;
	void *argument;
	int result;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (!entry)
		return vb_real()->ioctl(fd, request, argument);
	result = control_device(entry, fd, request, argument);
	vb_entry_put(entry);
	return result;
}
