/* SPDX-License-Identifier: BSD-2-Clause */
/* What is done to a frame on its way into a receive: the VLAN tag goes, the FCS comes along. */
#include "ct_raw.h"

enum { TAG = 0x6123 };

struct taker { /* a QP that receives with a CQ that tells the tag */
	struct raw_box box;
	struct ibv_cq_ex *cq;
};

static void taker_open(struct ct *t, struct taker *taker, int number, uint32_t create_flags)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = 16,
		.wc_flags = IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_BYTE_LEN,
	};
	struct ibv_qp_init_attr_ex init = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 2 },
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = ct_object(t->near, t->near->pd),
		.create_flags = create_flags,
	};

	taker->cq = ibv_create_cq_ex(ct_context(t->near), &cq);
	CT_TRUE(taker->cq != NULL);
	taker->box = (struct raw_box){ .t = t, .cq = ibv_cq_ex_to_cq(taker->cq) };
	taker->box.at = (uint64_t)number * RAW_DEPTH * RAW_ROOM;
	init.send_cq = init.recv_cq = taker->box.cq;
	taker->box.qp = ibv_create_qp_ex(ct_context(t->near), &init);
	CT_TRUE(taker->box.qp != NULL);
	raw_to_rts(taker->box.qp);
	/* In two elements, so that no piece of the frame begins where an element does. */
	for (uint64_t i = 0; i < 8; i++) {
		uint64_t at = t->near->base + taker->box.at + i * RAW_ROOM;
		struct ibv_sge sge[2] = { { at, 7, t->near->mr.lkey },
					  { at + 7, RAW_ROOM - 7, t->near->mr.lkey } };
		struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = sge, .num_sge = 2 };

		CT_EQ(ibv_post_recv(taker->box.qp, &wr, &bad), 0);
	}
}

static uint32_t crc32_of(const uint8_t *at, uint32_t length)
{
	uint32_t crc = ~0u;

	for (uint32_t i = 0; i < length; i++) {
		crc ^= at[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/* The next completion is that of the frame, as the flags say. */
static void check(struct taker *taker, const struct raw_frame *frame, uint32_t flags)
{
	struct ibv_poll_cq_attr poll = { 0 };
	uint8_t sent[RAW_LENGTH];
	uint32_t length = raw_build(frame, sent), crc = crc32_of(sent, length);
	bool strips = flags & IBV_QP_CREATE_CVLAN_STRIPPING && frame->vlan;
	const uint8_t fcs[4] = { (uint8_t)crc, (uint8_t)(crc >> 8), (uint8_t)(crc >> 16),
				 (uint8_t)(crc >> 24) };
	const uint8_t *at;

	CT_EQ(ct_start_poll(taker->cq, &poll), 0);
	CT_EQ(taker->cq->status, IBV_WC_SUCCESS);
	at = (const uint8_t *)(uintptr_t)taker->box.t->near->base + taker->box.at +
	     taker->cq->wr_id * RAW_ROOM;
	CT_EQ(ibv_wc_read_cvlan(taker->cq), strips ? TAG : 0);
	if (strips) {
		memmove(sent + 12, sent + 16, length - 16);
		length -= 4;
	}
	CT_EQ(memcmp(at, sent, length), 0);
	if (flags & IBV_QP_CREATE_SCATTER_FCS) {
		CT_EQ(memcmp(at + length, fcs, 4), 0);
		length += 4;
	}
	CT_EQ(ibv_wc_read_byte_len(taker->cq), length);
	ibv_end_poll(taker->cq);
}

static void tag_and_fcs(struct ct *t)
{
	static const uint32_t flags[] = { 0, IBV_QP_CREATE_CVLAN_STRIPPING,
					  IBV_QP_CREATE_SCATTER_FCS,
					  IBV_QP_CREATE_CVLAN_STRIPPING |
						  IBV_QP_CREATE_SCATTER_FCS };
	struct raw_frame frame = raw_frame(2), tagged = frame;
	struct raw_rule rule = raw_rule_for(&frame);
	struct taker takers[CT_COUNT(flags)];
	struct ibv_flow *flows[CT_COUNT(flags)];
	struct raw_box a;

	raw_open(t, &a, 0);
	tagged.vlan = TAG;
	for (int i = 0; i < CT_COUNT(flags); i++) {
		taker_open(t, &takers[i], i + 1, flags[i]);
		flows[i] = raw_flow(&takers[i].box, &rule);
	}
	raw_send(&a, &frame, 0);
	raw_send(&a, &tagged, 0);
	for (int i = 0; i < CT_COUNT(flags); i++) {
		check(&takers[i], &frame, flags[i]);
		check(&takers[i], &tagged, flags[i]);
		CT_EQ(ibv_destroy_flow(flows[i]), 0);
		raw_close(&takers[i].box);
	}
	raw_close(&a);
}

/* Of a provider's tag the completion could not say what it was: it stays. */
static void service_tag(struct ct *t)
{
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct taker taker;
	struct ibv_flow *flow;
	struct raw_box a;

	raw_open(t, &a, 0);
	frame.type = 0x88a8; /* what follows is a tag */
	taker_open(t, &taker, 1, IBV_QP_CREATE_CVLAN_STRIPPING);
	flow = raw_flow(&taker.box, &rule);
	raw_send(&a, &frame, 0);
	check(&taker, &frame, IBV_QP_CREATE_CVLAN_STRIPPING);
	CT_EQ(ibv_destroy_flow(flow), 0);
	raw_close(&taker.box);
	raw_close(&a);
}

static void of_other_types(struct ct *t)
{
	struct ibv_cq *cq = ct_object(t->near, t->near->scq);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = ct_object(t->near, t->near->pd),
		.create_flags = IBV_QP_CREATE_SCATTER_FCS,
	};
	struct ibv_device_attr_ex dev;

	CT_EQ(ibv_query_device_ex(ct_context(t->near), NULL, &dev), 0);
	CT_TRUE(dev.raw_packet_caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING);
	CT_TRUE(dev.raw_packet_caps & IBV_RAW_PACKET_CAP_SCATTER_FCS);
	CT_TRUE(!(dev.raw_packet_caps & IBV_RAW_PACKET_CAP_DELAY_DROP));
	CT_NULL(ibv_create_qp_ex(ct_context(t->near), &init), EOPNOTSUPP);
	init.create_flags = IBV_QP_CREATE_PCI_WRITE_END_PADDING;
	init.qp_type = IBV_QPT_RAW_PACKET;
	CT_NULL(ibv_create_qp_ex(ct_context(t->near), &init), EOPNOTSUPP);
}

const struct ct_case ct_strip_cases[] = {
	{ "the tag of a frame is cut out, its FCS appended, as the QP was created", tag_and_fcs,
	  CT_SOLO },
	{ "a service tag is not cut out", service_tag, CT_SOLO },
	{ "only raw packet QPs have the flags of frames", of_other_types, CT_SOLO },
	{ 0 },
};
