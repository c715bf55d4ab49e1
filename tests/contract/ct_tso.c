/* SPDX-License-Identifier: BSD-2-Clause */
/* Large sends: one work request, a header and its payload, several frames. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "ct_raw.h"

enum { PAYLOAD = 3300, MSS = 500, FIRST_ID = 65534, HEADER_MAX = 96 };

static const uint32_t first_sequence = 0xfffffc00; /* comes round on the way */

struct sender {
	struct raw_box box;
	struct ibv_qp_ex *ex;
};

static int sender_create(struct ct *t, struct sender *s, struct ibv_cq *cq, uint16_t header_max)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 8, .max_send_sge = 2, .max_recv_wr = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RAW_PACKET,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = ct_object(t->near, t->near->pd),
		.max_tso_header = header_max,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO,
	};

	*s = (struct sender){ .box = { .t = t, .cq = cq } };
	s->box.qp = ibv_create_qp_ex(ct_context(t->near), &attr);
	if (!s->box.qp)
		return errno;
	s->ex = ibv_qp_to_qp_ex(s->box.qp);
	return 0;
}

static void sender_open(struct ct *t, struct sender *s)
{
	struct ibv_cq *cq = ibv_create_cq(ct_context(t->near), 16, NULL, NULL, 0);
	int err;

	CT_TRUE(cq != NULL);
	err = sender_create(t, s, cq, HEADER_MAX);
	if (err == EPERM)
		ct_skip("raw packet QPs need CAP_NET_RAW");
	CT_EQ(err, 0);
	raw_to_rts(s->box.qp);
}

/* Ethernet, IP, TCP with all flags that not every frame may have; the lengths are left out. */
static uint32_t header_of(struct raw_frame *frame, uint8_t *at)
{
	uint32_t l4 = 14 + (frame->type == RAW_IPV4 ? 20 : 40), sequence = htonl(first_sequence);
	uint16_t id = htons(FIRST_ID);

	raw_build(frame, at);
	if (frame->type == RAW_IPV4) {
		memset(at + 16, 0, 2);
		memcpy(at + 18, &id, 2);
	} else {
		memset(at + 18, 0, 2);
	}
	memcpy(at + l4 + 4, &sequence, 4);
	at[l4 + 13] = 0x80 | 0x10 | 0x08 | 0x01; /* CWR ACK PSH FIN */
	return l4 + 20;
}

static void check_frame(struct raw_box *box, const struct ibv_wc *wc, uint32_t i, bool v6)
{
	const uint8_t *at =
		(const uint8_t *)(uintptr_t)box->t->near->base + box->at + wc->wr_id * RAW_ROOM;
	const uint32_t l4 = 14 + (v6 ? 40 : 20), header = l4 + 20;
	const uint32_t part = PAYLOAD - i * MSS < MSS ? PAYLOAD - i * MSS : MSS;
	bool last = (i + 1) * MSS >= PAYLOAD;
	uint16_t length, id;
	uint32_t sequence;

	CT_EQ(wc->status, IBV_WC_SUCCESS);
	CT_EQ(wc->byte_len, header + part);
	CT_TRUE(wc->wc_flags & IBV_WC_IP_CSUM_OK);
	memcpy(&length, at + (v6 ? 18 : 16), 2);
	CT_EQ(ntohs(length), part + 20 + (v6 ? 0 : 20));
	memcpy(&id, at + 18, 2);
	if (!v6)
		CT_EQ(ntohs(id), (FIRST_ID + i) & 0xffff);
	memcpy(&sequence, at + l4 + 4, 4);
	CT_EQ(ntohl(sequence), (uint32_t)(first_sequence + i * MSS));
	CT_EQ(at[l4 + 13], 0x10 | (i ? 0 : 0x80) | (last ? 0x09 : 0));
	for (uint32_t k = 0; k < part; k++)
		CT_EQ(at[header + k], (uint8_t)((i * MSS + k) * 7 + 3));
}

static void send_it(struct sender *s, uint8_t *header, uint32_t header_size, bool built)
{
	struct ct *t = s->box.t;
	uint8_t *payload = (uint8_t *)(uintptr_t)t->near->base + RAW_SEND_AT;
	struct ibv_sge sge[2] = { { (uintptr_t)payload, 1001, t->near->mr.lkey },
				  { (uintptr_t)payload + 1001, PAYLOAD - 1001, t->near->mr.lkey } };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 9,
		.opcode = IBV_WR_TSO,
		.sg_list = sge,
		.num_sge = 2,
		.tso = { .hdr = header, .hdr_sz = (uint16_t)header_size, .mss = MSS },
	};
	struct ibv_wc wc;

	for (uint32_t k = 0; k < PAYLOAD; k++)
		payload[k] = (uint8_t)(k * 7 + 3);
	if (built) {
		ibv_wr_start(s->ex);
		s->ex->wr_id = 9;
		ibv_wr_send_tso(s->ex, header, (uint16_t)header_size, MSS);
		memset(header, 0xee, header_size); /* it was taken */
		ibv_wr_set_sge_list(s->ex, 2, sge);
		CT_EQ(ibv_wr_complete(s->ex), 0);
	} else {
		CT_EQ(ibv_post_send(s->box.qp, &wr, &bad), 0);
	}
	wc = raw_wait(s->box.cq);
	CT_EQ(wc.wr_id, 9);
	CT_EQ(wc.status, IBV_WC_SUCCESS);
	CT_EQ(wc.opcode, IBV_WC_TSO);
}

static void segments(struct ct *t)
{
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box b;
	struct sender s;
	struct ibv_flow *flow;

	raw_open(t, &b, 0);
	sender_open(t, &s);
	flow = raw_flow(&b, &rule);
	frame.proto = IPPROTO_TCP;
	frame.src_port = 5;
	frame.dst_port = 6;
	for (int i = 0; i < 4; i++) {
		uint8_t header[256];

		frame.type = i & 1 ? RAW_IPV6 : RAW_IPV4;
		send_it(&s, header, header_of(&frame, header), i & 2);
		for (uint32_t k = 0; k * MSS < PAYLOAD; k++) {
			struct ibv_wc wc = raw_wait(b.cq);

			check_frame(&b, &wc, k, i & 1);
			raw_post(t, b.qp, b.at + wc.wr_id * RAW_ROOM, wc.wr_id);
		}
	}
	CT_EQ(ibv_destroy_flow(flow), 0);
	raw_close(&b);
	raw_close(&s.box);
}

/* A header alone is a frame as well. */
static void without_payload(struct ct *t)
{
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box b;
	struct sender s;
	struct ibv_flow *flow;
	uint8_t header[256];
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_TSO,
		.send_flags = IBV_SEND_SIGNALED,
		.tso = { .hdr = header, .mss = MSS },
	};

	raw_open(t, &b, 0);
	sender_open(t, &s);
	flow = raw_flow(&b, &rule);
	frame.type = RAW_IPV4;
	frame.proto = IPPROTO_TCP;
	frame.src_port = 5;
	wr.tso.hdr_sz = (uint16_t)header_of(&frame, header);
	CT_EQ(ibv_post_send(s.box.qp, &wr, &bad), 0);
	CT_EQ(raw_wait(s.box.cq).status, IBV_WC_SUCCESS);
	CT_EQ(raw_wait(b.cq).byte_len, wr.tso.hdr_sz);
	CT_EQ(ibv_destroy_flow(flow), 0);
	raw_close(&b);
	raw_close(&s.box);
}

static void refused(struct ct *t)
{
	uint8_t header[256] = { 2 };
	struct ibv_sge sge = { t->near->base, 100, t->near->mr.lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_TSO,
		.sg_list = &sge,
		.num_sge = 1,
		.tso = { .hdr = header, .hdr_sz = HEADER_MAX + 1, .mss = 100 },
	};
	struct ibv_device_attr_ex dev;
	struct raw_box plain;
	struct sender s, other;

	CT_EQ(ibv_query_device_ex(ct_context(t->near), NULL, &dev), 0);
	CT_TRUE(dev.tso_caps.max_tso > 0);
	CT_TRUE(dev.tso_caps.supported_qpts == 1 << IBV_QPT_RAW_PACKET);
	raw_open(t, &plain, 0);
	sender_open(t, &s);
	CT_EQ(sender_create(t, &other, s.box.cq, 60000), EINVAL);
	CT_EQ(ibv_post_send(s.box.qp, &wr, &bad), EINVAL); /* the header is too long */
	CT_TRUE(bad == &wr);
	wr.tso.hdr_sz = 54;
	CT_EQ(ibv_post_send(plain.qp, &wr, &bad), EINVAL); /* a QP without large sends */
	wr.tso.mss = 0;
	CT_EQ(ibv_post_send(s.box.qp, &wr, &bad), EINVAL);
	wr.tso.mss = 100;
	CT_EQ(ibv_post_send(s.box.qp, &wr, &bad), 0); /* no TCP */
	CT_EQ(raw_wait(s.box.cq).status, IBV_WC_LOC_QP_OP_ERR);
	raw_close(&plain);
	raw_close(&s.box);
}

const struct ct_case ct_tso_cases[] = {
	{ "a large send leaves as frames of TCP", segments, CT_SOLO },
	{ "a large send without payload is its header", without_payload, CT_SOLO },
	{ "a large send has a header, an MSS and a QP for it", refused, CT_SOLO },
	{ 0 },
};
