/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptor numbers of rsockets. Each number is a real descriptor of an unused socket, so that the
 * kernel gives the number to no other file, and fstat reports a socket.
 */
#include <errno.h>
#include <unistd.h>

#include "base/fork.h"
#include "rsocket/public.h"
#include "rsocket/repoll.h"

static struct vb_fd_table table;

static void unlock_tables(void)
{
	vb_fd_table_after_fork(&table);
	vb_repoll_after_fork();
}

static const struct vb_fork_handlers at_fork = { .child = unlock_tables };

void vb_rs_watch_fork(void)
{
	vb_fork_register(VB_FORK_RSOCKETS, &at_fork);
}

struct vb_rs *vb_rs_lookup(int fd)
{
	struct vb_fd_object *object = vb_fd_table_get(&table, fd);
	struct vb_rs *rs;

	if (!object)
		return NULL;
	rs = vb_container(object, struct vb_rs, object);
	/* A child of fork has the numbers, but not their rsockets. */
	if (!vb_rs_is_stale(rs))
		return rs;
	vb_rs_put(rs);
	return NULL;
}

int vb_rs_install(struct vb_rs *rs, bool cloexec)
{
	struct vb_fd_object *before;
	/* The socket only reserves the number, so its family does not matter. */
	const int domain = rs->domain == AF_IB ? AF_INET6 : rs->domain;
	int fd = socket(domain, rs->type | (cloexec ? SOCK_CLOEXEC : 0), 0);
	int err;

	if (fd < 0) {
		err = -errno;
		vb_rs_close(rs);
		vb_rs_put(rs);
		return err;
	}
	vb_rs_watch_fork();
	err = vb_fd_table_set(&table, fd, &rs->object, &before);
	if (err) {
		vb_rs_close(rs);
		vb_rs_put(rs);
		close(fd);
		return err;
	}
	/* The program has closed the number of an older rsocket with close. */
	if (before) {
		struct vb_rs *lost = vb_container(before, struct vb_rs, object);

		vb_rs_close(lost);
		vb_rs_put(lost);
	}
	return fd;
}

struct vb_rs *vb_rs_uninstall(int fd)
{
	struct vb_fd_object *object = vb_fd_table_remove(&table, fd);

	if (!object)
		return NULL;
	close(fd);
	return vb_container(object, struct vb_rs, object);
}
