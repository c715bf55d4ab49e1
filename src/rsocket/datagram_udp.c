/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of the UDP socket, in the service thread: data, and answers that name a QP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rsocket/datagram.h"

enum { PACKET_MAX = 65536, ROUND_MAX = 64 };

static void answer_with_qpn(struct vb_rs *rs, const struct vb_rs_dest *dest)
{
	const bool ipv6 = rs->domain == AF_INET6;
	struct vb_rs_udp header = {
		.ipv6 = ipv6,
		.op = VB_RS_CONTROL,
		.qpn = rs->datagram->qp->qp_num,
	};
	uint8_t bytes[VB_RS_UDP_MAX];
	size_t size;

	if (ipv6)
		memcpy(header.addr, &dest->addr.in6.sin6_addr, 16);
	else
		memcpy(header.addr, &dest->addr.in.sin_addr, 4);
	size = vb_rs_udp_emit(&header, bytes);
	/* If the answer is lost, the next datagram asks again. */
	sendto(rs->datagram->watch.fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL, &dest->addr.sa,
	       ipv6 ? sizeof(dest->addr.in6) : sizeof(dest->addr.in));
}

static void keep_datagram(struct vb_rs *rs, const union vb_rs_addr *source, const uint8_t *bytes,
			  size_t size)
{
	struct vb_rs_waiting *waiting;

	if (rs->datagram->waiting_count == VB_RS_WAITING_MAX ||
	    !vb_rs_datagram_is_welcome(rs, source))
		return;
	waiting = malloc(sizeof(*waiting) + size);
	if (!waiting)
		return;
	waiting->source = *source;
	waiting->size = (uint32_t)size;
	waiting->offset = 0;
	waiting->slot = -1;
	memcpy(waiting->bytes, bytes, size);
	vb_list_append(&rs->datagram->waiting, &waiting->node);
	rs->datagram->waiting_count++;
	vb_rs_notify(rs, NULL);
}

/* A datagram that names its sender's QP gets an answer that names ours. */
static void on_packet(struct vb_rs *rs, const union vb_rs_addr *source, const uint8_t *bytes,
		      size_t size)
{
	struct vb_rs_udp header;
	struct vb_rs_dest *dest;
	int length = vb_rs_udp_parse(bytes, size, &header);

	if (length < 0)
		return;
	if (header.op == VB_RS_DATA)
		keep_datagram(rs, source, bytes + length, size - (size_t)length);
	if (!header.qpn)
		return;
	dest = vb_rs_dest_find(rs, source);
	if (!dest || vb_rs_dest_resolve(rs, dest))
		return;
	if (!vb_rs_dest_set_qpn(rs, dest, header.qpn) && header.op == VB_RS_DATA)
		answer_with_qpn(rs, dest);
}

static int receive_packet(struct vb_rs *rs, uint8_t *bytes)
{
	union vb_rs_addr source = { 0 };
	socklen_t source_size = sizeof(source);
	ssize_t size = recvfrom(rs->datagram->watch.fd, bytes, PACKET_MAX, MSG_DONTWAIT, &source.sa,
				&source_size);

	if (size >= 0) {
		on_packet(rs, &source, bytes, (size_t)size);
		return 0;
	}
	if (errno == EAGAIN || errno == EINTR)
		return -EAGAIN;
	/* An ICMP answer to a datagram: the next call returns the error, as with UDP. */
	if (rs->datagram->connected) {
		rs->error = errno;
		vb_rs_notify(rs, NULL);
	}
	return 0;
}

void vb_rs_datagram_udp_ready(struct vb_rs_service_watch *watch)
{
	static uint8_t bytes[PACKET_MAX]; /* only the service thread uses it */
	struct vb_rs *rs = vb_container(watch, struct vb_rs_datagram, watch)->rs;

	vb_rs_lock_service(rs);
	for (int i = 0; i < ROUND_MAX && !rs->closed; i++) {
		if (receive_packet(rs, bytes))
			break;
	}
	pthread_mutex_unlock(&rs->lock);
}
