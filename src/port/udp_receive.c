/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading a UDP socket. A message is a packet or, merged by the kernel (UDP_GRO), a burst of
 * packets from one source port. Each burst is handled before the next one is read: so it is still
 * in the cache when it is read a second time. Several lone packets are read with one call.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/message.h"
#include "port/impl.h"
#include "wire/packet.h"

enum {
	LONE_STREAK = 3,
	PAIR_BYTES = 512, /* two packets of a long message have more, whatever their MTU */
};

void vb_inbox_init(struct vb_inbox *inbox, uint8_t *buffers)
{
	for (unsigned i = 0; i < VB_RECEIVE_BATCH; i++) {
		struct vb_incoming *in = &inbox->incoming[i];

		in->iov = (struct iovec){ buffers + (size_t)i * VB_DATAGRAM_MAX, VB_DATAGRAM_MAX };
		inbox->messages[i].msg_hdr = (struct msghdr){
			.msg_name = &in->from,
			.msg_iov = &in->iov,
			.msg_iovlen = 1,
			.msg_control = in->control,
		};
	}
}

/* Sets the fields again that the last message has changed. */
static void reset_message(struct vb_inbox *inbox, unsigned i)
{
	inbox->messages[i].msg_hdr.msg_namelen = sizeof(inbox->incoming[i].from);
	inbox->messages[i].msg_hdr.msg_controllen = sizeof(inbox->incoming[i].control);
}

static int control_int(struct cmsghdr *control)
{
	int value = 0;

	if (control->cmsg_len >= CMSG_LEN(sizeof(value)))
		memcpy(&value, CMSG_DATA(control), sizeof(value));
	else if (control->cmsg_len == CMSG_LEN(1))
		value = *CMSG_DATA(control); /* IP_TOS is one byte */
	return value;
}

static void read_control(struct msghdr *head, struct vb_delivery *delivery)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c)) {
		int value = control_int(c);

		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO && value > 0)
			delivery->segment = (uint32_t)value;
		else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
			 (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS))
			delivery->traffic_class = (uint8_t)value;
		else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
			 (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT))
			delivery->hop_limit = (uint8_t)value;
	}
}

static struct vb_icrc_flow flow_from(const struct vb_endpoint *endpoint,
				     const union vb_sockaddr *from)
{
	struct vb_icrc_flow flow = { .ipv6 = endpoint->address.ipv6, .dst_port = VB_UDP_PORT_ROCE };

	memcpy(flow.dst, endpoint->address.bytes, sizeof(flow.dst));
	if (flow.ipv6) {
		memcpy(flow.src, &from->in6.sin6_addr, sizeof(from->in6.sin6_addr));
		flow.src_port = ntohs(from->in6.sin6_port);
	} else {
		memcpy(flow.src, &from->in.sin_addr, sizeof(from->in.sin_addr));
		flow.src_port = ntohs(from->in.sin_port);
	}
	return flow;
}

/* The message has the same source as the one before, whose flow is ready. */
static bool is_last_source(const struct vb_endpoint *endpoint, const union vb_sockaddr *from)
{
	const union vb_sockaddr *last = &endpoint->last_from;

	if (last->any.sa_family != from->any.sa_family)
		return false;
	if (endpoint->address.ipv6)
		return last->in6.sin6_port == from->in6.sin6_port &&
		       !memcmp(&last->in6.sin6_addr, &from->in6.sin6_addr, sizeof(struct in6_addr));
	return last->in.sin_port == from->in.sin_port &&
	       last->in.sin_addr.s_addr == from->in.sin_addr.s_addr;
}

static const struct vb_icrc_flow *flow_of(struct vb_port *port, struct vb_endpoint *endpoint,
					  const union vb_sockaddr *from)
{
	if (!is_last_source(endpoint, from)) {
		const struct vb_icrc_flow flow = flow_from(endpoint, from);

		endpoint->last_from = *from;
		endpoint->last_flow = *vb_port_flow(port, &flow);
	}
	return &endpoint->last_flow;
}

/* Such a packet was sent by this host: the kernel drops those that come from outside. */
static bool is_from_own_address(const struct vb_icrc_flow *flow)
{
	return !memcmp(flow->src, flow->dst, sizeof(flow->src));
}

static unsigned take_message(struct vb_port *port, struct vb_endpoint *endpoint, unsigned i)
{
	struct vb_incoming *in = &port->inbox.incoming[i];
	struct mmsghdr *message = &port->inbox.messages[i];
	struct vb_delivery delivery = {
		.flow = flow_of(port, endpoint, &in->from),
		.bytes = in->iov.iov_base,
		.length = message->msg_len,
		.segment = message->msg_len,
		.endpoint = endpoint,
		.scope = endpoint->address.ipv6 ? in->from.in6.sin6_scope_id : 0,
	};

	if (message->msg_hdr.msg_flags & MSG_TRUNC) {
		port->counters->oversized++;
		return 1;
	}
	if (!delivery.length)
		return 1;
	read_control(&message->msg_hdr, &delivery);
	if (is_from_own_address(delivery.flow) &&
	    vb_steer_input(port, endpoint, delivery.bytes, delivery.length))
		return 1;
	return vb_port_deliver(port, &delivery);
}

/* Returns the number of packets in the next message; 0: there is none. */
static unsigned receive_one(struct vb_port *port, struct vb_endpoint *endpoint)
{
	struct mmsghdr *message = port->inbox.messages;
	ssize_t length;

	reset_message(&port->inbox, 0);
	/* An error may be an ICMP report about a packet that we sent: it does not matter here. */
	length = vb_recvmsg(endpoint->fd, &message->msg_hdr, MSG_DONTWAIT);
	if (length < 0)
		return 0;
	message->msg_len = (uint32_t)length;
	return take_message(port, endpoint, 0);
}

/* Returns the number of messages. */
static unsigned receive_several(struct vb_port *port, struct vb_endpoint *endpoint,
				unsigned *packets)
{
	int count;

	for (unsigned i = 0; i < VB_RECEIVE_BATCH; i++)
		reset_message(&port->inbox, i);
	count = vb_recvmmsg(endpoint->fd, port->inbox.messages, VB_RECEIVE_BATCH, MSG_DONTWAIT);
	for (int i = 0; i < count; i++)
		*packets += take_message(port, endpoint, (unsigned)i);
	return count > 0 ? (unsigned)count : 0;
}

/* Message by message: each is in the cache when it is read a second time. */
static unsigned receive_bursts(struct vb_port *port, struct vb_endpoint *endpoint, unsigned most)
{
	unsigned packets = 0, count;

	while (packets < most && (count = receive_one(port, endpoint)))
		packets += count;
	return packets;
}

/* One burst was read: a small message, and the ACK that goes along with it. */
static bool is_pair(const struct vb_port *port, unsigned packets, unsigned messages)
{
	return messages == 1 && packets == 2 && port->inbox.messages[0].msg_len < PAIR_BYTES;
}

/*
 * A poller that waits for one packet, or for a pair, gets it with the first, cheap call. After
 * several in a row the larger call pays. Any other burst is one of many: the messages behind it are
 * read at once.
 */
unsigned vb_udp_receive(struct vb_port *port, struct vb_endpoint *endpoint, unsigned most)
{
	unsigned packets = 0, messages = 0, count;

	if (endpoint->lone_streak < LONE_STREAK) {
		packets = receive_one(port, endpoint);
		messages = packets != 0;
		endpoint->lone_streak = packets ? endpoint->lone_streak + 1 : 0;
	} else {
		do {
			count = receive_several(port, endpoint, &packets);
			messages += count;
		} while (count == VB_RECEIVE_BATCH && packets < most);
		endpoint->lone_streak = packets ? LONE_STREAK : 0;
	}
	if (packets <= messages || is_pair(port, packets, messages))
		return packets;
	endpoint->lone_streak = 0;
	return packets + receive_bursts(port, endpoint, packets < most ? most - packets : 0);
}
