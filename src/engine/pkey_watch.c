/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/pkey_watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fork.h"
#include "base/log.h"
#include "engine/link_watch.h"
#include "engine/watch.h"
#include "nic/pkey.h"
#include "nic/qp.h"

enum { EVENTS_BYTES = 4096 };

static int inotify = -1; /* written by the service thread; closed in a forked child */

static void close_in_child(void)
{
	vb_fd_close(&inotify);
}

static const struct vb_fork_handlers at_fork = { .child = close_in_child };

static void follow_file(struct vb_nic *nic)
{
	if (!vb_pkey_reload())
		return;
	vb_explain_note("the P_Key table has changed, as %s says", vb_pkey_file());
	vb_qps_follow_pkeys(nic);
	vb_link_compare(); /* raises the event */
}

/* True: one of these events is about the file. */
static bool concern_file(const char *events, size_t size, const char *name)
{
	struct inotify_event event;

	for (size_t at = 0; at + sizeof(event) <= size; at += sizeof(event) + event.len) {
		memcpy(&event, events + at, sizeof(event));
		if (event.mask & IN_Q_OVERFLOW ||
		    (event.len && !strcmp(events + at + sizeof(event), name)))
			return true;
	}
	return false;
}

static void on_change(int fd, void *nic)
{
	char events[EVENTS_BYTES];
	bool changed = false;
	ssize_t size;

	while ((size = read(fd, events, sizeof(events))) > 0)
		changed |= concern_file(events, (size_t)size, strrchr(vb_pkey_file(), '/') + 1);
	if (changed)
		follow_file(nic);
}

/* Watches the directory: a file that is replaced is another file. */
static int add_directory(const char *file)
{
	char directory[PATH_MAX];
	const size_t length = (size_t)(strrchr(file, '/') - file);

	snprintf(directory, sizeof(directory), "%.*s", length ? (int)length : 1, file);
	inotify = vb_fd_high(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
	if (inotify < 0 || inotify_add_watch(inotify, directory, IN_CLOSE_WRITE | IN_MOVED_TO) < 0)
		return -errno;
	return 0;
}

void vb_pkey_watch_start(struct vb_nic *nic)
{
	const char *file = vb_pkey_file();
	int err;

	if (!file)
		return;
	vb_fork_register(VB_FORK_PKEYS, &at_fork);
	err = add_directory(file);
	if (!err)
		err = vb_watch_running(nic, inotify, on_change, nic);
	if (err) {
		vb_fd_close(&inotify);
		vb_explain_work("%s cannot be watched: %s", file, strerror(-err));
	}
	follow_file(nic);
}
