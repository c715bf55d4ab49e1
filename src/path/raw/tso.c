/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/raw/tso.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum {
	ETHERTYPE_IPV4 = 0x0800,
	IPV4_HEADER = 20,
	IPV6_HEADER = 40,
	TCP_HEADER = 20,
	TCP_FIN_PSH = 0x09, /* only in the last segment */
	TCP_CWR = 0x80,     /* only in the first segment */
};

int vb_tso_enable(struct vb_qp *qp, uint32_t header_max)
{
	struct vb_raw_qp *raw = qp->raw;

	if (header_max > VB_TSO_HEADER_MAX) {
		vb_explain("ibv_create_qp_ex: max_tso_header %u may be up to %d", header_max,
			   VB_TSO_HEADER_MAX);
		return -EINVAL;
	}
	raw->tso_stride = (uint32_t)sizeof(struct vb_tso) + ((header_max + 3) & ~3u);
	raw->tso = calloc((size_t)qp->sq.mask + 1, raw->tso_stride);
	raw->tso_header_max = header_max;
	return raw->tso ? 0 : -ENOMEM;
}

struct vb_tso *vb_tso_at(const struct vb_qp *qp, uint32_t index)
{
	return (void *)(qp->raw->tso + (size_t)(index & qp->sq.mask) * qp->raw->tso_stride);
}

int vb_tso_take(struct vb_qp *qp, const struct ibv_send_wr *wr)
{
	struct vb_tso *tso = vb_tso_at(qp, qp->sq.tail);

	if (!wr->tso.hdr || !wr->tso.mss || wr->tso.hdr_sz > qp->raw->tso_header_max ||
	    wr->send_flags & IBV_SEND_INLINE)
		return -EINVAL;
	tso->header_length = wr->tso.hdr_sz;
	tso->mss = wr->tso.mss;
	memcpy(tso->header, wr->tso.hdr, wr->tso.hdr_sz);
	return 0;
}

static void add16(uint8_t *at, uint32_t more)
{
	uint16_t value;

	memcpy(&value, at, 2);
	value = htons((uint16_t)(ntohs(value) + more));
	memcpy(at, &value, 2);
}

static void set16(uint8_t *at, uint32_t to)
{
	uint16_t value = htons((uint16_t)to);

	memcpy(at, &value, 2);
}

/* The program's header has the length of the whole message, or none. */
static bool set_lengths(struct vb_frame *frame, uint32_t index)
{
	bool v4 = frame->headers.key.ether_type == htons(ETHERTYPE_IPV4);
	uint8_t *ip = frame->at + frame->l3;

	if (frame->length < frame->l3 + (v4 ? IPV4_HEADER : IPV6_HEADER))
		return false;
	if (v4) {
		set16(ip + 2, frame->length - frame->l3);
		add16(ip + 4, index); /* each frame has an identification of its own */
	} else {
		set16(ip + 4, frame->length - frame->l3 - IPV6_HEADER);
	}
	return true;
}

static void set_tcp(struct vb_frame *frame, uint32_t offset, bool last)
{
	uint8_t *tcp = frame->at + frame->l4;
	uint32_t sequence;

	memcpy(&sequence, tcp + 4, 4);
	sequence = htonl(ntohl(sequence) + offset);
	memcpy(tcp + 4, &sequence, 4);
	if (!last)
		tcp[13] &= (uint8_t)~TCP_FIN_PSH;
	if (offset)
		tcp[13] &= (uint8_t)~TCP_CWR;
}

bool vb_tso_segment(const struct vb_tso *tso, const uint8_t *payload, uint32_t total,
		    uint32_t offset, uint8_t *out, struct vb_frame *frame)
{
	uint32_t part = total - offset < tso->mss ? total - offset : tso->mss;
	uint32_t length = tso->header_length + part;

	memcpy(out, tso->header, tso->header_length);
	memcpy(out + tso->header_length, payload + offset, part);
	if (!vb_frame_parse(frame, out, length) || !set_lengths(frame, offset / tso->mss))
		return false;
	vb_frame_parse(frame, out, length);
	if (frame->headers.key.l4 != IPPROTO_TCP || frame->l4 + TCP_HEADER > tso->header_length)
		return false;
	set_tcp(frame, offset, offset + part == total);
	vb_frame_checksum_fill(frame);
	return true;
}
