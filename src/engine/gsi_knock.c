/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A MAD that leaves through a socket of its own, which hears whether the other host has anybody at
 * the port at all: a host that has not says so (ICMP port unreachable). The sockets of the port
 * must not hear it: there an error would hit the next packet, whosever that is.
 */
#include "base/fd.h"
#include "engine/gsi.h"
#include "nic/gid.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PACKET_MAX = VB_HEADERS_MAX + VB_MAD_SIZE + 4 };

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static socklen_t fill(union address *address, const union ibv_gid *gid, uint32_t scope,
		      uint16_t port)
{
	memset(address, 0, sizeof(*address));
	if (vb_gid_is_ipv4(gid)) {
		address->in.sin_family = AF_INET;
		address->in.sin_port = htons(port);
		memcpy(&address->in.sin_addr, gid->raw + 12, sizeof(address->in.sin_addr));
		return sizeof(address->in);
	}
	address->in6.sin6_family = AF_INET6;
	address->in6.sin6_port = htons(port);
	address->in6.sin6_scope_id = vb_gid_is_link_local(gid) ? scope : 0;
	memcpy(&address->in6.sin6_addr, gid->raw, sizeof(address->in6.sin6_addr));
	return sizeof(address->in6);
}

/* Not connected, and without fragments: so the ICRC is right (path/roce/udp_socket.c). */
static void prepare(int fd, bool ipv4)
{
	const int on = 1, whole = ipv4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;

	if (ipv4) {
		(void)setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
		(void)setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole));
	} else {
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on));
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &whole, sizeof(whole));
	}
}

/* The source port of a fresh socket at an own address, or -errno. */
static int bind_own(int fd, const struct vb_gsi_datagram *datagram)
{
	union address own;
	socklen_t size = fill(&own, &datagram->src, datagram->scope, 0);

	if (bind(fd, &own.any, size) || getsockname(fd, &own.any, &size))
		return -errno;
	return ntohs(own.any.sa_family == AF_INET ? own.in.sin_port : own.in6.sin6_port);
}

static struct vb_icrc_flow flow_of(const struct vb_gsi_datagram *datagram, uint16_t port)
{
	const bool ipv4 = vb_gid_is_ipv4(&datagram->dst);
	struct vb_icrc_flow flow = { .ipv6 = !ipv4,
				     .src_port = port,
				     .dst_port = VB_UDP_PORT_ROCE };

	memcpy(flow.src, datagram->src.raw + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
	memcpy(flow.dst, datagram->dst.raw + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
	vb_icrc_flow_init(&flow);
	return flow;
}

static size_t make_packet(const struct vb_gsi_datagram *datagram, uint16_t port,
			  uint8_t bytes[PACKET_MAX])
{
	const struct vb_icrc_flow flow = flow_of(datagram, port);
	const struct vb_packet packet = {
		.opcode = VB_OP_SEND_ONLY | VB_TRANSPORT_UD,
		.migreq = true,
		.pkey = 0xffff,
		.dest_qpn = VB_GSI_QPN,
		.qkey = VB_GSI_QKEY,
		.src_qpn = VB_GSI_QPN,
		.payload_length = VB_MAD_SIZE,
	};
	const size_t headers = vb_packet_emit(&packet, bytes);

	memcpy(bytes + headers, datagram->mad, VB_MAD_SIZE);
	vb_icrc_put(&flow, 0, bytes, headers + VB_MAD_SIZE);
	return vb_packet_length(&packet);
}

static int knock(int fd, const struct vb_gsi_datagram *datagram)
{
	uint8_t bytes[PACKET_MAX];
	union address to;
	const socklen_t size = fill(&to, &datagram->dst, datagram->scope, VB_UDP_PORT_ROCE);
	int port;

	prepare(fd, vb_gid_is_ipv4(&datagram->dst));
	port = bind_own(fd, datagram);
	if (port < 0)
		return port;
	if (sendto(fd, bytes, make_packet(datagram, (uint16_t)port, bytes), 0, &to.any, size) < 0)
		return -errno;
	return 0;
}

int vb_gsi_knock(const struct vb_gsi_datagram *datagram)
{
	const int family = vb_gid_is_ipv4(&datagram->dst) ? AF_INET : AF_INET6;
	int fd = vb_fd_high(socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int err = fd < 0 ? -errno : knock(fd, datagram);

	if (err)
		vb_fd_close(&fd);
	return err ? err : fd;
}

bool vb_gsi_refused(int fd)
{
	char byte;
	const bool refused =
		recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) < 0 && errno == ECONNREFUSED;

	close(fd);
	return refused;
}
