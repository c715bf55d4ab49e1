/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A MAD that leaves through a socket of its own. A host without a process at the UDP port answers
 * by ICMP "port unreachable", and this socket receives the report. The port's own sockets must not:
 * an error there would hit the next packet, of any QP.
 *
 * Anybody can send such a message. It counts only if the host itself sent it, and if it quotes the
 * MAD up to its transaction, which is random: only a host that got the packet can quote it. Linux
 * quotes as much as fits into 576 bytes (IPv6: 1280). A message that quotes less proves nothing.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/errqueue.h>
#include <linux/icmpv6.h>

#include "base/fd.h"
#include "base/message.h"
#include "gsi/gsi.h"
#include "net/gid.h"
#include "nic/pkey.h"
#include "wire/bytes.h"
#include "wire/icrc.h"
#include "wire/packet.h"

enum {
	PACKET_MAX = VB_HEADERS_MAX + VB_MAD_SIZE + 4,
	AT_TRANSACTION = VB_BTH_LENGTH + VB_DETH_LENGTH + 8, /* offset in a quoted packet */
	REPORTS_MAX = 1024, /* read at most: a flood may have no end */
};

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static socklen_t fill_address(union address *address, const union ibv_gid *gid, uint32_t scope,
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

/* The socket is unconnected and forbids fragments: so the ICRC is right (port/udp_socket.c). */
static void prepare_socket(int fd, bool ipv4)
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

/* Binds the socket to the own address. Its source port, or -errno. */
static int bind_own(int fd, const struct vb_gsi_datagram *datagram)
{
	union address own;
	socklen_t size = fill_address(&own, &datagram->src, datagram->scope, 0);

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
		.pkey = vb_pkey_at(0),
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

static int send_knock(int fd, const struct vb_gsi_datagram *datagram)
{
	uint8_t bytes[PACKET_MAX];
	union address to;
	const socklen_t size = fill_address(&to, &datagram->dst, datagram->scope, VB_UDP_PORT_ROCE);
	size_t length;
	int port;

	prepare_socket(fd, vb_gid_is_ipv4(&datagram->dst));
	port = bind_own(fd, datagram);
	if (port < 0)
		return port;
	length = make_packet(datagram, (uint16_t)port, bytes);
	/* The first call may return an error of an ICMP message that came before it. */
	if (vb_sendto(fd, bytes, length, 0, &to.any, size) < 0 &&
	    vb_sendto(fd, bytes, length, 0, &to.any, size) < 0)
		return -errno;
	return 0;
}

int vb_gsi_knock(const struct vb_gsi_datagram *datagram)
{
	const int family = vb_gid_is_ipv4(&datagram->dst) ? AF_INET : AF_INET6;
	int fd = vb_fd_high(socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int err = fd < 0 ? -errno : send_knock(fd, datagram);

	if (err)
		vb_fd_close(&fd);
	return err ? err : fd;
}

/* --- reports --- */

/* One message of the error queue: the packet's destination, the quoted bytes, and the reporter. */
struct report {
	union address to;
	uint8_t quoted[PACKET_MAX];
	size_t length;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct sock_extended_err) +
							 sizeof(union address))];
	struct msghdr head;
};

static bool is_host(const union address *address, const union ibv_gid *host)
{
	union ibv_gid gid = { 0 };

	if (address->any.sa_family == AF_INET)
		gid = vb_gid_ipv4(&address->in.sin_addr);
	else if (address->any.sa_family == AF_INET6)
		memcpy(gid.raw, &address->in6.sin6_addr, sizeof(gid.raw));
	return vb_gid_equal(&gid, host);
}

static bool is_port_unreachable(const struct sock_extended_err *error)
{
	if (error->ee_origin == SO_EE_ORIGIN_ICMP)
		return error->ee_type == ICMP_DEST_UNREACH && error->ee_code == ICMP_PORT_UNREACH;
	return error->ee_origin == SO_EE_ORIGIN_ICMP6 && error->ee_type == ICMPV6_DEST_UNREACH &&
	       error->ee_code == ICMPV6_PORT_UNREACH;
}

/* The kernel puts the address of the reporter behind the error. */
static bool is_said_by(const struct cmsghdr *control, const union ibv_gid *host)
{
	const size_t length = control->cmsg_len - CMSG_LEN(0);
	struct sock_extended_err error;
	union address reporter = { 0 };

	if (!(control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_RECVERR) &&
	    !(control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_RECVERR))
		return false;
	if (length < sizeof(error) + sizeof(reporter.in))
		return false;
	memcpy(&error, CMSG_DATA(control), sizeof(error));
	memcpy(&reporter, CMSG_DATA(control) + sizeof(error),
	       length - sizeof(error) < sizeof(reporter) ? length - sizeof(error)
							 : sizeof(reporter));
	return is_port_unreachable(&error) && is_host(&reporter, host);
}

static bool is_refusal(struct report *report, const union ibv_gid *host, uint64_t transaction_id)
{
	if (!is_host(&report->to, host) ||
	    report->length < AT_TRANSACTION + sizeof(transaction_id) ||
	    vb_get64(report->quoted + AT_TRANSACTION) != transaction_id)
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&report->head); c; c = CMSG_NXTHDR(&report->head, c))
		if (is_said_by(c, host))
			return true;
	return false;
}

static bool next_report(int fd, struct report *report)
{
	struct iovec iov = { report->quoted, sizeof(report->quoted) };
	ssize_t length;

	memset(&report->to, 0, sizeof(report->to));
	report->head = (struct msghdr){
		.msg_name = &report->to,
		.msg_namelen = sizeof(report->to),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = report->control,
		.msg_controllen = sizeof(report->control),
	};
	length = vb_recvmsg(fd, &report->head, MSG_ERRQUEUE | MSG_DONTWAIT);
	report->length = length < 0 ? 0 : (size_t)length;
	return length >= 0;
}

bool vb_gsi_refused(int fd, const union ibv_gid *host, uint64_t transaction_id)
{
	struct report report;
	bool refused = false;

	for (int i = 0; i < REPORTS_MAX && !refused && next_report(fd, &report); i++)
		refused = is_refusal(&report, host, transaction_id);
	vb_close(fd);
	return refused;
}
