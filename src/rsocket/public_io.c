/* SPDX-License-Identifier: BSD-2-Clause */
/* The exported functions that move data. */
#include <errno.h>
#include <limits.h>
#include <rdma/rsocket.h>
#include <string.h>

#include "base/cancel.h"
#include "base/symver.h"
#include "rsocket/datagram.h"
#include "rsocket/public.h"

static ssize_t receive_pieces(int socket, const struct iovec *iov, int count, int *flags,
			      struct sockaddr *addr, socklen_t *addrlen)
{
	struct vb_rs *rs = vb_rs_lookup(socket);
	union vb_rs_addr source = { 0 };
	struct vb_undo undo;
	ssize_t result;

	if (!rs)
		return -EBADF;
	vb_undo_push(&undo, vb_rs_undo_get, rs);
	if (rs->type == SOCK_DGRAM) {
		result = vb_rs_datagram_recv(rs, iov, count, flags, &source);
		if (result >= 0 && addr && addrlen)
			vb_rs_copy_addr(&source, addr, addrlen);
	} else {
		result = vb_rs_recvv(rs, iov, count, *flags);
		*flags = 0;
		if (result > 0 && addr && addrlen)
			vb_rs_name_peer(rs, addr, addrlen);
	}
	vb_undo_pop(&undo);
	vb_rs_put(rs);
	return result;
}

static ssize_t send_pieces(int socket, const struct iovec *iov, int count, int flags,
			   const struct sockaddr *addr, socklen_t addrlen)
{
	struct vb_rs *rs = vb_rs_lookup(socket);
	struct vb_undo undo;
	ssize_t result;

	if (!rs)
		return -EBADF;
	vb_undo_push(&undo, vb_rs_undo_get, rs);
	if (rs->type == SOCK_DGRAM)
		result = vb_rs_datagram_send(rs, iov, count, flags, addr, addrlen);
	else
		result = vb_rs_sendv(rs, iov, count, flags); /* TCP ignores the address, too */
	vb_undo_pop(&undo);
	vb_rs_put(rs);
	return result;
}

VB_PUBLIC ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
			    socklen_t *addrlen)
{
	VB_CANCEL_POINT;
	const struct iovec iov = { buf, len };

	return vb_rs_return_count(receive_pieces(socket, &iov, 1, &flags, src_addr, addrlen));
}

VB_PUBLIC ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	return rrecvfrom(socket, buf, len, flags, NULL, NULL);
}

VB_PUBLIC ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecvfrom(socket, buf, count, 0, NULL, NULL);
}

VB_PUBLIC ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	VB_CANCEL_POINT;
	int flags = 0;

	if (iovcnt < 0 || iovcnt > IOV_MAX)
		return vb_rs_return_count(-EINVAL);
	return vb_rs_return_count(receive_pieces(socket, iov, iovcnt, &flags, NULL, NULL));
}

VB_PUBLIC ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	VB_CANCEL_POINT;
	ssize_t result;

	if (!msg)
		return vb_rs_return_count(-EFAULT);
	if (msg->msg_iovlen > IOV_MAX)
		return vb_rs_return_count(-EMSGSIZE);
	result = receive_pieces(socket, msg->msg_iov, (int)msg->msg_iovlen, &flags, msg->msg_name,
				&msg->msg_namelen);
	if (result >= 0) {
		msg->msg_controllen = 0; /* there are no control messages */
		msg->msg_flags = flags;
	}
	return vb_rs_return_count(result);
}

VB_PUBLIC ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
			  const struct sockaddr *dest_addr, socklen_t addrlen)
{
	VB_CANCEL_POINT;
	const struct iovec iov = { (void *)buf, len };

	return vb_rs_return_count(send_pieces(socket, &iov, 1, flags, dest_addr, addrlen));
}

VB_PUBLIC ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	return rsendto(socket, buf, len, flags, NULL, 0);
}

VB_PUBLIC ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsendto(socket, buf, count, 0, NULL, 0);
}

VB_PUBLIC ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	VB_CANCEL_POINT;

	if (iovcnt < 0 || iovcnt > IOV_MAX)
		return vb_rs_return_count(-EINVAL);
	return vb_rs_return_count(send_pieces(socket, iov, iovcnt, 0, NULL, 0));
}

VB_PUBLIC ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	VB_CANCEL_POINT;

	if (!msg)
		return vb_rs_return_count(-EFAULT);
	if (msg->msg_iovlen > IOV_MAX)
		return vb_rs_return_count(-EMSGSIZE);
	return vb_rs_return_count(send_pieces(socket, msg->msg_iov, (int)msg->msg_iovlen, flags,
					      msg->msg_name, msg->msg_namelen));
}

VB_PUBLIC off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	VB_NO_CANCEL;
	struct vb_rs *rs = vb_rs_lookup(socket);
	off_t result;

	if (!rs)
		return vb_rs_return_count(-EBADF);
	result = rs->type == SOCK_STREAM ? vb_rs_iomap(rs, buf, len, prot, flags, offset)
					 : -EOPNOTSUPP;
	vb_rs_put(rs);
	return vb_rs_return_count(result);
}

VB_PUBLIC size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_rs_lookup(socket);
	struct vb_undo undo;
	ssize_t result;

	if (!rs)
		return (size_t)vb_rs_return_count(-EBADF);
	vb_undo_push(&undo, vb_rs_undo_get, rs);
	result = rs->type == SOCK_STREAM ? vb_rs_iowrite(rs, buf, count, offset, flags)
					 : -EOPNOTSUPP;
	vb_undo_pop(&undo);
	vb_rs_put(rs);
	return (size_t)vb_rs_return_count(result);
}
