/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/netlink.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/annotate.h"

/*
 * The kernel sends up to 32 KB of a dump at a time. An interface with many virtual functions needs
 * it.
 */
enum { ANSWER_SIZE = 32768 };

void vb_netlink_request(struct vb_netlink_request *request, int type, int flags, const void *body,
			size_t body_size)
{
	memset(request, 0, sizeof(*request));
	request->header.nlmsg_type = (uint16_t)type;
	request->header.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	request->header.nlmsg_len = (uint32_t)NLMSG_LENGTH(body_size);
	request->header.nlmsg_seq = 1;
	memcpy(request->body, body, body_size);
}

void vb_netlink_attr(struct vb_netlink_request *request, int type, const void *value, size_t size)
{
	size_t at = NLMSG_ALIGN(request->header.nlmsg_len);
	struct rtattr *attr = (struct rtattr *)((char *)request + at);

	if (at + RTA_SPACE(size) > sizeof(*request))
		abort(); /* requests have few small attributes: only a bug gets here */
	attr->rta_type = (unsigned short)type;
	attr->rta_len = (unsigned short)RTA_LENGTH(size);
	memcpy(RTA_DATA(attr), value, size);
	request->header.nlmsg_len = (uint32_t)(at + RTA_SPACE(size));
}

const struct rtattr *vb_netlink_attrs(const struct nlmsghdr *message, size_t body_size, int *left)
{
	*left = (int)message->nlmsg_len - (int)NLMSG_SPACE(body_size);
	return (const struct rtattr *)((const char *)message + NLMSG_SPACE(body_size));
}

static int open_socket(int protocol)
{
	const struct timeval patience = { .tv_sec = 2 };
	const int on = 1;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		return -errno;
	/*
	 * Strict: the kernel filters a dump by table. Older kernels do not, so our readers filter
	 * too.
	 */
	setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static int send_request(int fd, const struct vb_netlink_request *request)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	ssize_t sent;

	vb_tell_filled(request, request->header.nlmsg_len);
	do {
		sent = sendto(fd, request, request->header.nlmsg_len, 0,
			      (const struct sockaddr *)&kernel, sizeof(kernel));
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

/* The number of bytes received from the kernel, or -errno. */
static int receive_part(int fd, void *buffer)
{
	struct sockaddr_nl from = { 0 };
	struct iovec space = { .iov_base = buffer, .iov_len = ANSWER_SIZE };
	struct msghdr header = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &space, .msg_iovlen = 1
	};
	ssize_t size;

	do {
		size = recvmsg(fd, &header, 0);
	} while ((size < 0 && errno == EINTR) || (size >= 0 && from.nl_pid != 0));
	if (size < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	return header.msg_flags & MSG_TRUNC ? -EIO : (int)size;
}

/* The errno at the end of an answer: in an NLMSG_ERROR, or, of newer kernels, in an NLMSG_DONE. */
static int end_code(const struct nlmsghdr *message)
{
	int code = 0;

	if (message->nlmsg_len >= NLMSG_LENGTH(sizeof(code)))
		memcpy(&code, NLMSG_DATA(message), sizeof(code));
	else if (message->nlmsg_type == NLMSG_ERROR)
		return -EIO;
	return code > 0 ? -EIO : code;
}

/* 1: more parts follow; 0: the answer is complete; or -errno. */
static int read_part(struct nlmsghdr *message, int size, bool *changed, vb_netlink_each each,
		     void *argument)
{
	bool multi = false;

	for (; NLMSG_OK(message, (unsigned)size); message = NLMSG_NEXT(message, size)) {
		if (message->nlmsg_flags & NLM_F_DUMP_INTR)
			*changed = true;
		if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
			return end_code(message);
		multi = message->nlmsg_flags & NLM_F_MULTI;
		each(message, argument);
	}
	return multi;
}

static int read_answer(int fd, vb_netlink_each each, void *argument)
{
	void *buffer = malloc(ANSWER_SIZE); /* callers' threads may have small stacks */
	bool changed = false;
	int result = buffer ? 1 : -ENOMEM;

	while (result > 0) {
		result = receive_part(fd, buffer);
		if (result >= 0)
			result = read_part(buffer, result, &changed, each, argument);
	}
	free(buffer);
	return result == 0 && changed ? -EAGAIN : result;
}

static int ask_kernel(int protocol, const struct vb_netlink_request *request, vb_netlink_each each,
		      void *argument)
{
	int fd = open_socket(protocol);
	int result;

	if (fd < 0)
		return fd;
	result = send_request(fd, request);
	if (!result)
		result = read_answer(fd, each, argument);
	close(fd);
	return result;
}

int vb_netlink_ask(const struct vb_netlink_request *request, vb_netlink_each each, void *argument)
{
	return ask_kernel(NETLINK_ROUTE, request, each, argument);
}

int vb_netlink_ask_sockets(const struct vb_netlink_request *request, vb_netlink_each each,
			   void *argument)
{
	return ask_kernel(NETLINK_SOCK_DIAG, request, each, argument);
}
