/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending a datagram: to the peer's QP if it is known and the datagram fits, else through UDP. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "rsocket/cursor.h"
#include "rsocket/datagram.h"

/* A destroyed QP gives no answer, so a datagram goes through UDP once a second and asks again. */
static const uint64_t ask_again_ns = 1000000000u;

/* The header in front of UDP data names the sender's QP. */
static size_t describe_qp(const struct vb_rs *rs, const struct vb_rs_dest *dest, uint8_t *bytes)
{
	struct vb_rs_udp header = {
		.ipv6 = rs->domain == AF_INET6,
		.op = VB_RS_DATA,
		.qpn = rs->datagram->qp ? rs->datagram->qp->qp_num : 0,
	};

	if (header.ipv6)
		memcpy(header.addr, &dest->addr.in6.sin6_addr, 16);
	else
		memcpy(header.addr, &dest->addr.in.sin_addr, 4);
	return vb_rs_udp_emit(&header, bytes);
}

static ssize_t send_udp(struct vb_rs *rs, const struct vb_rs_dest *dest, const struct iovec *iov,
			int count, size_t size)
{
	uint8_t header[VB_RS_UDP_MAX];
	struct iovec pieces[IOV_MAX];
	struct msghdr message = { .msg_name = (void *)&dest->addr,
				  .msg_namelen = rs->domain == AF_INET ? sizeof(dest->addr.in)
								       : sizeof(dest->addr.in6),
				  .msg_iov = pieces };

	if (count >= IOV_MAX)
		return -EMSGSIZE;
	pieces[0] = (struct iovec){ header, describe_qp(rs, dest, header) };
	memcpy(pieces + 1, iov, (size_t)count * sizeof(*iov));
	message.msg_iovlen = (size_t)count + 1;
	if (sendmsg(rs->datagram->watch.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	return (ssize_t)size;
}

static bool send_slot_decided(struct vb_rs *rs)
{
	return !rs->datagram->qp || rs->datagram->send_free || rs->closed;
}

static size_t describe_source(const struct vb_rs *rs, const struct vb_rs_dest *dest, uint8_t *bytes)
{
	struct vb_rs_ud header = {
		.ipv6 = rs->domain == AF_INET6,
		.port = ntohs(dest->source.in.sin_port),
	};

	if (header.ipv6)
		memcpy(header.addr, &dest->source.in6.sin6_addr, 16);
	else
		memcpy(header.addr, &dest->source.in.sin_addr, 4);
	return vb_rs_ud_emit(&header, bytes);
}

static int send_ud(struct vb_rs *rs, const struct vb_rs_dest *dest, struct vb_cursor *from)
{
	struct vb_rs_datagram *datagram = rs->datagram;
	uint8_t *slot = vb_rs_send_slot(datagram, datagram->send_next);
	const size_t header = describe_source(rs, dest, slot), size = from->left;
	struct ibv_sge sge = { (uintptr_t)slot, (uint32_t)(header + size), datagram->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = vb_rs_wr_id(VB_RS_WORK_DATA, 0),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { dest->ah, dest->qpn, RDMA_UDP_QKEY },
	};
	struct ibv_send_wr *bad;
	int err;

	vb_cursor_read(from, slot + header, size);
	datagram->send_next = (datagram->send_next + 1) % VB_RS_SEND_SLOTS;
	datagram->send_free--;
	err = ibv_post_send(datagram->qp, &wr, &bad);
	if (err)
		datagram->send_free++;
	return -err;
}

/* A datagram carries the name of its sender, so the rsocket needs one before it sends. */
static int ensure_bound(struct vb_rs *rs)
{
	union vb_rs_addr any = { .sa.sa_family = (sa_family_t)rs->domain };

	if (rs->state != VB_RS_INIT)
		return 0;
	return vb_rs_datagram_bind(rs, &any.sa,
				   rs->domain == AF_INET ? sizeof(any.in) : sizeof(any.in6));
}

static int choose_dest(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size,
		       struct vb_rs_dest **dest)
{
	union vb_rs_addr target = { 0 };
	int err;

	if (addr) {
		err = vb_rs_check_addr(rs, addr, size);
		if (err)
			return err;
		memcpy(&target, addr,
		       rs->domain == AF_INET ? sizeof(target.in) : sizeof(target.in6));
	} else if (rs->datagram->connected) {
		target = rs->peer;
	} else {
		return -EDESTADDRREQ;
	}
	if (rs->domain == AF_INET)
		memset(target.in.sin_zero, 0, sizeof(target.in.sin_zero));
	*dest = vb_rs_dest_find(rs, &target);
	return *dest ? 0 : -ENOMEM;
}

static bool fits_ud_packet(const struct vb_rs *rs, const struct vb_rs_dest *dest, size_t size)
{
	return dest->ah && size + VB_RS_UD_MAX <= rs->datagram->mtu &&
	       vb_now_ns() - dest->known_at_ns < ask_again_ns;
}

static ssize_t send_to(struct vb_rs *rs, const struct iovec *iov, int count,
		       struct vb_rs_dest *dest)
{
	struct vb_cursor from;
	ssize_t result = vb_cursor_init(&from, iov, count);
	const size_t size = from.left;

	if (result)
		return result;
	vb_rs_dest_resolve(rs, dest); /* if that fails, dest->ah stays NULL */
	if (!fits_ud_packet(rs, dest, size))
		return send_udp(rs, dest, iov, count, size);
	result = send_ud(rs, dest, &from);
	return result ? result : (ssize_t)size;
}

ssize_t vb_rs_datagram_send(struct vb_rs *rs, const struct iovec *iov, int count, int flags,
			    const struct sockaddr *addr, socklen_t size)
{
	struct vb_rs_dest *dest;
	ssize_t result;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	vb_rs_lock(rs);
	result = vb_rs_wait(rs, send_slot_decided,
			    vb_rs_deadline(rs->nonblock || (flags & MSG_DONTWAIT),
					   rs->options.send_timeout_ns));
	if (!result)
		result = rs->closed ? -EBADF : rs->write_shut ? -EPIPE : ensure_bound(rs);
	if (!result)
		result = choose_dest(rs, addr, size, &dest);
	if (!result)
		result = send_to(rs, iov, count, dest);
	pthread_mutex_unlock(&rs->lock);
	return result;
}
