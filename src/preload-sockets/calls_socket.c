/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that make, name, connect and end sockets. */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/symver.h"
#include "preload-sockets/entry.h"
#include "preload-sockets/epoll_set.h"
#include "preload-sockets/share.h"

VB_PUBLIC int socket(int domain, int type, int protocol)
{
	VB_NO_CANCEL;
	int fd = vb_real()->socket(domain, type, protocol);

	if (fd >= 0 && vb_sockets_wanted(domain, type, protocol))
		vb_entry_add(fd, domain, type & SOCK_NONBLOCK, NULL); /* on failure TCP alone */
	return fd;
}

VB_PUBLIC int listen(int fd, int backlog)
{
	VB_NO_CANCEL;
	struct vb_entry *entry = vb_entry_get(fd);
	int result;

	if (!entry)
		return vb_real()->listen(fd, backlog);
	result = vb_entry_listen(entry, fd, backlog);
	vb_entry_put(entry);
	return vb_rs_return_count(result);
}

VB_PUBLIC int accept4(int fd, struct sockaddr *addr, socklen_t *size, int flags)
{
	VB_CANCEL_POINT;
	struct vb_entry *entry = vb_entry_get(fd);
	struct vb_undo undo;
	int result;

	if (!entry) {
		VB_CANCEL_END();
		return vb_real()->accept4(fd, addr, size, flags);
	}
	vb_undo_push(&undo, vb_entry_undo_get, entry);
	result = vb_entry_accept(entry, fd, addr, size, flags);
	vb_undo_pop(&undo);
	vb_entry_put(entry);
	return vb_rs_return_count(result);
}

VB_PUBLIC int accept(int fd, struct sockaddr *addr, socklen_t *size)
{
	return accept4(fd, addr, size, 0);
}

VB_PUBLIC int connect(int fd, const struct sockaddr *addr, socklen_t size)
{
	VB_CANCEL_POINT;
	struct vb_entry *entry = vb_entry_get(fd);
	struct vb_undo undo;
	int result;

	if (!entry) {
		VB_CANCEL_END();
		return vb_real()->connect(fd, addr, size);
	}
	vb_undo_push(&undo, vb_entry_undo_get, entry);
	result = vb_entry_connect(entry, fd, addr, size);
	vb_undo_pop(&undo);
	vb_entry_put(entry);
	return vb_rs_return_count(result);
}

VB_PUBLIC int close(int fd)
{
	VB_NO_CANCEL; /* a number that is half closed helps nobody */

	vb_entry_drop(fd);
	vb_epoll_drop(fd);
	return vb_real()->close(fd);
}

VB_PUBLIC int shutdown(int fd, int how)
{
	VB_NO_CANCEL;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);
	int result;

	if (!rs)
		return vb_real()->shutdown(fd, how);
	result = vb_rs_shutdown(rs, how);
	vb_rs_put(rs);
	return vb_rs_return_count(result);
}

/* Returns the address of a connection that the parent has. False: fd is not such a connection. */
static bool lent_name(int fd, void (*name)(const struct vb_share *, struct sockaddr *, socklen_t *),
		      struct sockaddr *addr, socklen_t *size)
{
	struct vb_entry *entry = vb_entry_get(fd);
	bool lent;

	if (!entry)
		return false;
	lent = entry->lent && addr && size;
	if (lent)
		name(entry->share, addr, size);
	vb_entry_put(entry);
	return lent;
}

VB_PUBLIC int getpeername(int fd, struct sockaddr *restrict addr, socklen_t *restrict size)
{
	VB_NO_CANCEL;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);
	int result;

	if (!rs && lent_name(fd, vb_share_name_peer, addr, size))
		return 0;
	if (!rs)
		return vb_real()->getpeername(fd, addr, size);
	result = vb_rs_name_peer(rs, addr, size);
	vb_rs_put(rs);
	return vb_rs_return_count(result);
}

VB_PUBLIC int getsockname(int fd, struct sockaddr *restrict addr, socklen_t *restrict size)
{
	VB_NO_CANCEL;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);
	int result;

	if (!rs && lent_name(fd, vb_share_name_local, addr, size))
		return 0;
	if (!rs)
		return vb_real()->getsockname(fd, addr, size);
	result = vb_rs_name_local(rs, addr, size);
	vb_rs_put(rs);
	return vb_rs_return_count(result);
}

/* Takes the error of a connect by TCP that came after one by RDMA. */
static int take_tcp_error(int fd)
{
	struct vb_entry *entry = vb_entry_get(fd);
	int error;

	if (!entry)
		return 0;
	pthread_mutex_lock(&entry->lock);
	error = entry->error;
	entry->error = 0;
	pthread_mutex_unlock(&entry->lock);
	vb_entry_put(entry);
	return error;
}

/* The TCP socket keeps the options, but these ones describe the connection. */
static bool is_about_connection(int level, int name)
{
	return (level == SOL_SOCKET && name == SO_ERROR) ||
	       (level == IPPROTO_TCP && (name == TCP_INFO || name == TCP_MAXSEG));
}

/* A child's end of a pair has no TCP options, so reading them returns 0, the default of most. */
static bool lent_option(int fd, int level, int name, void *value, socklen_t *size)
{
	struct vb_entry *entry = vb_entry_get(fd);
	const bool is_domain = level == SOL_SOCKET && name == SO_DOMAIN;
	bool lent = entry && entry->lent && (level != SOL_SOCKET || is_domain) && value && size;

	if (lent) {
		const int number = is_domain ? entry->domain : 0;

		memset(value, 0, *size);
		memcpy(value, &number, *size < sizeof(number) ? *size : sizeof(number));
		*size = *size < sizeof(number) ? *size : sizeof(number);
	}
	if (entry)
		vb_entry_put(entry);
	return lent;
}

VB_PUBLIC int getsockopt(int fd, int level, int name, void *restrict value,
			 socklen_t *restrict size)
{
	VB_NO_CANCEL;
	struct vb_rs *rs = is_about_connection(level, name) ? vb_entry_rsocket_of(fd) : NULL;
	int error, result;

	if (rs) {
		result = vb_rs_option_get(rs, level, name, value, size);
		vb_rs_put(rs);
		return vb_rs_return_count(result);
	}
	if (lent_option(fd, level, name, value, size))
		return 0;
	error = level == SOL_SOCKET && name == SO_ERROR ? take_tcp_error(fd) : 0;
	if (error && *size >= sizeof(error)) {
		memcpy(value, &error, sizeof(error));
		*size = sizeof(error);
		return 0;
	}
	return vb_real()->getsockopt(fd, level, name, value, size);
}

static bool entry_is_plain(struct vb_entry *entry)
{
	bool plain;

	pthread_mutex_lock(&entry->lock);
	plain = entry->kind == VB_KIND_PLAIN;
	pthread_mutex_unlock(&entry->lock);
	return plain;
}

VB_PUBLIC int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	VB_NO_CANCEL;
	struct vb_entry *entry = vb_entry_get(fd);
	int result;

	/* A child's end of a pair has no TCP options, and needs none. */
	if (entry && entry->lent && level != SOL_SOCKET) {
		vb_entry_put(entry);
		return 0;
	}
	/* An rsocket has no error queue to tell the program when its buffers are free. */
	if (entry && level == SOL_SOCKET && name == SO_ZEROCOPY && !entry_is_plain(entry)) {
		vb_entry_put(entry);
		return vb_rs_return_count(-EOPNOTSUPP);
	}
	result = vb_real()->setsockopt(fd, level, name, value, size);
	if (!entry)
		return result;
	pthread_mutex_lock(&entry->lock);
	if (!result && level == SOL_SOCKET && name == SO_RCVBUF)
		entry->receive_size_set = true;
	if (!result && level == SOL_SOCKET && name == SO_SNDBUF)
		entry->send_size_set = true;
	if (!result && entry->rs)
		vb_rs_option_set(entry->rs, level, name, value, size); /* rs may not know it */
	pthread_mutex_unlock(&entry->lock);
	vb_entry_put(entry);
	return result;
}

/* Sent bytes must arrive even if the program ends without closing its sockets. */
__attribute__((destructor)) static void at_exit(void)
{
	vb_entry_drop_range(0, ~0u);
	vb_share_wait_all();
}
