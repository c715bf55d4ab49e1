/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What waits on a UDP socket: messages, each a packet or, merged by the kernel (UDP_GRO), a burst
 * of them from one source port. A burst is dealt with before the next one is read, so that it
 * still lies in the cache when it is looked at a second time; small messages are read several per
 * call.
 */
#include "base/message.h"
#include "path/roce/port_impl.h"
#include "wire/packet.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

enum { BURST_BYTES_MIN = 8192, SMALL_STREAK = 3 };

struct incoming {
	union vb_sockaddr from;
	struct iovec iov;
	_Alignas(struct cmsghdr) char control[3 * CMSG_SPACE(sizeof(int))];
};

static void prepare(struct mmsghdr *message, struct incoming *in, uint8_t *buffer)
{
	in->iov = (struct iovec){ buffer, VB_DATAGRAM_MAX };
	message->msg_hdr = (struct msghdr){
		.msg_name = &in->from,
		.msg_namelen = sizeof(in->from),
		.msg_iov = &in->iov,
		.msg_iovlen = 1,
		.msg_control = in->control,
		.msg_controllen = sizeof(in->control),
	};
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

static struct vb_icrc_flow flow_of(const struct vb_endpoint *endpoint,
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

/* Only this host sends with an address of this host: the kernel drops it from outside. */
static bool is_own(const struct vb_icrc_flow *flow)
{
	return !memcmp(flow->src, flow->dst, sizeof(flow->src));
}

static unsigned take(struct vb_port *port, struct vb_endpoint *endpoint, struct incoming *in,
		     struct mmsghdr *message)
{
	const struct vb_icrc_flow flow = flow_of(endpoint, &in->from);
	struct vb_delivery delivery = {
		.bytes = in->iov.iov_base,
		.length = message->msg_len,
		.segment = message->msg_len,
		.endpoint = endpoint,
		.scope = flow.ipv6 ? in->from.in6.sin6_scope_id : 0,
	};

	if (message->msg_hdr.msg_flags & MSG_TRUNC) {
		port->counters->oversized++;
		return 1;
	}
	if (!delivery.length)
		return 1;
	read_control(&message->msg_hdr, &delivery);
	if (is_own(&flow) && vb_steer_input(port, endpoint, delivery.bytes, delivery.length))
		return 1;
	delivery.flow = vb_port_flow(port, &flow);
	return vb_port_deliver(port, &delivery);
}

/* Returns the bytes of the message, 0: none is there. */
static uint32_t receive_one(struct vb_port *port, struct vb_endpoint *endpoint, unsigned *packets)
{
	struct incoming in;
	struct mmsghdr message;
	ssize_t length;

	prepare(&message, &in, port->buffers);
	/* An error is one that ICMP reported about something we sent: it says nothing to us. */
	length = vb_recvmsg(endpoint->fd, &message.msg_hdr, MSG_DONTWAIT);
	if (length < 0)
		return 0;
	message.msg_len = (uint32_t)length;
	*packets += take(port, endpoint, &in, &message);
	return message.msg_len;
}

/* Returns how many messages there were. */
static unsigned receive_several(struct vb_port *port, struct vb_endpoint *endpoint,
				unsigned *packets)
{
	struct incoming in[VB_RECEIVE_BATCH];
	struct mmsghdr messages[VB_RECEIVE_BATCH];
	int count;

	for (unsigned i = 0; i < VB_RECEIVE_BATCH; i++)
		prepare(&messages[i], &in[i], port->buffers + (size_t)i * VB_DATAGRAM_MAX);
	count = vb_recvmmsg(endpoint->fd, messages, VB_RECEIVE_BATCH, MSG_DONTWAIT);
	for (int i = 0; i < count; i++)
		*packets += take(port, endpoint, &in[i], &messages[i]);
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
	endpoint->small_streak = length && length < BURST_BYTES_MIN ? endpoint->small_streak + 1 : 0;
	return packets;
}
