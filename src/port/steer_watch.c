/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members that leave. The kernel moves the last member of the group to the free position, where no
 * program looks for it. Other members that get its packets forward them and ask for positions; but
 * a stopped process does neither. So the moved member acts itself: the kernel reports each UDP
 * socket that is closed to listeners.
 */
#include <errno.h>
#include <stddef.h>
#include <linux/filter.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>

#include "base/fd.h"
#include "base/message.h"
#include "port/impl.h"
#include "wire/packet.h"

#define GROUP(number) (1u << (number) >> 1)

enum { SPORT = NLMSG_HDRLEN + offsetof(struct inet_diag_msg, id.idiag_sport), NOTE_MAX = 256 };

/* Lets through only reports of sockets at port 4791. */
static int filter_notes(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, SPORT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VB_UDP_PORT_ROCE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/* On a kernel without these reports the members that get the packets act alone. */
void vb_steer_watch(struct vb_port *port)
{
	const struct sockaddr_nl groups = { .nl_family = AF_NETLINK,
					    .nl_groups = GROUP(SKNLGRP_INET_UDP_DESTROY) |
							 GROUP(SKNLGRP_INET6_UDP_DESTROY) };
	int fd;

	if (port->leavers >= 0)
		return;
	fd = vb_fd_high(
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
	if (fd >= 0 &&
	    (filter_notes(fd) || bind(fd, (const struct sockaddr *)&groups, sizeof(groups)) ||
	     vb_port_watch_source(port, fd, VB_SOURCE_LEAVERS)))
		vb_fd_close(&fd);
	port->leavers = fd;
}

/* A process that is finding its position right now may have asked too early, and asks again. */
static bool may_have_moved(const struct vb_endpoint *endpoint)
{
	const struct vb_steer *steer = &endpoint->steer;
	const bool known = steer->entry_count > 0;
	uint32_t members;

	if (known && !steer->own_position)
		return false;
	members = vb_steer_count_members(endpoint);
	return members && (!known || steer->own_position >= members);
}

void vb_steer_left(struct vb_port *port)
{
	char note[NOTE_MAX];

	/* ENOBUFS: reports were lost. One report has the same effect as many. */
	while (vb_recv(port->leavers, note, sizeof(note), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
		;
	for (unsigned i = 0; i < port->endpoint_count; i++) {
		struct vb_endpoint *endpoint = port->endpoints[i];

		if (endpoint->fd >= 0 && may_have_moved(endpoint))
			vb_steer_moved(port, endpoint);
	}
}
