/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Under VERBENA_EXPLAIN: why does a host not answer? A datagram beside the traffic brings back what
 * the network reports of it (ICMP). The port's own sockets must not: an error there would hit the
 * next packet, of any QP. Anybody can forge such a report. It is told, and decides nothing.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "net/gid.h"
#include "port/impl.h"
#include "wire/packet.h"

enum { LASTS_NS = 1000000000 }; /* then an answer is about another silence */

static bool send_knock(int fd, const struct vb_way *way)
{
	const struct vb_icrc_flow *flow = &way->flow;
	union vb_sockaddr address;
	socklen_t size = vb_sockaddr_fill(&address, flow->ipv6, flow->src, way->scope, 0);
	const int on = 1;

	(void)(flow->ipv6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on))
			  : setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)));
	if (bind(fd, &address.any, size))
		return false;
	size = vb_sockaddr_fill(&address, flow->ipv6, flow->dst, way->scope, VB_UDP_PORT_ROCE);
	/* One byte is no packet to any RoCE device. */
	return !connect(fd, &address.any, size) && send(fd, "", 1, MSG_DONTWAIT) == 1;
}

/* The socket tells of an error once. */
static void error_take(struct vb_port *port)
{
	int err = 0;
	socklen_t size = sizeof(err);

	if (!getsockopt(port->knock, SOL_SOCKET, SO_ERROR, &err, &size) && err)
		port->knock_error = err;
}

void vb_port_knock(struct vb_port *port, const struct vb_way *way)
{
	const union ibv_gid host = vb_flow_gid(&way->flow, way->flow.dst);
	int fd;

	if (way->kind != VB_WAY_UDP || way->local)
		return;
	if (port->knock >= 0 && vb_gid_equal(&host, &port->knocked) &&
	    vb_now_ns() - port->knocked_ns < LASTS_NS) {
		error_take(port);
		(void)send(port->knock, "", 1, MSG_DONTWAIT);
		return;
	}
	fd = vb_fd_high(socket(way->flow.ipv6 ? AF_INET6 : AF_INET,
			       SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd >= 0 && !send_knock(fd, way))
		vb_fd_close(&fd);
	vb_fd_close(&port->knock);
	port->knock = fd;
	port->knocked = host;
	port->knocked_ns = vb_now_ns();
	port->knock_error = 0;
}

int vb_port_knock_error(struct vb_port *port, const struct vb_way *way)
{
	const union ibv_gid host = vb_flow_gid(&way->flow, way->flow.dst);

	if (port->knock < 0 || !vb_gid_equal(&host, &port->knocked))
		return 0;
	error_take(port);
	return port->knock_error;
}
