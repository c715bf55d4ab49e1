/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that move data. */
/* With _FILE_OFFSET_BITS=64 headers rename sendfile to sendfile64, and this file defines both. */
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/symver.h"
#include "preload-sockets/entry.h"

/* These functions put rs. */
static ssize_t receive_and_put(struct vb_rs *rs, const struct iovec *iov, int count, int flags)
{
	struct vb_undo undo;
	ssize_t result;

	vb_undo_push(&undo, vb_rs_undo_get, rs);
	result = vb_rs_recvv(rs, iov, count, flags);
	vb_undo_pop(&undo);
	vb_rs_put(rs);
	return vb_rs_return_count(result);
}

static ssize_t transmit_and_put(struct vb_rs *rs, const struct iovec *iov, int count, int flags)
{
	struct vb_undo undo;
	ssize_t result;

	vb_undo_push(&undo, vb_rs_undo_get, rs);
	result = vb_rs_sendv(rs, iov, count, flags);
	vb_undo_pop(&undo);
	vb_rs_put(rs);
	if (result == -EPIPE && !(flags & MSG_NOSIGNAL))
		raise(SIGPIPE);
	return vb_rs_return_count(result);
}

static ssize_t receive_one(struct vb_rs *rs, void *bytes, size_t size, int flags)
{
	const struct iovec iov = { bytes, size };

	return receive_and_put(rs, &iov, 1, flags);
}

static ssize_t transmit_one(struct vb_rs *rs, const void *bytes, size_t size, int flags)
{
	const struct iovec iov = { (void *)bytes, size };

	return transmit_and_put(rs, &iov, 1, flags);
}

VB_PUBLIC ssize_t read(int fd, void *bytes, size_t size)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);

	if (rs)
		return receive_one(rs, bytes, size, 0);
	VB_CANCEL_END();
	return vb_real()->read(fd, bytes, size);
}

VB_PUBLIC ssize_t write(int fd, const void *bytes, size_t size)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);

	if (rs)
		return transmit_one(rs, bytes, size, 0);
	VB_CANCEL_END();
	return vb_real()->write(fd, bytes, size);
}

/* True: the kernel returns the right error for this count; rs is put. */
static bool refuses_pieces(struct vb_rs *rs, int count)
{
	if (count >= 0 && count <= IOV_MAX)
		return false;
	vb_rs_put(rs);
	return true;
}

VB_PUBLIC ssize_t readv(int fd, const struct iovec *iov, int count)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);

	if (!rs || refuses_pieces(rs, count)) {
		VB_CANCEL_END();
		return vb_real()->readv(fd, iov, count);
	}
	return receive_and_put(rs, iov, count, 0);
}

VB_PUBLIC ssize_t writev(int fd, const struct iovec *iov, int count)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);

	if (!rs || refuses_pieces(rs, count)) {
		VB_CANCEL_END();
		return vb_real()->writev(fd, iov, count);
	}
	return transmit_and_put(rs, iov, count, 0);
}

VB_PUBLIC ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);

	if (rs)
		return receive_one(rs, bytes, size, flags);
	VB_CANCEL_END();
	return vb_real()->recv(fd, bytes, size, flags);
}

VB_PUBLIC ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);

	if (rs)
		return transmit_one(rs, bytes, size, flags);
	VB_CANCEL_END();
	return vb_real()->send(fd, bytes, size, flags);
}

/* A stream returns no source address, as with TCP. */
VB_PUBLIC ssize_t recvfrom(int fd, void *restrict bytes, size_t size, int flags,
			   struct sockaddr *restrict addr, socklen_t *restrict addr_size)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);

	if (!rs) {
		VB_CANCEL_END();
		return vb_real()->recvfrom(fd, bytes, size, flags, addr, addr_size);
	}
	if (addr && addr_size)
		*addr_size = 0;
	return receive_one(rs, bytes, size, flags);
}

VB_PUBLIC ssize_t sendto(int fd, const void *bytes, size_t size, int flags,
			 const struct sockaddr *addr, socklen_t addr_size)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);

	if (rs)
		return transmit_one(rs, bytes, size, flags);
	VB_CANCEL_END();
	return vb_real()->sendto(fd, bytes, size, flags, addr, addr_size);
}

static int piece_count(const struct msghdr *message)
{
	return message->msg_iovlen > IOV_MAX ? -1 : (int)message->msg_iovlen;
}

VB_PUBLIC ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);
	ssize_t result;

	if (!rs) {
		VB_CANCEL_END();
		return vb_real()->recvmsg(fd, message, flags);
	}
	result = receive_and_put(rs, message->msg_iov, piece_count(message), flags);
	if (result >= 0) {
		message->msg_namelen = 0;
		message->msg_controllen = 0;
		message->msg_flags = 0;
	}
	return result;
}

/* Replaces the descriptors in the message with ones that other processes can use. */
static void replace_descriptors(struct msghdr *message)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
	     part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len;
		     at += sizeof(int)) {
			uint8_t *place = (uint8_t *)part + at;
			int number;

			memcpy(&number, place, sizeof(number));
			number = vb_entry_for_others(number);
			memcpy(place, &number, sizeof(number));
		}
	}
}

static ssize_t send_control(int fd, const struct msghdr *message, int flags)
{
	struct msghdr copy = *message;
	struct vb_undo undo;
	ssize_t result;

	copy.msg_control = malloc(message->msg_controllen);
	if (!copy.msg_control) {
		errno = ENOMEM;
		return -1;
	}
	memcpy(copy.msg_control, message->msg_control, message->msg_controllen);
	replace_descriptors(&copy);
	vb_undo_push(&undo, free, copy.msg_control);
	VB_SLEEP_BEGIN;
	result = vb_real()->sendmsg(fd, &copy, flags);
	VB_SLEEP_END;
	vb_undo_pop(&undo);
	free(copy.msg_control);
	return result;
}

VB_PUBLIC ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);

	if (rs)
		return transmit_and_put(rs, message->msg_iov, piece_count(message), flags);
	if (message && message->msg_control && message->msg_controllen)
		return send_control(fd, message, flags);
	VB_CANCEL_END();
	return vb_real()->sendmsg(fd, message, flags);
}

static bool is_rsocket(int fd)
{
	VB_NO_CANCEL;
	struct vb_rs *rs = vb_entry_rsocket_of(fd);

	if (rs)
		vb_rs_put(rs);
	return rs;
}

VB_PUBLIC int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	unsigned done = 0;

	if (!is_rsocket(fd))
		return vb_real()->sendmmsg(fd, messages, count, flags);
	count = count < IOV_MAX ? count : IOV_MAX;
	while (done < count) {
		const ssize_t sent = sendmsg(fd, &messages[done].msg_hdr, flags);

		if (sent < 0)
			break;
		messages[done++].msg_len = (unsigned)sent;
	}
	return done || !count ? (int)done : -1;
}

/* The timeout is checked after each message, as on Linux. */
VB_PUBLIC int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
		       struct timespec *timeout)
{
	uint64_t deadline_ns = VB_NEVER_NS;
	unsigned done = 0;

	if (!is_rsocket(fd))
		return vb_real()->recvmmsg(fd, messages, count, flags, timeout);
	if (timeout)
		deadline_ns = vb_now_ns() + (uint64_t)timeout->tv_sec * 1000000000u +
			      (uint64_t)timeout->tv_nsec;
	while (done < count) {
		const ssize_t size = recvmsg(fd, &messages[done].msg_hdr, flags & ~MSG_WAITFORONE);

		if (size < 0)
			break;
		messages[done++].msg_len = (unsigned)size;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (!size || vb_now_ns() >= deadline_ns)
			break;
	}
	return done || !count ? (int)done : -1;
}

/* Bytes that leave a pipe cannot be put back. After EINVAL programs read and write instead. */
VB_PUBLIC ssize_t splice(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t size,
			 unsigned flags)
{
	if (!is_rsocket(from) && !is_rsocket(to))
		return vb_real()->splice(from, from_offset, to, to_offset, size, flags);
	errno = EINVAL;
	return -1;
}

/* Sends bytes of a file from *offset, or from its own position. */
static ssize_t send_file(int fd, int from, off_t *offset, size_t count)
{
	enum { PIECE = 65536 };
	uint8_t *bytes = malloc(PIECE);
	struct vb_undo undo;
	size_t done = 0;
	ssize_t now = 0;

	vb_undo_push(&undo, free, bytes);
	while (bytes && done < count) {
		const size_t size = count - done < PIECE ? count - done : PIECE;
		const off_t start = offset ? *offset : lseek(from, 0, SEEK_CUR);
		ssize_t sent;

		now = start < 0 ? -1 : pread(from, bytes, size, start);
		if (now <= 0)
			break;
		sent = write(fd, bytes, (size_t)now);
		if (sent < 0) {
			now = -1;
			break;
		}
		/* Only bytes that the rsocket took count as read. */
		if (offset)
			*offset += sent;
		else
			lseek(from, start + sent, SEEK_SET);
		done += (size_t)sent;
		if (sent < now)
			break;
	}
	vb_undo_pop(&undo);
	free(bytes);
	return done || now >= 0 ? (ssize_t)done : -1;
}

VB_PUBLIC ssize_t sendfile(int to, int from, off_t *offset, size_t count)
{
	VB_CANCEL_POINT;
	struct vb_rs *rs = vb_entry_rsocket_of(to);

	if (!rs) {
		VB_CANCEL_END();
		return vb_real()->sendfile(to, from, offset, count);
	}
	vb_rs_put(rs);
	return send_file(to, from, offset, count);
}

VB_PUBLIC ssize_t sendfile64(int to, int from, off64_t *offset, size_t count)
{
	_Static_assert(sizeof(off_t) == sizeof(off64_t), "one kind of offset");

	return sendfile(to, from, (off_t *)offset, count);
}

/* --- names that programs compiled with _FORTIFY_SOURCE call --- */

VB_PUBLIC ssize_t __read_chk(int fd, void *bytes, size_t size, size_t room);
VB_PUBLIC ssize_t __recv_chk(int fd, void *bytes, size_t size, size_t room, int flags);
VB_PUBLIC ssize_t __recvfrom_chk(int fd, void *restrict bytes, size_t size, size_t room, int flags,
				 struct sockaddr *restrict addr, socklen_t *restrict addr_size);

ssize_t __read_chk(int fd, void *bytes, size_t size, size_t room)
{
	if (size > room)
		abort();
	return read(fd, bytes, size);
}

ssize_t __recv_chk(int fd, void *bytes, size_t size, size_t room, int flags)
{
	if (size > room)
		abort();
	return recv(fd, bytes, size, flags);
}

ssize_t __recvfrom_chk(int fd, void *restrict bytes, size_t size, size_t room, int flags,
		       struct sockaddr *restrict addr, socklen_t *restrict addr_size)
{
	if (size > room)
		abort();
	return recvfrom(fd, bytes, size, flags, addr, addr_size);
}
