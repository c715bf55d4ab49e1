/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast. On an Ethernet link a group is a UDP socket that is bound to the group's address and
 * has joined it on the interface (IGMP, MLD). The kernel gives a copy of each packet to every such
 * socket of the host, the sender's own included. Each process has one socket per group.
 *
 * Within the host (nic/group.h) a group is a set of abstract unix datagram sockets. Each member
 * binds the first free name of
 *
 *   @verbena.mc.<fabric>.<group>.0  .1  .2 ...
 *
 * and senders write to all names. The sender's own copy goes through memory.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/message.h"
#include "net/gid.h"
#include "port/impl.h"
#include "wire/packet.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

enum {
	HOLES = 8,        /* after so many free names in a row the rest is probably free, too */
	FULL_WAITS = 200, /* a sender waits so often for members with full queues ... */
	FULL_WAIT_NS = 100000, /* ... and so long each time */
	MESSAGES = 16,         /* per turn of one group */
};
#define LOOK_AGAIN_NS 10000000ull  /* interval of looks behind the holes */
#define STUCK_NS      200000000ull /* senders do not wait so long for a member that did not read */

struct vb_port_group {
	struct vb_list node; /* in port->groups.joined */
	struct vb_group group;
	unsigned refs; /* memberships */
	int number;    /* of the name; -1: UDP */
	/* The socket (fd is -1 until it can be opened again), and the group's address. */
	struct vb_endpoint endpoint;
};

/* --- names within the host --- */

static socklen_t name_member(struct sockaddr_un *address, uint16_t fabric, const union ibv_gid *gid,
			     unsigned number)
{
	char *text = address->sun_path + 1;
	size_t size = sizeof(address->sun_path) - 1, used;

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	used = (size_t)snprintf(text, size, "verbena.mc.%x.", fabric);
	for (int i = 0; i < 16; i++)
		used += (size_t)snprintf(text + used, size - used, "%02x", gid->raw[i]);
	used += (size_t)snprintf(text + used, size - used, ".%u", number);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + used);
}

static int open_unix(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : vb_fd_high(fd);
}

static int bind_name(struct vb_port_group *joined)
{
	int fd = open_unix();

	for (unsigned i = 0; fd >= 0 && i < VB_GROUP_MEMBERS; i++) {
		struct sockaddr_un address;
		socklen_t size = name_member(&address, joined->group.fabric, &joined->group.gid, i);

		if (!bind(fd, (void *)&address, size)) {
			joined->number = (int)i;
			return fd;
		}
		if (errno != EADDRINUSE)
			break;
	}
	if (fd >= 0) {
		vb_fd_close(&fd);
		return errno == EADDRINUSE ? -ENOMEM : -errno;
	}
	return fd;
}

/* --- sockets on a link --- */

static void set_option(int fd, int level, int name, int value)
{
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

static void prepare_udp(int fd, const struct vb_group *group, bool ipv6)
{
	int size = VB_SOCKET_BUFFER;

	/* Processes of several users may be members. */
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	set_option(fd, SOL_UDP, UDP_GRO, 1);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		set_option(fd, SOL_SOCKET, SO_RCVBUF, size);
	if (ipv6) {
		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
		set_option(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);
		set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
		set_option(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
		set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
		/* Unlike in IPv4, a membership counts on all interfaces. */
		set_option(fd, SOL_SOCKET, SO_BINDTOIFINDEX, group->ifindex);
	} else {
		set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
		set_option(fd, IPPROTO_IP, IP_RECVTTL, 1);
		set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	}
}

static int join_udp(int fd, const struct vb_address *address, int ifindex)
{
	struct ip_mreqn ipv4 = { .imr_ifindex = ifindex };
	struct ipv6_mreq ipv6 = { .ipv6mr_interface = (unsigned)ifindex };
	int failed;

	memcpy(&ipv4.imr_multiaddr, address->bytes, sizeof(ipv4.imr_multiaddr));
	memcpy(&ipv6.ipv6mr_multiaddr, address->bytes, sizeof(ipv6.ipv6mr_multiaddr));
	if (address->ipv6)
		failed = setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &ipv6, sizeof(ipv6));
	else
		failed = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &ipv4, sizeof(ipv4));
	return failed ? -errno : 0;
}

static int bind_udp(struct vb_port_group *joined)
{
	const struct vb_address *address = &joined->endpoint.address;
	union vb_sockaddr to;
	socklen_t size = vb_sockaddr_fill(&to, address->ipv6, address->bytes,
					  (uint32_t)joined->group.ifindex, VB_UDP_PORT_ROCE);
	int fd = socket(address->ipv6 ? AF_INET6 : AF_INET,
			SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
	int err;

	if (fd < 0)
		return -errno;
	fd = vb_fd_high(fd);
	prepare_udp(fd, &joined->group, address->ipv6);
	err = bind(fd, &to.any, size) ? -errno : join_udp(fd, address, joined->group.ifindex);
	if (err)
		vb_fd_close(&fd);
	return err ? err : fd;
}

/* --- joining and leaving --- */

static struct vb_port_group *find_group(struct vb_port *port, const union ibv_gid *gid,
					uint16_t fabric)
{
	vb_list_for(joined, &port->groups.joined, struct vb_port_group, node)
		if (joined->group.fabric == fabric && vb_gid_equal(&joined->group.gid, gid))
			return joined;
	return NULL;
}

static struct vb_address address_of(const union ibv_gid *gid)
{
	struct vb_address address = { .ipv6 = !vb_gid_is_ipv4(gid) };

	memcpy(address.bytes, gid->raw + (address.ipv6 ? 0 : 12), address.ipv6 ? 16 : 4);
	return address;
}

static int open_group(struct vb_port *port, struct vb_port_group *joined)
{
	int fd, err = joined->group.within_host ? vb_memory_open(port) : 0;

	if (err)
		return err;
	if (!joined->group.within_host && !joined->group.ifindex)
		return -ENODEV; /* the kernel would choose another interface */
	joined->endpoint.address = address_of(&joined->group.gid);
	joined->endpoint.fabric = joined->group.fabric;
	joined->number = -1;
	joined->endpoint.fd = -1;
	fd = joined->group.within_host ? bind_name(joined) : bind_udp(joined);
	if (fd < 0)
		return fd;
	err = vb_port_watch_source(port, fd, (uintptr_t)joined | VB_SOURCE_GROUP);
	if (err)
		vb_fd_close(&fd);
	joined->endpoint.fd = fd;
	return err;
}

int vb_port_group_join(struct vb_port *port, const struct vb_group *group)
{
	struct vb_port_group *joined = find_group(port, &group->gid, group->fabric);
	int err;

	if (joined && joined->endpoint.fd < 0) {
		err = open_group(port, joined);
		if (err)
			return err;
	}
	if (!joined) {
		joined = calloc(1, sizeof(*joined));
		if (!joined)
			return -ENOMEM;
		joined->group = *group;
		err = open_group(port, joined);
		if (err) {
			free(joined);
			return err;
		}
		vb_list_append(&port->groups.joined, &joined->node);
	}
	joined->refs++;
	return 0;
}

static void close_group(struct vb_port *port, struct vb_port_group *joined)
{
	if (joined->endpoint.fd >= 0)
		epoll_ctl(port->inner, EPOLL_CTL_DEL, joined->endpoint.fd, NULL);
	vb_fd_close(&joined->endpoint.fd);
}

static void forget_group(struct vb_port *port, struct vb_port_group *joined)
{
	close_group(port, joined);
	vb_list_remove(&joined->node);
	free(joined);
}

void vb_port_group_leave(struct vb_port *port, const struct vb_group *group)
{
	struct vb_port_group *joined = find_group(port, &group->gid, group->fabric);

	if (joined && !--joined->refs)
		forget_group(port, joined);
}

/* The process may have joined `to` already. */
void vb_port_group_move(struct vb_port *port, const struct vb_group *from,
			const struct vb_group *to)
{
	struct vb_port_group *joined = find_group(port, &from->gid, from->fabric);
	struct vb_port_group *there = find_group(port, &to->gid, to->fabric);

	if (joined && there) {
		there->refs += joined->refs;
		forget_group(port, joined);
	} else if (joined) {
		close_group(port, joined);
		joined->group = *to;
	}
}

void vb_port_groups_again(struct vb_port *port)
{
	vb_list_for(joined, &port->groups.joined, struct vb_port_group, node) {
		if (joined->endpoint.fd < 0)
			open_group(port, joined);
	}
}

void vb_groups_init(struct vb_groups *groups)
{
	vb_list_init(&groups->joined);
	groups->out = -1;
}

void vb_groups_close(struct vb_groups *groups)
{
	vb_list_for(joined, &groups->joined, struct vb_port_group, node)
		vb_fd_close(&joined->endpoint.fd);
	vb_fd_close(&groups->out);
}

/* --- out --- */

/* The fabric takes the place of the source port, which has no meaning here. */
static void flow_within_host(const struct vb_av *av, struct vb_way *way)
{
	const union ibv_gid group = av->dlid ? av->dgid : vb_group_gid(&av->dgid);
	const struct vb_address src = address_of(&av->sgid), dst = address_of(&group);

	way->flow.ipv6 = src.ipv6 || dst.ipv6;
	memcpy(way->flow.src, way->flow.ipv6 ? av->sgid.raw : src.bytes, sizeof(way->flow.src));
	memcpy(way->flow.dst, way->flow.ipv6 ? group.raw : dst.bytes, sizeof(way->flow.dst));
	way->flow.src_port = av->fabric;
}

static int open_out(void)
{
	int fd = open_unix();

	if (fd >= 0)
		vb_slot_socket_tune(fd);
	return fd;
}

int vb_group_resolve(struct vb_port *port, const struct vb_av *av, struct vb_way *way)
{
	flow_within_host(av, way);
	if (port->groups.out < 0)
		port->groups.out = open_out();
	return port->groups.out < 0 ? port->groups.out : vb_memory_open(port);
}

void vb_group_prepare_sender(int fd, bool ipv6, int ifindex)
{
	const struct ip_mreqn ipv4 = { .imr_ifindex = ifindex };

	if (ipv6)
		set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, ifindex);
	else
		(void)setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &ipv4, sizeof(ipv4));
}

static bool write_member(const struct vb_port *port, const struct sockaddr_un *address,
			 socklen_t size, const struct vb_burst *burst)
{
	const struct vb_way *way = burst->way;
	struct vb_slot_message message = vb_slot_message_of(&way->flow);
	struct iovec iov[2] = { { &message, sizeof(message) },
				{ (void *)burst->bytes, burst->length } };
	const struct msghdr head = {
		.msg_name = (void *)address, .msg_namelen = size, .msg_iov = iov, .msg_iovlen = 2
	};

	message.length = burst->length;
	message.segment = burst->segment;
	message.traffic_class = way->traffic_class;
	message.hop_limit = way->hop_limit;
	return vb_sendmsg(port->groups.out, &head, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* Messages that members did not read fill our send buffer. A new socket has room for the others. */
static void exchange_out(struct vb_groups *groups)
{
	int fd = vb_fd_send_room_is_used(groups->out) ? open_out() : -1;

	if (fd < 0)
		return;
	vb_fd_close(&groups->out);
	groups->out = fd;
}

static bool give_up_member(struct vb_port *port, const struct sockaddr_un *address, socklen_t size,
			   const struct vb_burst *burst, uint64_t *stuck_ns)
{
	exchange_out(&port->groups);
	if (write_member(port, address, size, burst))
		return true;
	*stuck_ns = vb_now_ns() + STUCK_NS;
	port->counters->send_errors += vb_packets_of(burst->length, burst->segment);
	return true; /* a member has the name */
}

/*
 * Returns false if no member has the name. No event tells of room in a member's queue, so the
 * sender sleeps; but not each time for a member that never has any. *waits are left for all
 * members.
 */
static bool write_patiently(struct vb_port *port, unsigned number, const union ibv_gid *gid,
			    const struct vb_burst *burst, int *waits)
{
	uint64_t *stuck_ns = &port->groups.stuck_ns[number];
	const bool stuck = vb_now_ns() < *stuck_ns;
	struct sockaddr_un address;
	const socklen_t size = name_member(&address, burst->way->flow.src_port, gid, number);

	while (!write_member(port, &address, size, burst)) {
		if (errno != EAGAIN && errno != ENOBUFS)
			return errno != ECONNREFUSED;
		if (stuck || !*waits)
			return give_up_member(port, &address, size, burst, stuck_ns);
		--*waits;
		vb_sleep_ns(FULL_WAIT_NS);
	}
	return true;
}

/* True: look at all names. A member may be behind a gap that former members left. */
static bool is_time_to_look(struct vb_groups *groups, const union ibv_gid *gid)
{
	uint64_t *look_ns = &groups->look_ns[gid->raw[15] % VB_GROUP_LOOKS], now_ns = vb_now_ns();

	if (now_ns < *look_ns)
		return false;
	*look_ns = now_ns + LOOK_AGAIN_NS;
	return true;
}

void vb_group_send(struct vb_port *port, const struct vb_burst *burst)
{
	const struct vb_icrc_flow *flow = &burst->way->flow;
	const union ibv_gid gid = vb_flow_gid(flow, flow->dst);
	const struct vb_port_group *own = find_group(port, &gid, flow->src_port);
	const bool all = is_time_to_look(&port->groups, &gid);
	int waits = FULL_WAITS;

	for (unsigned i = 0, holes = 0; i < VB_GROUP_MEMBERS && (all || holes < HOLES); i++)
		if (!own || own->number != (int)i)
			holes = write_patiently(port, i, &gid, burst, &waits) ? 0 : holes + 1;
	if (own)
		vb_memory_send(port, burst);
	else
		port->counters->packets_out += vb_packets_of(burst->length, burst->segment);
}

/* --- in --- */

uint16_t vb_group_fabric(const struct vb_icrc_flow *flow)
{
	const union ibv_gid gid = vb_flow_gid(flow, flow->dst);

	return vb_gid_is_multicast(&gid) ? flow->src_port : VB_FABRIC_NONE;
}

/* The message must name the group of the socket, and a sender of this host. */
static unsigned take_message(struct vb_port *port, struct vb_port_group *joined,
			     const struct vb_slot_message *message)
{
	const struct vb_icrc_flow flow = vb_slot_flow_of(message);
	const union ibv_gid gid = vb_flow_gid(&flow, flow.dst), src = vb_flow_gid(&flow, flow.src);
	const struct vb_delivery delivery = {
		.flow = vb_port_flow(port, &flow),
		.bytes = port->buffers,
		.length = message->length,
		.segment = message->segment,
		.traffic_class = message->traffic_class,
		.hop_limit = message->hop_limit,
		.fabric = joined->group.fabric,
	};

	if (message->forwarded || !vb_gid_equal(&gid, &joined->group.gid) ||
	    !vb_gid_is_own_port(&src)) {
		port->counters->slot_refused++;
		return 1;
	}
	return vb_port_deliver(port, &delivery);
}

static unsigned receive_unix(struct vb_port *port, struct vb_port_group *joined, unsigned most)
{
	unsigned total = 0;

	for (int i = 0; i < MESSAGES && total < most; i++) {
		struct vb_slot_message message;
		struct iovec iov[2] = { { &message, sizeof(message) },
					{ port->buffers, VB_DATAGRAM_MAX } };
		struct msghdr head = { .msg_iov = iov, .msg_iovlen = 2 };
		ssize_t size = vb_recvmsg(joined->endpoint.fd, &head, MSG_DONTWAIT);

		if (size < 0)
			break;
		if (head.msg_flags & MSG_TRUNC || !vb_slot_is_well_formed(&message, (size_t)size)) {
			port->counters->slot_refused++;
			total++;
			continue;
		}
		total += take_message(port, joined, &message);
	}
	return total;
}

unsigned vb_group_receive(struct vb_port *port, struct vb_port_group *joined, unsigned most)
{
	return joined->number < 0 ? vb_udp_receive(port, &joined->endpoint, most)
				  : receive_unix(port, joined, most);
}
