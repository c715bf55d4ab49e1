/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets on slot sockets: from peers whose memory we may not touch, and from processes that
 * received packets of ours on UDP. One message carries one burst. The other end may be a process of
 * another user: every message is checked.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/message.h"
#include "nic/lane.h"
#include "port/impl.h"
#include "wire/packet.h"

enum { MESSAGES = 16 }; /* per turn of one peer */
#define ATTACH_WINDOW_NS 100000000ull
#define STUCK_NS         20000000ull

void vb_slot_socket_tune(int fd)
{
	int size = VB_SOCKET_BUFFER;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

/* --- out --- */

/* Acquire: pairs with the store of the state in attach, which is written last. */
bool vb_slot_is_attached(const struct vb_peer *peer)
{
	int state = atomic_load_explicit(&peer->state, memory_order_acquire);

	return !peer->self && (state == VB_PEER_READY || state == VB_PEER_NO_PATH);
}

struct vb_slot_message vb_slot_message_of(const struct vb_icrc_flow *flow)
{
	struct vb_slot_message message = {
		.magic = VB_SLOT_PACKETS_MAGIC,
		.src_port = flow->src_port,
		.dst_port = flow->dst_port,
		.ipv6 = flow->ipv6,
	};

	memcpy(message.src, flow->src, sizeof(message.src));
	memcpy(message.dst, flow->dst, sizeof(message.dst));
	return message;
}

/* A peer that does not read loses packets, as on a wire. */
bool vb_slot_write(const struct vb_peer *peer, const struct vb_slot_message *message,
		   const uint8_t *bytes)
{
	struct iovec iov[2] = { { (void *)message, sizeof(*message) },
				{ (void *)bytes, message->length } };
	const struct msghdr head = { .msg_iov = iov, .msg_iovlen = 2 };

	return vb_sendmsg(peer->socket, &head, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/*
 * The number of waits for a peer that does not read. A process of another user could read a little
 * now and then, only to make us wait: it gets one wait, and none while it is known not to read.
 */
static unsigned waits_for(const struct vb_peer *peer)
{
	if (peer->stranger)
		return vb_now_ns() < atomic_load(&peer->stuck_ns) ? 0 : 1;
	return atomic_load(&peer->stuck_ns) ? 1 : UINT_MAX;
}

/*
 * UC and UD wait for a peer that reads; RC sends again. For a peer that does not read this thread
 * waits once, under the lane's lock; from then on the queues that send to it wait (pace.c).
 */
static bool write_patiently(struct vb_peer *peer, const struct vb_slot_message *message,
			    const struct vb_burst *burst)
{
	unsigned waits = 0, most = 1;
	bool written;

	do {
		written = vb_slot_is_attached(peer) && vb_slot_write(peer, message, burst->bytes);
		most = written || waits ? most : waits_for(peer);
	} while (!written && vb_slot_is_attached(peer) && waits < most &&
		 vb_port_wait_full(peer->socket, burst, errno, &waits));
	if (written)
		atomic_store(&peer->stuck_ns, 0);
	else if (waits)
		atomic_store(&peer->stuck_ns, vb_now_ns() + STUCK_NS);
	return written;
}

void vb_slot_send(struct vb_port *port, const struct vb_burst *burst)
{
	const struct vb_way *way = burst->way;
	uint32_t packets = vb_packets_of(burst->length, burst->segment);
	struct vb_slot_message message = vb_slot_message_of(&way->flow);

	message.length = burst->length;
	message.segment = burst->segment;
	message.traffic_class = way->traffic_class;
	message.hop_limit = way->hop_limit;
	if (!write_patiently(way->peer, &message, burst)) {
		port->counters->send_errors += packets;
		return;
	}
	port->counters->packets_out += packets;
	port->counters->bytes_out += burst->length;
}

/* Packets of strangers may name any slot: not each of them is worth a connect(). */
static void begin_attach(struct vb_port *port, uint32_t slot)
{
	uint64_t now_ns = vb_now_ns();

	if (!port->calls || vb_nic_slot_refused(port->nic, slot))
		return;
	if (now_ns - port->attach_window_ns > ATTACH_WINDOW_NS) {
		port->attach_window_ns = now_ns;
		port->attach_count = 0;
	}
	if (port->attach_count++ < VB_ATTACHES_MAX)
		port->calls->attach(port->nic, slot);
}

/* The process that holds a slot, attached or attaching; or NULL. */
static struct vb_peer *slot_peer(struct vb_port *port, uint32_t slot)
{
	struct vb_peer *peer = vb_nic_peer(port->nic, slot);

	if (peer)
		return peer;
	begin_attach(port, slot);
	return vb_nic_peer(port->nic, slot);
}

void vb_slot_forward(struct vb_port *port, uint32_t slot, const struct vb_delivery *delivery)
{
	uint32_t packets = vb_packets_of(delivery->length, delivery->segment);
	/* Packets that wait for an attach wait in one place, whichever lane got them. */
	struct vb_held *held = &vb_port_of_lane(port, VB_LANE_FIRST)->held;
	struct vb_peer *peer = slot_peer(port, slot);
	struct vb_slot_message message = vb_slot_message_of(delivery->flow);

	if (!peer) {
		atomic_fetch_add(&held->lost, packets);
		return;
	}
	message.length = delivery->length;
	message.segment = delivery->segment;
	message.traffic_class = delivery->traffic_class;
	message.hop_limit = delivery->hop_limit;
	message.forwarded = delivery->endpoint != NULL; /* else this process sent them */
	vb_held_forward(held, peer, &message, delivery->bytes);
	vb_peer_put(peer);
}

/* --- in --- */

bool vb_slot_is_well_formed(const struct vb_slot_message *message, size_t size)
{
	return size >= sizeof(*message) && message->magic == VB_SLOT_PACKETS_MAGIC &&
	       message->length && message->length == size - sizeof(*message) && message->segment &&
	       message->segment <= message->length && message->ipv6 <= 1 &&
	       message->forwarded <= 1 && message->dst_port == VB_UDP_PORT_ROCE;
}

static struct vb_endpoint *endpoint_at(const struct vb_port *port, const struct vb_icrc_flow *flow)
{
	for (unsigned i = 0; i < port->endpoint_count; i++) {
		const struct vb_address *own = &port->endpoints[i]->address;

		if (own->ipv6 == flow->ipv6 && !memcmp(own->bytes, flow->dst, sizeof(flow->dst)))
			return port->endpoints[i];
	}
	return NULL;
}

/* No packets are forwarded for addresses that this process never opened. */
static bool may_forward(const struct vb_port *port, const struct vb_peer *peer,
			const struct vb_icrc_flow *flow)
{
	struct vb_endpoint *endpoint = endpoint_at(port, flow);
	struct ucred cred;
	socklen_t size = sizeof(cred);

	return endpoint && !getsockopt(peer->socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) &&
	       vb_endpoint_takes_from(endpoint, cred.uid);
}

struct vb_icrc_flow vb_slot_flow_of(const struct vb_slot_message *message)
{
	struct vb_icrc_flow flow = {
		.ipv6 = message->ipv6,
		.src_port = message->src_port,
		.dst_port = message->dst_port,
	};
	size_t size = message->ipv6 ? 16 : 4;

	memcpy(flow.src, message->src, size);
	memcpy(flow.dst, message->dst, size);
	return flow;
}

static unsigned take_message(struct vb_port *port, struct vb_peer *peer,
			     const struct vb_slot_message *message)
{
	const struct vb_icrc_flow flow = vb_slot_flow_of(message);
	const struct vb_delivery delivery = {
		.flow = vb_port_flow(port, &flow),
		.bytes = port->buffers,
		.length = message->length,
		.segment = message->segment,
		.traffic_class = message->traffic_class,
		.hop_limit = message->hop_limit,
		.peer = message->forwarded ? NULL : peer,
		.forwarded = message->forwarded,
	};

	if (message->forwarded && !may_forward(port, peer, &flow)) {
		port->counters->slot_refused++;
		return 1;
	}
	if (message->forwarded)
		port->counters->forwarded_in += vb_packets_of(message->length, message->segment);
	return vb_port_deliver(port, &delivery);
}

/* The peer hung up: the service thread shall see its end. It may have held a port that we want. */
static void hand_back_socket(struct vb_port *port, struct vb_peer *peer)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = peer };

	epoll_ctl(port->inner, EPOLL_CTL_DEL, peer->socket, NULL);
	epoll_ctl(port->outer, EPOLL_CTL_ADD, peer->socket, &event);
	vb_peer_put(peer);
	if (port->timer >= 0)
		vb_port_rebind(port);
}

unsigned vb_slot_receive(struct vb_port *port, struct vb_peer *peer, unsigned most)
{
	unsigned total = 0;

	for (int i = 0; vb_slot_is_attached(peer) && i < MESSAGES && total < most; i++) {
		struct vb_slot_message message;
		struct iovec iov[2] = { { &message, sizeof(message) },
					{ port->buffers, VB_DATAGRAM_MAX } };
		struct msghdr head = { .msg_iov = iov, .msg_iovlen = 2 };
		/* Without room for control data the kernel closes descriptors in the message. */
		ssize_t size = vb_recvmsg(peer->socket, &head, MSG_DONTWAIT);

		if (size < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		/* The peer ended with packets of ours unread. The kernel says so once, and then
		 * delivers the peer's last messages. */
		if (size < 0 && errno == ECONNRESET)
			continue;
		if (size <= 0) {
			hand_back_socket(port, peer);
			break;
		}
		if (head.msg_flags & MSG_TRUNC)
			port->counters->oversized++;
		if (head.msg_flags & MSG_TRUNC || !vb_slot_is_well_formed(&message, (size_t)size)) {
			port->counters->slot_refused++;
			total++;
			continue;
		}
		total += take_message(port, peer, &message);
	}
	return total;
}

int vb_port_adopt(struct vb_port *port, struct vb_peer *peer)
{
	int err;

	epoll_ctl(port->outer, EPOLL_CTL_DEL, peer->socket, NULL);
	vb_peer_get(peer);
	err = vb_port_watch_source(port, peer->socket, (uintptr_t)peer);
	if (err)
		vb_peer_put(peer);
	return err;
}
