/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What waits on a UDP socket: messages, each a packet or, merged by the kernel (UDP_GRO), a burst
 * of them from one source port. A burst is dealt with before the next one is read, so that it
 * still lies in the cache when it is looked at a second time; small messages are read several per
 * call.
 */
#include "base/message.h"
#include "port/impl.h"
#include "wire/packet.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

enum { BURST_BYTES_MIN = 8192, SMALL_STREAK = 3 };

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

/* What the last message has changed. */
static void make_ready(struct vb_inbox *inbox, unsigned i)
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

/* What comes from there has had its flow set up before. */
static bool is_last(const struct vb_endpoint *endpoint, const union vb_sockaddr *from)
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
	if (!is_last(endpoint, from)) {
		const struct vb_icrc_flow flow = flow_from(endpoint, from);

		endpoint->last_from = *from;
		endpoint->last_flow = *vb_port_flow(port, &flow);
	}
	return &endpoint->last_flow;
}

/* Only this host sends with an address of this host: the kernel drops it from outside. */
static bool is_own(const struct vb_icrc_flow *flow)
{
	return !memcmp(flow->src, flow->dst, sizeof(flow->src));
}

static unsigned take(struct vb_port *port, struct vb_endpoint *endpoint, unsigned i)
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
	if (is_own(delivery.flow) &&
	    vb_steer_input(port, endpoint, delivery.bytes, delivery.length))
		return 1;
	return vb_port_deliver(port, &delivery);
}

/* Returns the bytes of the message, 0: none is there. */
static uint32_t receive_one(struct vb_port *port, struct vb_endpoint *endpoint, unsigned *packets)
{
	struct mmsghdr *message = port->inbox.messages;
	ssize_t length;

	make_ready(&port->inbox, 0);
	/* An error is one that ICMP reported about something we sent: it says nothing to us. */
	length = vb_recvmsg(endpoint->fd, &message->msg_hdr, MSG_DONTWAIT);
	if (length < 0)
		return 0;
	message->msg_len = (uint32_t)length;
	*packets += take(port, endpoint, 0);
	return (uint32_t)length;
}

/* Returns how many messages there were. */
static unsigned receive_several(struct vb_port *port, struct vb_endpoint *endpoint,
				unsigned *packets)
{
	int count;

	for (unsigned i = 0; i < VB_RECEIVE_BATCH; i++)
		make_ready(&port->inbox, i);
	count = vb_recvmmsg(endpoint->fd, port->inbox.messages, VB_RECEIVE_BATCH, MSG_DONTWAIT);
	for (int i = 0; i < count; i++)
		*packets += take(port, endpoint, (unsigned)i);
	return count > 0 ? (unsigned)count : 0;
}

/*
 * Whoever waits for one small message has it with the first call; where one comes after the other
 * they are worth a larger call.
 */
unsigned vb_udp_receive(struct vb_port *port, struct vb_endpoint *endpoint, unsigned most)
{
	unsigned packets = 0;
	uint32_t length;

	if (endpoint->small_streak >= SMALL_STREAK) {
		while (packets < most &&
		       receive_several(port, endpoint, &packets) == VB_RECEIVE_BATCH)
			;
		endpoint->small_streak = packets ? SMALL_STREAK : 0;
		return packets;
	}
	do
		length = receive_one(port, endpoint, &packets);
	while (length >= BURST_BYTES_MIN && packets < most);
	endpoint->small_streak =
		length && length < BURST_BYTES_MIN ? endpoint->small_streak + 1 : 0;
	return packets;
}
