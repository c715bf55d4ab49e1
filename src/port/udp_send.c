/* SPDX-License-Identifier: BSD-2-Clause */
/* Gives bursts to the kernel, several per call. Each is one message, which the kernel cuts into
 * packets (UDP_SEGMENT). */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/message.h"
#include "port/impl.h"

enum { BATCH = 16, IPV4_UDP_HEADERS = 20 + 8 };

struct outgoing {
	union vb_sockaddr to;
	struct iovec iov;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t)) +
					      2 * CMSG_SPACE(sizeof(int))];
};

static struct vb_sender *sender_of(const struct vb_port *port, const struct vb_way *way)
{
	return &vb_way_endpoint(port, way)->senders[way->socket % VB_SENDERS];
}

static void put_control(struct msghdr *head, int level, int type, const void *value, size_t size)
{
	struct cmsghdr *control =
		(struct cmsghdr *)((char *)head->msg_control + head->msg_controllen);

	control->cmsg_level = level;
	control->cmsg_type = type;
	control->cmsg_len = CMSG_LEN(size);
	memset(CMSG_DATA(control), 0, CMSG_SPACE(size) - CMSG_LEN(0)); /* valgrind reads on */
	memcpy(CMSG_DATA(control), value, size);
	head->msg_controllen += CMSG_SPACE(size);
}

static void put_options(struct msghdr *head, const struct vb_burst *burst)
{
	const struct vb_way *way = burst->way;
	const bool ipv6 = way->flow.ipv6;
	const uint16_t segment = (uint16_t)burst->segment;
	int value = way->traffic_class;

	if (burst->length > burst->segment)
		put_control(head, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	if (value)
		put_control(head, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_TCLASS : IP_TOS,
			    &value, sizeof(value));
	/* Programs that do not care write 0 or 1: the host's default, as on NICs. For a group 1 has
	 * a meaning: no router. */
	value = way->hop_limit;
	if (value > 1 || (value && way->multicast))
		put_control(head, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_HOPLIMIT : IP_TTL,
			    &value, sizeof(value));
}

static void prepare_message(struct msghdr *head, struct outgoing *out, const struct vb_burst *burst)
{
	const struct vb_icrc_flow *flow = &burst->way->flow;

	out->iov = (struct iovec){ (void *)burst->bytes, burst->length };
	*head = (struct msghdr){ .msg_name = &out->to,
				 .msg_iov = &out->iov,
				 .msg_iovlen = 1,
				 .msg_control = out->control };
	head->msg_namelen = vb_sockaddr_fill(&out->to, flow->ipv6, flow->dst, burst->way->scope,
					     flow->dst_port);
	put_options(head, burst);
	if (!head->msg_controllen)
		head->msg_control = NULL;
}

static void count_sent(struct vb_port *port, const struct vb_burst *bursts, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		port->counters->packets_out += vb_packets_of(bursts[i].length, bursts[i].segment);
		port->counters->bytes_out += bursts[i].length;
	}
}

static void count_lost(struct vb_port *port, const struct vb_burst *burst, int err)
{
	uint32_t packets = vb_packets_of(burst->length, burst->segment);

	if (err == EMSGSIZE) {
		port->counters->too_big += packets; /* explained already */
	} else {
		port->counters->send_errors += packets;
		vb_port_explain_refused(port, burst, err);
	}
}

static void send_too_long(struct vb_port *port, struct vb_sender *sender,
			  const struct vb_burst *burst);

/* The burst was not sent. The interface's MTU may be smaller than when the way was found. */
static void not_sent(struct vb_port *port, struct vb_sender *sender, const struct vb_burst *burst,
		     int err)
{
	if (err == EMSGSIZE && burst->way->link_mtu && !sender->cuts)
		send_too_long(port, sender, burst);
	else
		count_lost(port, burst, err);
}

/* Like sendmmsg, which takes longer for a single message. */
static int give_to_kernel(int fd, struct mmsghdr *messages, unsigned count)
{
	if (count == 1)
		return vb_sendmsg(fd, &messages->msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
	return vb_sendmmsg(fd, messages, count, MSG_DONTWAIT);
}

static void set_discovery(struct vb_sender *sender, bool ipv6, int value)
{
	(void)setsockopt(sender->fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
			 ipv6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &value, sizeof(value));
}

/* From now on only the interface's MTU counts. Fragments stay forbidden. */
static void ignore_route(struct vb_sender *sender, bool ipv6)
{
	set_discovery(sender, ipv6, ipv6 ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE);
	sender->ignores_route = true;
}

/* Before Linux 6.14 the error is EINVAL if packets of a burst are larger than the route's MTU. */
static bool may_be_the_route(const struct vb_burst *burst, int err)
{
	return err == EMSGSIZE || (err == EINVAL && burst->length > burst->segment);
}

/*
 * The kernel keeps the MTU that an ICMP message reported for minutes, and anybody can forge such a
 * message. A NIC ignores it: a packet that fits the interface leaves, and arrives if the message
 * was false. The user is told. From then on the socket ignores the route, or each burst would cost
 * a second call.
 */
static int give_anyway(struct vb_port *port, struct vb_sender *sender,
		       const struct vb_burst *bursts, struct mmsghdr *messages, unsigned count)
{
	int sent = give_to_kernel(sender->fd, messages, count), err = errno;

	if (sent >= 0 || !may_be_the_route(bursts, err) || sender->cuts)
		return sent;
	if (err == EMSGSIZE && !bursts->way->link_mtu)
		vb_port_explain_mtu(port, bursts);
	if (sender->ignores_route) {
		errno = err;
		return sent;
	}
	ignore_route(sender, bursts->way->flow.ipv6);
	return give_to_kernel(sender->fd, messages, count);
}

static bool send_one(struct vb_port *port, struct vb_sender *sender, const struct vb_burst *burst)
{
	struct outgoing out;
	struct mmsghdr message;

	prepare_message(&message.msg_hdr, &out, burst);
	if (give_anyway(port, sender, burst, &message, 1) < 0) {
		not_sent(port, sender, burst, errno);
		return false;
	}
	count_sent(port, burst, 1);
	return true;
}

/*
 * The kernel does not cut bursts for this interface. The first packet is good as it is. The other
 * packets of an IPv4 burst carry an ICRC for an identification that they do not get without
 * cutting: they are lost this once.
 */
static void send_uncut(struct vb_port *port, struct vb_sender *sender, const struct vb_burst *burst)
{
	struct vb_burst single = *burst;

	for (uint32_t at = 0; at < burst->length; at += single.length) {
		single.bytes = burst->bytes + at;
		single.length = burst->length - at;
		if (single.length > burst->segment)
			single.length = burst->segment;
		if (at && !burst->way->flow.ipv6)
			port->counters->send_errors++;
		else if (send_one(port, sender, &single) && !at)
			sender->no_segment = true; /* else the cutting was not the reason */
	}
}

/* False: no room, the other bursts would fail, too. */
static bool on_error(struct vb_port *port, struct vb_sender *sender, const struct vb_burst *burst,
		     int err)
{
	bool cut = burst->length > burst->segment;

	if (cut && (err == EIO || err == EINVAL || err == ENOPROTOOPT))
		send_uncut(port, sender, burst);
	else
		not_sent(port, sender, burst, err);
	if (err == EAGAIN)
		vb_udp_sender_full(vb_way_endpoint(port, burst->way), sender);
	return err != EAGAIN && err != ENOBUFS;
}

/* Like send_batch of one burst, without its arrays. */
static void send_single(struct vb_port *port, struct vb_sender *sender,
			const struct vb_burst *burst)
{
	struct outgoing out;
	struct mmsghdr message;
	unsigned waits = 0;
	int sent;

	prepare_message(&message.msg_hdr, &out, burst);
	do
		sent = give_anyway(port, sender, burst, &message, 1);
	while (sent < 0 && vb_port_wait_full(sender->fd, burst, errno, &waits));
	if (sent >= 0)
		count_sent(port, burst, 1);
	else
		on_error(port, sender, burst, errno);
}

/* Returns the number of bursts that were sent or lost. */
static unsigned send_batch(struct vb_port *port, struct vb_sender *sender,
			   const struct vb_burst *bursts, unsigned count)
{
	struct outgoing out[BATCH];
	struct mmsghdr messages[BATCH];
	unsigned waits = 0, lost;
	int sent;

	if (count > BATCH)
		count = BATCH;
	for (unsigned i = 0; i < count; i++)
		prepare_message(&messages[i].msg_hdr, &out[i], &bursts[i]);
	do
		sent = give_anyway(port, sender, bursts, messages, count);
	while (sent < 0 && vb_port_wait_full(sender->fd, bursts, errno, &waits));
	if (sent > 0) {
		count_sent(port, bursts, (unsigned)sent);
		return (unsigned)sent;
	}
	if (on_error(port, sender, bursts, errno))
		return 1;
	/* The bursts behind it are lost, too, up to one that waits for room. */
	for (lost = 1; lost < count && !vb_port_waits_full(&bursts[lost]); lost++)
		count_lost(port, &bursts[lost], EAGAIN);
	return lost;
}

/* --- packets longer than the interface's MTU --- */

static bool is_too_long(const struct vb_burst *burst)
{
	const uint16_t mtu = burst->way->link_mtu;

	return __builtin_expect(mtu && burst->segment + IPV4_UDP_HEADERS > mtu, 0);
}

/*
 * A packet that may be cut gets another identification than the ICRC covers. LIDs lead to ports of
 * our own kind alone, which compute the identification. Other ways share the socket, so each send
 * sets this again.
 */
static void set_cuts(struct vb_sender *sender, bool cuts)
{
	const int whole = sender->ignores_route ? IP_PMTUDISC_PROBE : IP_PMTUDISC_DO;

	if (__builtin_expect(sender->cuts == cuts, 1))
		return;
	set_discovery(sender, false, cuts ? IP_PMTUDISC_DONT : whole);
	sender->cuts = cuts;
}

/* One by one: the kernel does not cut bursts into packets that need fragments. */
static void send_too_long(struct vb_port *port, struct vb_sender *sender,
			  const struct vb_burst *burst)
{
	struct vb_burst singles[VB_BURST_PACKETS];
	unsigned count = 0;

	for (uint32_t at = 0; at < burst->length && count < VB_BURST_PACKETS;
	     at += burst->segment) {
		singles[count] = *burst;
		singles[count].bytes = burst->bytes + at;
		singles[count].length = burst->length - at;
		if (singles[count].length > burst->segment)
			singles[count].length = burst->segment;
		count++;
	}
	vb_port_explain_cut(port, burst);
	set_cuts(sender, true);
	for (unsigned done = 0; done < count;)
		done += send_batch(port, sender, singles + done, count - done);
}

/* The number of bursts that fit the interface, up to the first that does not. */
static unsigned count_whole(const struct vb_burst *bursts, unsigned count)
{
	unsigned whole = 0;

	while (whole < count && !is_too_long(&bursts[whole]))
		whole++;
	return whole;
}

/* No host has the source address any more. */
static void lose_all(struct vb_port *port, const struct vb_burst *bursts, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		port->counters->send_errors += vb_packets_of(bursts[i].length, bursts[i].segment);
}

void vb_udp_send(struct vb_port *port, const struct vb_burst *bursts, unsigned count)
{
	struct vb_sender *sender = sender_of(port, bursts->way);

	if (__builtin_expect(vb_way_is_former(port, bursts->way), 0)) {
		lose_all(port, bursts, count);
		return;
	}
	if (count == 1 && !is_too_long(bursts)) {
		set_cuts(sender, false);
		send_single(port, sender, bursts);
		return;
	}
	for (unsigned done = 0; done < count;) {
		unsigned whole = count_whole(bursts + done, count - done);

		if (!whole) {
			send_too_long(port, sender, &bursts[done++]);
			continue;
		}
		set_cuts(sender, false);
		done += send_batch(port, sender, bursts + done, whole);
	}
}
