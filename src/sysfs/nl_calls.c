/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaced calls: sockets, where they are of NETLINK_RDMA. */
#include "sysfs/real.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <linux/netlink.h>

#include "sysfs/nl_socket.h"

/* Programs compiled with _FORTIFY_SOURCE call these; no header declares them. */
ssize_t __recv_chk(int fd, void *buffer, size_t size, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buffer, size_t size, size_t room, int flags,
		       __SOCKADDR_ARG from, socklen_t *length);

enum { REQUEST_MAX = 212960 }; /* the kernel's default send buffer, less its overhead */
enum { GROUPS_MAX = 4 };       /* multicast groups of NETLINK_RDMA */

static int fail(int error)
{
	errno = error;
	return -1;
}

VB_PUBLIC int socket(int domain, int type, int protocol)
{
	if (__builtin_expect(domain == AF_NETLINK && protocol == NETLINK_RDMA, 0))
		return vb_nl_socket_open(type);
	return REAL(socket)(domain, type, protocol);
}

/* --- names and options --- */

/* Groups would be those of NETLINK_USERSOCK. Nothing is ever sent to those of NETLINK_RDMA. */
VB_PUBLIC int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
	struct sockaddr_nl own = { 0 };
	int result;

	if (!vb_nl_is_ours(fd) || length < sizeof(own))
		return REAL(bind)(fd, address, length);
	memcpy(&own, address.__sockaddr__, sizeof(own));
	own.nl_groups = 0;
	result = REAL(bind)(fd, (const struct sockaddr *)&own, sizeof(own));
	if (!result)
		vb_nl_socket_seal(fd);
	return result;
}

static int check_target(const struct sockaddr *address, socklen_t length)
{
	struct sockaddr_nl target = { 0 };

	if (length < sizeof(target))
		return EINVAL;
	memcpy(&target, address, sizeof(target));
	if (target.nl_family != AF_NETLINK)
		return EINVAL;
	return target.nl_pid || target.nl_groups ? EPERM : 0; /* only the kernel may be meant */
}

VB_PUBLIC int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
	int error;

	if (!vb_nl_is_ours(fd))
		return REAL(connect)(fd, address, length);
	error = check_target(address.__sockaddr__, length);
	return error ? fail(error) : 0;
}

VB_PUBLIC int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
	unsigned group;

	if (level != SOL_NETLINK ||
	    (option != NETLINK_ADD_MEMBERSHIP && option != NETLINK_DROP_MEMBERSHIP) ||
	    !vb_nl_is_ours(fd))
		return REAL(setsockopt)(fd, level, option, value, length);
	if (length < sizeof(group))
		return fail(EINVAL);
	memcpy(&group, value, sizeof(group));
	return group >= 1 && group <= GROUPS_MAX ? 0 : fail(EINVAL);
}

/* --- sending --- */

static ssize_t request(int fd, const void *bytes, size_t size)
{
	int result = vb_nl_socket_request(fd, bytes, size);

	return result ? fail(-result) : (ssize_t)size;
}

static ssize_t send_bytes(int fd, const void *bytes, size_t size, const struct sockaddr *to,
			  socklen_t length)
{
	const int error = to ? check_target(to, length) : 0;
	void *aligned;
	ssize_t sent;

	if (error)
		return fail(error);
	if (size > REQUEST_MAX)
		return fail(EMSGSIZE);
	aligned = malloc(size + 1);
	if (!aligned)
		return fail(ENOBUFS);
	memcpy(aligned, bytes, size);
	sent = request(fd, aligned, size);
	free(aligned);
	return sent;
}

VB_PUBLIC ssize_t sendto(int fd, const void *bytes, size_t size, int flags, __CONST_SOCKADDR_ARG to,
			 socklen_t length)
{
	if (!vb_nl_is_ours(fd))
		return REAL(sendto)(fd, bytes, size, flags, to, length);
	return send_bytes(fd, bytes, size, to.__sockaddr__, length);
}

VB_PUBLIC ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
	if (!vb_nl_is_ours(fd))
		return REAL(send)(fd, bytes, size, flags);
	return send_bytes(fd, bytes, size, NULL, 0);
}

static bool gather(const struct msghdr *message, size_t *size)
{
	*size = 0;
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		if (message->msg_iov[i].iov_len > REQUEST_MAX - *size)
			return false;
		*size += message->msg_iov[i].iov_len;
	}
	return true;
}

static ssize_t send_message(int fd, const struct msghdr *message)
{
	const int error =
		message->msg_name ? check_target(message->msg_name, message->msg_namelen) : 0;
	size_t size, at = 0;
	ssize_t sent;
	char *bytes;

	if (error)
		return fail(error);
	if (!gather(message, &size))
		return fail(EMSGSIZE);
	bytes = malloc(size + 1);
	if (!bytes)
		return fail(ENOBUFS);
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		memcpy(bytes + at, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
		at += message->msg_iov[i].iov_len;
	}
	sent = request(fd, bytes, size);
	free(bytes);
	return sent;
}

VB_PUBLIC ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (!vb_nl_is_ours(fd))
		return REAL(sendmsg)(fd, message, flags);
	return send_message(fd, message);
}

/* --- receiving --- */

/* The kernel's own number is 0. room: as it was before the call. */
static void hide_sender(void *name, socklen_t room)
{
	const uint32_t kernel = 0;

	if (name && room >= sizeof(struct sockaddr_nl))
		memcpy((char *)name + offsetof(struct sockaddr_nl, nl_pid), &kernel,
		       sizeof(kernel));
}

static ssize_t received(int fd, ssize_t result, void *name, socklen_t room)
{
	if (result >= 0) {
		hide_sender(name, room);
		vb_nl_socket_resume(fd);
	}
	return result;
}

VB_PUBLIC ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	socklen_t room;

	if (!vb_nl_is_ours(fd))
		return REAL(recvmsg)(fd, message, flags);
	room = message->msg_namelen;
	return received(fd, REAL(recvmsg)(fd, message, flags), message->msg_name, room);
}

VB_PUBLIC ssize_t recvfrom(int fd, void *buffer, size_t size, int flags, __SOCKADDR_ARG from,
			   socklen_t *length)
{
	const socklen_t room = from.__sockaddr__ && length ? *length : 0;

	if (!vb_nl_is_ours(fd))
		return REAL(recvfrom)(fd, buffer, size, flags, from, length);
	return received(fd, REAL(recvfrom)(fd, buffer, size, flags, from, length),
			from.__sockaddr__, room);
}

VB_PUBLIC ssize_t __recvfrom_chk(int fd, void *buffer, size_t size, size_t room, int flags,
				 __SOCKADDR_ARG from, socklen_t *length)
{
	/* The function of the C library ends the program if there is too little room. */
	if (!vb_nl_is_ours(fd) || size > room)
		return REAL(__recvfrom_chk)(fd, buffer, size, room, flags, from, length);
	return recvfrom(fd, buffer, size, flags, from, length);
}

VB_PUBLIC ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
	if (!vb_nl_is_ours(fd))
		return REAL(recv)(fd, buffer, size, flags);
	return received(fd, REAL(recv)(fd, buffer, size, flags), NULL, 0);
}

VB_PUBLIC ssize_t __recv_chk(int fd, void *buffer, size_t size, size_t room, int flags)
{
	if (!vb_nl_is_ours(fd) || size > room)
		return REAL(__recv_chk)(fd, buffer, size, room, flags);
	return recv(fd, buffer, size, flags);
}
