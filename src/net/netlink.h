/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Questions to the kernel, about routes and about sockets. Each question has a netlink socket of
 * its own: threads share nothing, and a fork breaks nothing.
 */
#ifndef VB_NET_NETLINK_H
#define VB_NET_NETLINK_H

#include <stddef.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

/* A question while it is put together: header, body of the family, attributes. */
struct vb_netlink_request {
	struct nlmsghdr header;
	char body[128];
};

void vb_netlink_request(struct vb_netlink_request *request, int type, int flags, const void *body,
			size_t body_size);
void vb_netlink_attr(struct vb_netlink_request *request, int type, const void *value, size_t size);

/* Called for each message of the answer. */
typedef void (*vb_netlink_each)(const struct nlmsghdr *message, void *argument);

/*
 * 0 or the kernel's -errno. -EAGAIN: the tables changed during a dump, ask again. -EIO: the answer
 * makes no sense. -ETIMEDOUT: no answer came.
 */
int vb_netlink_ask(const struct vb_netlink_request *request, vb_netlink_each each, void *argument);
/* A question about sockets (sock_diag). */
int vb_netlink_ask_sockets(const struct vb_netlink_request *request, vb_netlink_each each,
			   void *argument);

/* The first attribute behind a body of body_size bytes: for (attr = first; RTA_OK; RTA_NEXT). */
const struct rtattr *vb_netlink_attrs(const struct nlmsghdr *message, size_t body_size, int *left);

#endif
