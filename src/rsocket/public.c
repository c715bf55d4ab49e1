/* SPDX-License-Identifier: BSD-2-Clause */
/* The exported functions that make, name, connect and end rsockets: -1 and errno. */
#include "rsocket/public.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rsocket/datagram.h"
#include "rsocket/repoll.h"

VB_PUBLIC int rsocket(int domain, int type, int protocol)
{
	VB_NO_CANCEL;
	struct vb_rs *rs;
	int result = vb_rs_open(domain, type, protocol, &rs);

	if (!result)
		result = vb_rs_install(rs, type & SOCK_CLOEXEC);
	return result < 0 ? vb_return_minus_one(result) : result;
}

/* Evaluates call with the rsocket of a number, and returns its result. */
#define WITH_RSOCKET(socket, rs, call)                      \
	do {                                                \
		struct vb_rs *rs = vb_rs_lookup(socket);    \
		struct vb_undo undo;                        \
		int err;                                    \
                                                            \
		if (!rs)                                    \
			return vb_return_minus_one(-EBADF); \
		vb_undo_push(&undo, vb_rs_undo_get, rs);    \
		err = (call);                               \
		vb_undo_pop(&undo);                         \
		vb_rs_put(rs);                              \
		return vb_return_minus_one(err);            \
	} while (0)

VB_PUBLIC int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	VB_NO_CANCEL;

	WITH_RSOCKET(socket, rs, vb_rs_bind(rs, addr, addrlen));
}

VB_PUBLIC int rlisten(int socket, int backlog)
{
	VB_NO_CANCEL;

	WITH_RSOCKET(socket, rs, vb_rs_listen(rs, backlog));
}

VB_PUBLIC int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	VB_CANCEL_POINT;

	WITH_RSOCKET(socket, rs,
		     rs->type == SOCK_STREAM ? vb_rs_connect(rs, addr, addrlen)
					     : vb_rs_datagram_connect(rs, addr, addrlen));
}

VB_PUBLIC int rshutdown(int socket, int how)
{
	VB_NO_CANCEL;

	WITH_RSOCKET(socket, rs, vb_rs_shutdown(rs, how));
}

VB_PUBLIC int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	VB_NO_CANCEL;

	WITH_RSOCKET(socket, rs, addr && addrlen ? vb_rs_name_local(rs, addr, addrlen) : -EFAULT);
}

VB_PUBLIC int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	VB_NO_CANCEL;

	WITH_RSOCKET(socket, rs, addr && addrlen ? vb_rs_name_peer(rs, addr, addrlen) : -EFAULT);
}

VB_PUBLIC int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	VB_NO_CANCEL;

	WITH_RSOCKET(socket, rs, vb_rs_option_set(rs, level, optname, optval, optlen));
}

VB_PUBLIC int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	VB_NO_CANCEL;

	WITH_RSOCKET(socket, rs, vb_rs_option_get(rs, level, optname, optval, optlen));
}

VB_PUBLIC int riounmap(int socket, void *buf, size_t len)
{
	VB_NO_CANCEL;

	WITH_RSOCKET(socket, rs, vb_rs_iounmap(rs, buf, len));
}

/* An accepted rsocket inherits O_NONBLOCK from its listener, as in librdmacm. */
static int install_accepted(struct vb_rs *listener, struct vb_rs *rs)
{
	pthread_mutex_lock(&listener->lock);
	rs->nonblock = listener->nonblock;
	pthread_mutex_unlock(&listener->lock);
	return vb_rs_install(rs, false);
}

VB_PUBLIC int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	VB_CANCEL_POINT;
	struct vb_rs *listener = vb_rs_lookup(socket), *rs;
	struct vb_undo undo;
	int result;

	if (!listener)
		return vb_return_minus_one(-EBADF);
	vb_undo_push(&undo, vb_rs_undo_get, listener);
	result = vb_rs_accept(listener, &rs);
	vb_undo_pop(&undo);
	if (!result) {
		if (addr && addrlen)
			vb_rs_name_peer(rs, addr, addrlen);
		result = install_accepted(listener, rs);
	}
	vb_rs_put(listener);
	return result < 0 ? vb_return_minus_one(result) : result;
}

VB_PUBLIC int rclose(int socket)
{
	VB_NO_CANCEL;
	struct vb_rs *rs = vb_rs_uninstall(socket);

	if (!rs)
		return vb_return_minus_one(vb_repoll_close(socket));
	vb_rs_close(rs);
	vb_rs_put(rs);
	return 0;
}

static int flags_of(struct vb_rs *rs)
{
	int flags;

	pthread_mutex_lock(&rs->lock);
	flags = O_RDWR | (rs->nonblock ? O_NONBLOCK : 0);
	pthread_mutex_unlock(&rs->lock);
	return flags;
}

VB_PUBLIC int rfcntl(int socket, int cmd, ...)
{
	VB_NO_CANCEL;
	struct vb_rs *rs = vb_rs_lookup(socket);
	va_list args;
	int argument, result = 0;

	if (!rs)
		return vb_return_minus_one(-EBADF);
	va_start(args, cmd);
	argument = cmd == F_SETFL || cmd == F_SETFD ? va_arg(args, int) : 0;
	va_end(args);
	switch (cmd) {
	case F_GETFL:
		result = flags_of(rs);
		break;
	case F_SETFL:
		vb_rs_set_nonblock(rs, argument & O_NONBLOCK);
		break;
	case F_GETFD:
	case F_SETFD:
		result = fcntl(socket, cmd, argument);
		break;
	default:
		errno = ENOTSUP;
		result = -1;
	}
	vb_rs_put(rs);
	return result;
}
