/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP sockets. Each own address has one socket that receives on port 4791, and a few that send,
 * each with a source port of its own: routers spread flows by source ports. Sending sockets are
 * unconnected and forbid fragments, so the kernel numbers their packets 0, or 0, 1, 2 ... within
 * one segmented send (udp_send.c has an exception, for long datagrams of InfiniBand ports).
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <linux/filter.h>
#include <linux/sockios.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "nic/lane.h"
#include "port/impl.h"
#include "wire/packet.h"

enum { PORT_FIRST = 0xc000, PORT_COUNT = 0x4000, PORT_TRIES = 64, HOPS = 64 };
enum { STUCK_NS = 100000000 }; /* a full socket that sends nothing for so long is replaced */

static void set_option(int fd, int level, int name, int value)
{
	/* An old kernel may not know the option: the port works without it. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_buffer(int fd, int plain, int forced)
{
	int size = VB_SOCKET_BUFFER;

	if (setsockopt(fd, SOL_SOCKET, forced, &size, sizeof(size)))
		set_option(fd, SOL_SOCKET, plain, size);
}

socklen_t vb_sockaddr_fill(union vb_sockaddr *to, bool ipv6, const uint8_t *bytes, uint32_t scope,
			   uint16_t port)
{
	if (ipv6) {
		to->in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
						 .sin6_port = htons(port),
						 .sin6_scope_id = scope };
		memcpy(&to->in6.sin6_addr, bytes, sizeof(to->in6.sin6_addr));
		return sizeof(to->in6);
	}
	to->in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	memcpy(&to->in.sin_addr, bytes, sizeof(to->in.sin_addr));
	return sizeof(to->in);
}

static int open_udp(const struct vb_address *address)
{
	int fd = socket(address->ipv6 ? AF_INET6 : AF_INET,
			SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);

	if (fd < 0)
		return -errno;
	if (address->ipv6)
		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	return vb_fd_high(fd);
}

static int bind_udp(int fd, const struct vb_address *address, uint16_t port)
{
	union vb_sockaddr own;
	socklen_t size =
		vb_sockaddr_fill(&own, address->ipv6, address->bytes, address->scope, port);

	return bind(fd, &own.any, size) ? -errno : 0;
}

/* --- receiving --- */

static void prepare_receive(int fd, bool ipv6)
{
	set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	set_option(fd, SOL_UDP, UDP_GRO, 1);
	set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE);
	if (ipv6) {
		/* RoCE senders leave the UDP checksum out. The ICRC covers more. */
		set_option(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);
		set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
		set_option(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	} else {
		set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
		set_option(fd, IPPROTO_IP, IP_RECVTTL, 1);
	}
}

static int bind_endpoint(struct vb_port *port, struct vb_endpoint *endpoint, unsigned number)
{
	int fd, err;

	/* A lane without a socket gets its packets from the first lane. */
	if (port->lane != VB_LANE_FIRST && vb_steer_count_members(endpoint) >= VB_STEER_LANES)
		return 0;
	fd = open_udp(&endpoint->address);
	if (fd < 0)
		return fd;
	prepare_receive(fd, endpoint->address.ipv6);
	err = bind_udp(fd, &endpoint->address, VB_UDP_PORT_ROCE);
	if (!err)
		err = vb_port_watch_source(port, fd,
					   (uint64_t)number * (VB_SOURCE_MASK + 1) | VB_SOURCE_UDP);
	if (err) {
		vb_fd_close(&fd);
		return err;
	}
	endpoint->fd = fd;
	vb_steer_joined(port, endpoint);
	return 0;
}

bool vb_udp_bind_all(struct vb_port *port)
{
	bool all = true;

	for (unsigned i = 0; i < port->endpoint_count; i++)
		if (port->endpoints[i]->fd < 0 && bind_endpoint(port, port->endpoints[i], i))
			all = false;
	return all;
}

static struct vb_endpoint *find_endpoint(struct vb_port *port, const struct vb_address *address,
					 unsigned *number)
{
	for (unsigned i = 0; i < port->endpoint_count; i++) {
		const struct vb_address *have = &port->endpoints[i]->address;

		if (have->ipv6 != address->ipv6 || have->scope != address->scope ||
		    memcmp(have->bytes, address->bytes, sizeof(have->bytes)) != 0)
			continue;
		*number = i;
		return port->endpoints[i];
	}
	return NULL;
}

static void endpoint_init(struct vb_endpoint *endpoint, const struct vb_address *address,
			  unsigned life)
{
	*endpoint = (struct vb_endpoint){ .address = *address, .fd = -1, .life = life };
	for (int i = 0; i < VB_SENDERS; i++)
		endpoint->senders[i].fd = -1;
}

static bool address_is_gone(const struct vb_address *address)
{
	int fd = open_udp(address);
	bool gone = fd >= 0 && bind_udp(fd, address, 0) == -EADDRNOTAVAIL;

	vb_fd_close(&fd);
	return gone;
}

static void close_sockets(struct vb_endpoint *endpoint)
{
	vb_fd_close(&endpoint->fd);
	for (int i = 0; i < VB_SENDERS; i++)
		vb_fd_close(&endpoint->senders[i].fd);
}

/* The place of an address that has left the host; NULL: there is none. */
static struct vb_endpoint *take_former(struct vb_port *port, const struct vb_address *address,
				       unsigned *number)
{
	for (unsigned i = 0; i < port->endpoint_count; i++) {
		struct vb_endpoint *endpoint = port->endpoints[i];

		/* The packets of the hot one may be looked at right now. */
		if ((port->receiving && endpoint == port->hot) ||
		    !address_is_gone(&endpoint->address))
			continue;
		if (port->hot == endpoint)
			port->hot = NULL;
		close_sockets(endpoint);
		endpoint_init(endpoint, address, (endpoint->life + 1) % VB_LIVES);
		*number = i;
		return endpoint;
	}
	return NULL;
}

/* Bound, or not bound yet because another user holds the port; else NULL and *err. */
static struct vb_endpoint *new_endpoint(struct vb_port *port, const struct vb_address *address,
					unsigned *number, int *err)
{
	struct vb_endpoint *endpoint = malloc(sizeof(*endpoint));

	*err = -ENOMEM;
	if (!endpoint)
		return NULL;
	endpoint_init(endpoint, address, 0);
	*number = port->endpoint_count;
	*err = bind_endpoint(port, endpoint, *number);
	if (*err && *err != -EADDRINUSE) {
		free(endpoint);
		return NULL;
	}
	port->endpoints[port->endpoint_count++] = endpoint;
	return endpoint;
}

/* The same where all places are taken. The timer tries again what cannot be bound now. */
static struct vb_endpoint *next_life(struct vb_port *port, const struct vb_address *address,
				     unsigned *number, int *err)
{
	struct vb_endpoint *endpoint = NULL;

	*err = address_is_gone(address) ? -EADDRNOTAVAIL : -ENOMEM;
	if (*err == -ENOMEM)
		endpoint = take_former(port, address, number);
	if (endpoint)
		*err = bind_endpoint(port, endpoint, *number);
	return endpoint;
}

/* If another user holds the port of the address, the endpoint can still send. The holder forwards
 * packets to us. */
struct vb_endpoint *vb_udp_endpoint(struct vb_port *port, const struct vb_address *address,
				    unsigned *number, int *err)
{
	struct vb_endpoint *endpoint = find_endpoint(port, address, number);

	if (endpoint)
		return endpoint;
	endpoint = port->endpoint_count < VB_ENDPOINTS_MAX
			   ? new_endpoint(port, address, number, err)
			   : next_life(port, address, number, err);
	if (!endpoint)
		return NULL;
	if (*err) {
		if (port->lane == VB_LANE_FIRST)
			vb_port_explain_holder(endpoint);
		vb_port_rebind(port);
	}
	*err = 0;
	return endpoint;
}

/* --- sending --- */

/* No peer answers to a source port: the kernel drops packets that come there at once. */
static void drop_input(int fd)
{
	struct sock_filter drop = { BPF_RET | BPF_K, 0, 0, 0 };
	const struct sock_fprog program = { 1, &drop };

	(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static void prepare_send(int fd, const struct vb_address *address)
{
	set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE);
	if (address->ipv6) {
		set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
		set_option(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
		set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, HOPS);
		if (address->scope)
			set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)address->scope);
	} else {
		struct in_addr own;

		memcpy(&own, address->bytes, sizeof(own));
		set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
		set_option(fd, IPPROTO_IP, IP_MULTICAST_TTL, HOPS);
		(void)setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &own, sizeof(own));
	}
	drop_input(fd);
}

/* The wanted port, or another one of the range. */
static int bind_sender(int fd, const struct vb_address *address, uint32_t entropy, uint16_t *port)
{
	int err = -EADDRINUSE;

	for (int i = 0; i < PORT_TRIES && err == -EADDRINUSE; i++) {
		*port = (uint16_t)(PORT_FIRST + entropy % PORT_COUNT);
		err = bind_udp(fd, address, *port);
		entropy = (uint32_t)vb_random64();
	}
	return err;
}

static int successor_of(const struct vb_endpoint *endpoint, const struct vb_sender *sender)
{
	int fd = open_udp(&endpoint->address), err;

	if (fd < 0)
		return fd;
	prepare_send(fd, &endpoint->address);
	if (sender->group_ifindex)
		vb_group_prepare_sender(fd, endpoint->address.ipv6, sender->group_ifindex);
	/* For the moment in which two sockets have the port. */
	set_option(sender->fd, SOL_SOCKET, SO_REUSEPORT, 1);
	set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	err = bind_udp(fd, &endpoint->address, sender->port);
	if (err)
		vb_fd_close(&fd);
	return err ? err : fd;
}

void vb_udp_sender_full(struct vb_endpoint *endpoint, struct vb_sender *sender)
{
	const uint64_t now_ns = vb_now_ns();
	int bytes, fd;

	if (ioctl(sender->fd, SIOCOUTQ, &bytes))
		return;
	if (bytes != sender->full_bytes) {
		sender->full_bytes = bytes;
		sender->full_ns = now_ns;
	}
	if (now_ns - sender->full_ns < STUCK_NS)
		return;
	fd = successor_of(endpoint, sender);
	sender->full_ns = now_ns;
	if (fd < 0)
		return;
	vb_fd_close(&sender->fd);
	sender->fd = fd;
	sender->ignores_route = sender->cuts = false;
	sender->full_bytes = 0;
}

int vb_udp_sender(struct vb_endpoint *endpoint, uint32_t entropy)
{
	/* All bits take part: entropies of callers may differ in the upper bits only. */
	int index = (int)((entropy * 2654435761u >> 16) % VB_SENDERS), fd, err;
	struct vb_sender *sender = &endpoint->senders[index];

	if (sender->fd >= 0)
		return index;
	fd = open_udp(&endpoint->address);
	if (fd < 0)
		return fd;
	prepare_send(fd, &endpoint->address);
	err = bind_sender(fd, &endpoint->address, entropy, &sender->port);
	if (err) {
		vb_fd_close(&fd);
		return err;
	}
	sender->fd = fd;
	return index;
}
