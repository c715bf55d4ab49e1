/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting by RDMA first and then by TCP; listening by both. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "preload-sockets/entry.h"
#include "preload-sockets/epoll_set.h"
#include "rsocket/poll.h"

/* Options that a new rsocket copies from the TCP socket. */
static const struct {
	int level, name;
} inherited[] = {
	{ SOL_SOCKET, SO_REUSEADDR }, { SOL_SOCKET, SO_KEEPALIVE },  { SOL_SOCKET, SO_LINGER },
	{ SOL_SOCKET, SO_OOBINLINE }, { SOL_SOCKET, SO_RCVTIMEO },   { SOL_SOCKET, SO_SNDTIMEO },
	{ IPPROTO_TCP, TCP_NODELAY }, { IPPROTO_TCP, TCP_KEEPIDLE }, { IPPROTO_IPV6, IPV6_V6ONLY },
};

static void copy_options(const struct vb_entry *entry, int fd, struct vb_rs *rs)
{
	for (size_t i = 0; i < sizeof(inherited) / sizeof(inherited[0]); i++) {
		const int level = inherited[i].level, name = inherited[i].name;
		uint8_t value[64];
		socklen_t size = sizeof(value);

		if (level == IPPROTO_IPV6 && entry->domain != AF_INET6)
			continue;
		if (!vb_real()->getsockopt(fd, level, name, value, &size))
			vb_rs_option_set(rs, level, name, value, size);
	}
}

/* The kernel returns twice the value that was set. */
static void copy_buffer_size(int fd, struct vb_rs *rs, int name)
{
	socklen_t size = sizeof(int);
	int value;

	if (vb_real()->getsockopt(fd, SOL_SOCKET, name, &value, &size))
		return;
	value /= 2;
	vb_rs_option_set(rs, SOL_SOCKET, name, &value, sizeof(value));
}

/* TCP enlarges its buffers by itself. Those of an rsocket must be large enough from the start. */
static void enlarge_buffers(struct vb_rs *rs)
{
	const struct vb_rs_settings *settings = vb_rs_settings();
	const int size = 1 << 19; /* vb_rs_option_set doubles it */

	if (settings->receive_size == VB_RS_BUFFER_DEFAULT)
		vb_rs_option_set(rs, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (settings->send_size == VB_RS_BUFFER_DEFAULT)
		vb_rs_option_set(rs, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static void apply_config(struct vb_rs *rs)
{
	const struct vb_sockets_config *config = vb_sockets_config();

	if (config->sq_size)
		vb_rs_option_set(rs, SOL_RDMA, RDMA_SQSIZE, &config->sq_size, sizeof(int));
	if (config->rq_size)
		vb_rs_option_set(rs, SOL_RDMA, RDMA_RQSIZE, &config->rq_size, sizeof(int));
	if (config->inline_size)
		vb_rs_option_set(rs, SOL_RDMA, RDMA_INLINE, &config->inline_size, sizeof(int));
}

int vb_entry_make_rsocket(struct vb_entry *entry, int fd, struct vb_rs **rs)
{
	int err = vb_rs_open(entry->domain, SOCK_STREAM, 0, rs);

	if (err)
		return err;
	vb_sockets_watch_fork();
	enlarge_buffers(*rs);
	apply_config(*rs);
	copy_options(entry, fd, *rs);
	if (entry->receive_size_set)
		copy_buffer_size(fd, *rs, SO_RCVBUF);
	if (entry->send_size_set)
		copy_buffer_size(fd, *rs, SO_SNDBUF);
	return 0;
}

/* --- connect --- */

/* An address that the program bound its socket to is bound to the rsocket, too. */
static int bind_as(int fd, struct vb_rs *rs)
{
	union vb_rs_addr local = { 0 };
	socklen_t size = sizeof(local);

	if (vb_real()->getsockname(fd, &local.sa, &size) || !local.in.sin_port)
		return 0;
	return vb_rs_bind(rs, &local.sa, size);
}

static int begin_rdma(struct vb_entry *entry, int fd, const struct sockaddr *addr, socklen_t size)
{
	struct vb_rs *rs;
	int err;

	if (entry->kind != VB_KIND_FRESH)
		return -EISCONN;
	if (!addr || size < sizeof(sa_family_t) || addr->sa_family != entry->domain)
		return -EINVAL; /* connect of the TCP socket returns the right error */
	err = vb_entry_make_rsocket(entry, fd, &rs);
	if (err)
		return err;
	vb_rs_set_nonblock(rs, true);
	err = bind_as(fd, rs);
	err = err ? err : vb_rs_connect(rs, addr, size);
	if (err != -EINPROGRESS) {
		vb_rs_put(rs);
		return err;
	}
	memcpy(&entry->target, addr,
	       entry->domain == AF_INET ? sizeof(entry->target.in) : sizeof(entry->target.in6));
	entry->rs = rs;
	entry->kind = VB_KIND_CONNECTING;
	entry->give_up_at_ns = vb_now_ns() + vb_sockets_config()->connect_wait_ns;
	vb_epoll_changed(entry);
	return err;
}

/* SO_SNDTIMEO of a blocking connect; -1: none. */
static int connect_timeout_ms(int fd)
{
	struct timeval time = { 0 };
	socklen_t size = sizeof(time);

	if (vb_real()->getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, &size) ||
	    (!time.tv_sec && !time.tv_usec))
		return -1;
	return (int)(time.tv_sec * 1000 + time.tv_usec / 1000 + 1);
}

/* Waits until the connect of the TCP socket is decided. */
static int wait_tcp(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLOUT };
	socklen_t size = sizeof(int);
	int error, found;

	do {
		VB_SLEEP_BEGIN;
		found = vb_real()->poll(&ready, 1, connect_timeout_ms(fd));
		VB_SLEEP_END;
	} while (found < 0 && errno == EINTR && vb_rs_restart());
	if (!found)
		return -EINPROGRESS;
	if (found < 0 || vb_real()->getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size))
		return -errno;
	return -error;
}

/* The result of a blocking connect, once RDMA is decided. */
static int connect_outcome(struct vb_entry *entry, int fd)
{
	bool is_stream;
	int error;

	pthread_mutex_lock(&entry->lock);
	if (entry->rs)
		vb_rs_set_nonblock(entry->rs, entry->nonblock);
	is_stream = entry->kind == VB_KIND_STREAM;
	error = entry->error;
	if (!is_stream)
		entry->error = 0;
	pthread_mutex_unlock(&entry->lock);
	if (is_stream)
		return 0;
	return error ? -error : wait_tcp(fd);
}

static int poll_connecting(struct vb_entry_parts *parts)
{
	struct pollfd ready = { .fd = -1, .events = POLLOUT };
	struct vb_undo undo;
	int found;

	vb_undo_push(&undo, vb_rs_undo_get, parts->rs);
	found = vb_rs_poll(&ready, &parts->rs, 1, parts->look_again_at_ns, NULL);
	vb_undo_pop(&undo);
	vb_rs_put(parts->rs);
	return found;
}

static int wait_connected(struct vb_entry *entry, int fd)
{
	for (;;) {
		struct vb_entry_parts parts = vb_entry_parts(entry, fd);
		int err;

		if (parts.look_again_at_ns == VB_NEVER_NS) {
			if (parts.rs)
				vb_rs_put(parts.rs);
			return connect_outcome(entry, fd);
		}
		err = poll_connecting(&parts);
		if (err < 0 && !(err == -EINTR && vb_rs_restart()))
			return err;
	}
}

/* A second connect. Puts rs. */
static int connect_again(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size)
{
	struct vb_undo undo;
	int err;

	vb_undo_push(&undo, vb_rs_undo_get, rs);
	err = vb_rs_connect(rs, addr, size);
	vb_undo_pop(&undo);
	vb_rs_put(rs);
	return err;
}

/* The TCP socket connects, as the program asks. */
static int connect_tcp(int fd, const struct sockaddr *addr, socklen_t size)
{
	int result;

	VB_SLEEP_BEGIN;
	result = vb_real()->connect(fd, addr, size);
	VB_SLEEP_END;
	return result ? -errno : 0;
}

int vb_entry_connect(struct vb_entry *entry, int fd, const struct sockaddr *addr, socklen_t size)
{
	bool fresh, wait;
	int err;

	pthread_mutex_lock(&entry->lock);
	fresh = entry->kind == VB_KIND_FRESH;
	err = fresh ? begin_rdma(entry, fd, addr, size) : 0;
	wait = err == -EINPROGRESS && !entry->nonblock;
	if (fresh && err != -EINPROGRESS)
		entry->kind = VB_KIND_PLAIN; /* RDMA cannot reach the address */
	pthread_mutex_unlock(&entry->lock);
	if (wait)
		return wait_connected(entry, fd);
	if (err == -EINPROGRESS)
		return err;
	if (!fresh) {
		struct vb_rs *rs = vb_entry_rsocket(entry, fd);

		if (rs)
			return connect_again(rs, addr, size);
	}
	return connect_tcp(fd, addr, size);
}

/* --- listen --- */

int vb_entry_listen_rdma(struct vb_entry *entry, int fd)
{
	union vb_rs_addr local = { 0 };
	socklen_t size = sizeof(local);
	struct vb_rs *rs;
	int err;

	if (vb_real()->getsockname(fd, &local.sa, &size))
		return -errno;
	err = vb_entry_make_rsocket(entry, fd, &rs);
	if (err)
		return err;
	vb_rs_set_nonblock(rs, true);
	err = vb_rs_bind(rs, &local.sa, size);
	err = err ? err : vb_rs_listen(rs, entry->backlog);
	if (err) {
		vb_rs_put(rs);
		return err;
	}
	/* accept looks at both sockets, so neither may block. */
	vb_real()->fcntl(fd, F_SETFL, vb_real()->fcntl(fd, F_GETFL) | O_NONBLOCK);
	entry->rs = rs;
	entry->kind = VB_KIND_LISTENER;
	vb_epoll_changed(entry);
	return 0;
}

int vb_entry_listen(struct vb_entry *entry, int fd, int backlog)
{
	struct vb_rs *rs = vb_entry_rsocket(entry, fd);

	if (rs) {
		vb_rs_put(rs);
		return -EINVAL; /* the socket is connected or connecting */
	}
	if (vb_real()->listen(fd, backlog))
		return -errno;
	pthread_mutex_lock(&entry->lock);
	entry->backlog = backlog;
	if (entry->kind == VB_KIND_LISTENER && entry->rs)
		vb_rs_listen(entry->rs, backlog);
	else if (entry->kind == VB_KIND_FRESH &&
		 (!vb_sockets_config()->listen || vb_entry_listen_rdma(entry, fd)))
		entry->kind = VB_KIND_PLAIN;
	pthread_mutex_unlock(&entry->lock);
	return 0;
}

/* --- accept --- */

/* Makes a number for an accepted rsocket, and takes over its reference. */
static int number_for(struct vb_rs *rs, int domain, int flags)
{
	int fd = vb_real()->socket(domain, SOCK_STREAM | (flags & (SOCK_CLOEXEC | SOCK_NONBLOCK)),
				   0);
	int err = fd < 0 ? -errno : 0;

	if (err) {
		vb_rs_close(rs);
		vb_rs_put(rs);
		return err;
	}
	vb_rs_set_nonblock(rs, flags & SOCK_NONBLOCK);
	err = vb_entry_add(fd, domain, flags & SOCK_NONBLOCK, rs);
	if (err)
		vb_real()->close(fd);
	return err ? err : fd;
}

static int accept_once(struct vb_entry *entry, int fd, struct vb_rs *listener,
		       struct sockaddr *addr, socklen_t *size, int flags)
{
	struct vb_rs *rs;
	int result;

	if (listener && !vb_rs_accept(listener, &rs)) {
		if (addr && size)
			vb_rs_name_peer(rs, addr, size);
		return number_for(rs, entry->domain, flags);
	}
	VB_SLEEP_BEGIN;
	result = vb_real()->accept4(fd, addr, size, flags);
	VB_SLEEP_END;
	return result < 0 ? -errno : result;
}

static int wait_acceptable(int fd, struct vb_rs *listener, uint64_t deadline_ns)
{
	struct pollfd fds[2] = { { .fd = fd, .events = POLLIN }, { .fd = -1, .events = POLLIN } };
	struct vb_rs *rsockets[2] = { NULL, listener };
	int ready = vb_rs_poll(fds, rsockets, listener ? 2 : 1, deadline_ns, NULL);

	if (ready == -EINTR && vb_rs_restart())
		return 0;
	return ready < 0 ? ready : ready ? 0 : -EAGAIN;
}

static uint64_t accept_deadline(int fd)
{
	struct timeval time = { 0 };
	socklen_t size = sizeof(time);

	if (vb_real()->getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, &size))
		return VB_NEVER_NS;
	return vb_rs_deadline(false,
			      (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u);
}

static int accept_one(struct vb_entry *entry, int fd, struct vb_rs *listener, bool may_block,
		      struct sockaddr *addr, socklen_t *size, int flags)
{
	const uint64_t deadline_ns = may_block ? accept_deadline(fd) : 0;
	int result;

	do {
		result = accept_once(entry, fd, listener, addr, size, flags);
		if (result != -EAGAIN || !may_block)
			break;
		result = wait_acceptable(fd, listener, deadline_ns);
	} while (!result);
	return result;
}

static void undo_parts(void *rs)
{
	if (rs)
		vb_rs_put(rs);
}

int vb_entry_accept(struct vb_entry *entry, int fd, struct sockaddr *addr, socklen_t *size,
		    int flags)
{
	struct vb_entry_parts parts;
	struct vb_undo undo;
	bool may_block;
	int result;

	vb_entry_await(entry, fd);
	parts = vb_entry_parts(entry, fd);
	pthread_mutex_lock(&entry->lock);
	may_block = entry->kind == VB_KIND_LISTENER && !entry->nonblock;
	pthread_mutex_unlock(&entry->lock);
	vb_undo_push(&undo, undo_parts, parts.rs);
	result =
		accept_one(entry, fd, parts.kernel ? parts.rs : NULL, may_block, addr, size, flags);
	vb_undo_pop(&undo);
	undo_parts(parts.rs);
	return result;
}
