/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive work queues, indirection tables, and QPs that spread frames over them. */
#include "ct_raw.h"

enum { WQS = 4, WQ_DEPTH = 32 };

static const uint8_t hash_key[40] = {
	0x2c, 0xc6, 0x81, 0xd1, 0x5b, 0xdb, 0xf4, 0xf7, 0xfc, 0xa2, 0x83, 0x19, 0xdb, 0x1a,
	0x3e, 0x94, 0x6b, 0x9e, 0x38, 0xd9, 0x2c, 0x9c, 0x03, 0xd1, 0xad, 0x99, 0x44, 0xa7,
	0xd9, 0x56, 0x3d, 0x59, 0x06, 0x3c, 0x25, 0xf3, 0xfc, 0x1f, 0xdc, 0x2a,
};

static struct ibv_wq_init_attr wq_attr(struct ct *t, struct ibv_cq *cq)
{
	return (struct ibv_wq_init_attr){
		.wq_context = t,
		.wq_type = IBV_WQT_RQ,
		.max_wr = WQ_DEPTH,
		.max_sge = 1,
		.pd = ct_object(t->near, t->near->pd),
		.cq = cq,
	};
}

static struct ibv_wq *make_wq(struct ct *t, struct ibv_cq *cq)
{
	struct ibv_wq_init_attr attr = wq_attr(t, cq);
	struct ibv_wq *wq = ibv_create_wq(ct_context(t->near), &attr);

	CT_TRUE(wq != NULL);
	CT_EQ(wq->state, IBV_WQS_RESET);
	CT_TRUE(wq->wq_context == t && wq->cq == cq && wq->wq_num != 0);
	CT_TRUE(attr.max_wr >= WQ_DEPTH && attr.max_sge >= 1);
	return wq;
}

static int to(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state };

	return ibv_modify_wq(wq, &attr);
}

static int post(struct ct *t, struct ibv_wq *wq, uint64_t wr_id, uint64_t at)
{
	struct ibv_sge sge = { t->near->base + at, RAW_ROOM, t->near->mr.lkey };
	struct ibv_recv_wr *bad = NULL, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_wq_recv(wq, &wr, &bad);
}

/* ---- objects --------------------------------------------------------------------------------- */

static void states(struct ct *t)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_STATE,
				    .curr_wq_state = IBV_WQS_ERR,
				    .wq_state = IBV_WQS_RDY };
	struct ibv_cq *cq = ibv_create_cq(ct_context(t->near), 100, NULL, NULL, 0);
	struct ibv_wq *wq = make_wq(t, cq);

	CT_EQ(post(t, wq, 1, 0), EINVAL); /* in RESET */
	CT_ERROR(to(wq, IBV_WQS_ERR), EINVAL);
	CT_ERROR(ibv_modify_wq(wq, &attr), EINVAL); /* not its state */
	CT_EQ(to(wq, IBV_WQS_RDY), 0);
	CT_EQ(wq->state, IBV_WQS_RDY);
	for (uint64_t i = 0; i < WQ_DEPTH; i++)
		CT_EQ(post(t, wq, i, 0), 0);
	CT_EQ(post(t, wq, 99, 0), ENOMEM);
	CT_EQ(to(wq, IBV_WQS_ERR), 0);
	for (uint64_t i = 0; i < WQ_DEPTH; i++) {
		struct ibv_wc wc = raw_wait(cq);

		CT_EQ(wc.wr_id, i);
		CT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		CT_EQ(wc.qp_num, wq->wq_num);
	}
	CT_EQ(post(t, wq, 5, 0), 0); /* flushed at once */
	CT_EQ(raw_wait(cq).status, IBV_WC_WR_FLUSH_ERR);
	CT_ERROR(to(wq, IBV_WQS_RDY), EINVAL);
	CT_EQ(to(wq, IBV_WQS_RESET), 0);
	CT_EQ(to(wq, IBV_WQS_RDY), 0);
	CT_EQ(post(t, wq, 6, 0), 0);
	CT_ERROR(ibv_destroy_cq(cq), EBUSY);
	CT_EQ(ibv_destroy_wq(wq), 0);
	CT_EQ(ibv_destroy_cq(cq), 0);
}

/* Of a queue only the stripping of VLAN tags can be changed, in any state. */
static void flags(struct ct *t)
{
	struct ibv_cq *cq = ct_object(t->near, t->near->scq);
	struct ibv_wq_init_attr attr = wq_attr(t, cq);
	struct ibv_wq_attr change = { .attr_mask = IBV_WQ_ATTR_FLAGS,
				      .flags = IBV_WQ_FLAGS_CVLAN_STRIPPING,
				      .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING };
	struct ibv_wq *wq;

	attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	attr.create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_SCATTER_FCS;
	wq = ibv_create_wq(ct_context(t->near), &attr);
	CT_TRUE(wq != NULL);
	change.flags = 0;
	CT_EQ(ibv_modify_wq(wq, &change), 0);
	CT_EQ(to(wq, IBV_WQS_RDY), 0);
	change.flags = IBV_WQ_FLAGS_CVLAN_STRIPPING;
	CT_EQ(ibv_modify_wq(wq, &change), 0);
	change.flags_mask = IBV_WQ_FLAGS_SCATTER_FCS;
	CT_ERROR(ibv_modify_wq(wq, &change), EOPNOTSUPP);
	CT_EQ(ibv_destroy_wq(wq), 0);
}

static void arguments(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_cq *cq = ct_object(t->near, t->near->scq);
	struct ibv_wq_init_attr attr = wq_attr(t, cq);
	struct ibv_rwq_ind_table_init_attr table = { .log_ind_tbl_size = 30 };
	struct ibv_device_attr_ex dev;

	CT_EQ(ibv_query_device_ex(ctx, NULL, &dev), 0);
	CT_TRUE(dev.max_wq_type_rq > 0);
	CT_TRUE(dev.rss_caps.supported_qpts & 1 << IBV_QPT_RAW_PACKET);
	attr.pd = NULL;
	CT_NULL(ibv_create_wq(ctx, &attr), EINVAL);
	attr = wq_attr(t, NULL);
	CT_NULL(ibv_create_wq(ctx, &attr), EINVAL);
	attr = wq_attr(t, cq);
	attr.wq_type = 7;
	CT_NULL(ibv_create_wq(ctx, &attr), EINVAL);
	attr = wq_attr(t, cq);
	attr.max_wr = 1 << 30;
	CT_NULL(ibv_create_wq(ctx, &attr), EINVAL);
	attr = wq_attr(t, cq);
	attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	attr.create_flags = IBV_WQ_FLAGS_DELAY_DROP;
	CT_NULL(ibv_create_wq(ctx, &attr), EOPNOTSUPP);
	CT_NULL(ibv_create_rwq_ind_table(ctx, &table), EINVAL);
}

/* What was made with one opened device is unknown to another. */
static void other_contexts(struct ct *t)
{
	struct ibv_context *other = ibv_open_device(ct_context(t->near)->device);
	struct ibv_cq *cq = ct_object(t->near, t->near->scq);
	struct ibv_wq_init_attr attr = wq_attr(t, cq);
	struct ibv_wq *wq = make_wq(t, cq);
	struct ibv_rwq_ind_table_init_attr table = { .log_ind_tbl_size = 0, .ind_tbl = &wq };

	CT_TRUE(other != NULL);
	CT_NULL(ibv_create_wq(other, &attr), EINVAL);
	CT_NULL(ibv_create_rwq_ind_table(other, &table), EINVAL);
	CT_EQ(ibv_destroy_wq(wq), 0);
	CT_EQ(ibv_close_device(other), 0);
}

/* ---- spreading ------------------------------------------------------------------------------- */

struct spread {
	struct ibv_cq *cq;
	struct ibv_wq *wqs[WQS];
	struct ibv_rwq_ind_table *table;
	struct raw_box box; /* its QP only */
};

static struct ibv_qp_init_attr_ex spread_attr(struct ct *t, struct ibv_rwq_ind_table *table,
					      uint64_t fields)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = ct_object(t->near, t->near->pd),
		.rwq_ind_tbl = table,
		.rx_hash_conf = { .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				  .rx_hash_key_len = sizeof(hash_key),
				  .rx_hash_key = (uint8_t *)hash_key,
				  .rx_hash_fields_mask = fields },
	};
}

static void spread_open(struct ct *t, struct spread *s, uint64_t fields)
{
	struct ibv_rwq_ind_table_init_attr init = { .log_ind_tbl_size = 2, .ind_tbl = s->wqs };
	struct ibv_qp_init_attr_ex attr;

	s->cq = ibv_create_cq(ct_context(t->near), WQS * WQ_DEPTH, NULL, NULL, 0);
	CT_TRUE(s->cq != NULL);
	for (int i = 0; i < WQS; i++) {
		s->wqs[i] = make_wq(t, s->cq);
		CT_EQ(to(s->wqs[i], IBV_WQS_RDY), 0);
		for (uint64_t k = 0; k < WQ_DEPTH; k++)
			CT_EQ(post(t, s->wqs[i], k, 0), 0);
	}
	s->table = ibv_create_rwq_ind_table(ct_context(t->near), &init);
	CT_TRUE(s->table != NULL);
	attr = spread_attr(t, s->table, fields);
	s->box = (struct raw_box){ .t = t, .qp = ibv_create_qp_ex(ct_context(t->near), &attr) };
	CT_TRUE(s->box.qp != NULL);
	CT_TRUE(s->box.qp->send_cq == NULL && s->box.qp->recv_cq == NULL);
}

static void spread_close(struct spread *s)
{
	CT_ERROR(ibv_destroy_rwq_ind_table(s->table), EBUSY);
	CT_EQ(ibv_destroy_qp(s->box.qp), 0);
	CT_ERROR(ibv_destroy_wq(s->wqs[0]), EBUSY);
	CT_EQ(ibv_destroy_rwq_ind_table(s->table), 0);
	for (int i = 0; i < WQS; i++)
		CT_EQ(ibv_destroy_wq(s->wqs[i]), 0);
	CT_EQ(ibv_destroy_cq(s->cq), 0);
}

static int index_of(const struct spread *s, uint32_t wq_num)
{
	for (int i = 0; i < WQS; i++)
		if (s->wqs[i]->wq_num == wq_num)
			return i;
	ct_fail("no work queue has number 0x%x", wq_num);
}

/* As the description of receive side scaling has it, bit by bit. */
static uint32_t toeplitz(const uint8_t *input, int length)
{
	uint32_t hash = 0;

	for (int bit = 0; bit < 8 * length; bit++) {
		uint32_t window = 0;

		if (!(input[bit / 8] >> (7 - bit % 8) & 1))
			continue;
		for (int k = bit; k < bit + 32; k++)
			window = window << 1 | (hash_key[k / 8] >> (7 - k % 8) & 1);
		hash ^= window;
	}
	return hash;
}

static void spreads_by_hash(struct ct *t)
{
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box a;
	struct spread s;
	struct ibv_flow *flow;
	unsigned used = 0;

	raw_open(t, &a, 0);
	spread_open(t, &s, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4);
	flow = raw_flow(&s.box, &rule);
	frame.type = RAW_IPV4;
	frame.dst_ip[0] = 10;
	for (int i = 0; i < 40; i++) {
		struct ibv_wc wc;
		uint8_t input[8];

		frame.src_ip[0] = (uint8_t)(i * 37);
		frame.src_ip[3] = (uint8_t)i;
		memcpy(input, frame.src_ip, 4);
		memcpy(input + 4, frame.dst_ip, 4);
		raw_send(&a, &frame, 0);
		wc = raw_wait(s.cq);
		CT_EQ(wc.status, IBV_WC_SUCCESS);
		CT_EQ(wc.byte_len, RAW_LENGTH);
		CT_EQ(index_of(&s, wc.qp_num), toeplitz(input, 8) % WQS);
		used |= 1u << index_of(&s, wc.qp_num);
		CT_EQ(post(t, s.wqs[index_of(&s, wc.qp_num)], wc.wr_id, 0), 0);
	}
	CT_EQ(used, (1 << WQS) - 1);
	CT_EQ(ibv_destroy_flow(flow), 0);
	spread_close(&s);
	raw_close(&a);
}

/* What has none of the fields goes to the first entry; a queue that is in ERR takes nothing. */
static void without_fields(struct ct *t)
{
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box a;
	struct spread s;
	struct ibv_flow *flow;
	struct ibv_wc wc;

	raw_open(t, &a, 0);
	spread_open(t, &s, IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_SRC_IPV6);
	flow = raw_flow(&s.box, &rule);
	raw_send(&a, &frame, 0);
	wc = raw_wait(s.cq);
	CT_EQ(wc.status, IBV_WC_SUCCESS);
	CT_EQ(index_of(&s, wc.qp_num), 0);
	CT_EQ(to(s.wqs[0], IBV_WQS_ERR), 0);
	for (int i = 1; i < WQ_DEPTH; i++)
		CT_EQ(raw_wait(s.cq).status, IBV_WC_WR_FLUSH_ERR);
	raw_send(&a, &frame, 0);
	CT_EQ(ibv_poll_cq(s.cq, 1, &wc), 0);
	CT_EQ(ibv_destroy_flow(flow), 0);
	spread_close(&s);
	raw_close(&a);
}

/* The queue that has no room in its CQ fails, and says so under its own name. */
static void overruns_its_cq(struct ct *t)
{
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct ibv_cq *cq = ibv_create_cq(ct_context(t->near), 4, NULL, NULL, 0);
	struct ibv_wq *wq = make_wq(t, cq);
	struct ibv_rwq_ind_table_init_attr init = { .log_ind_tbl_size = 0, .ind_tbl = &wq };
	struct ibv_rwq_ind_table *table = ibv_create_rwq_ind_table(ct_context(t->near), &init);
	struct ibv_qp_init_attr_ex attr = spread_attr(t, table, 0);
	struct raw_box a, box = { .t = t };
	struct ibv_async_event event;
	bool of_cq = false, of_wq = false;
	struct ibv_flow *flow;

	raw_open(t, &a, 0);
	box.qp = ibv_create_qp_ex(ct_context(t->near), &attr);
	CT_TRUE(box.qp != NULL);
	CT_EQ(to(wq, IBV_WQS_RDY), 0);
	for (uint64_t i = 0; i < WQ_DEPTH; i++)
		CT_EQ(post(t, wq, i, 0), 0);
	flow = raw_flow(&box, &rule);
	for (int i = 0; i <= cq->cqe; i++)
		raw_send(&a, &frame, 0);
	for (int i = 0; i < 2; i++) {
		CT_EQ(ibv_get_async_event(ct_context(t->near), &event), 0);
		of_cq |= event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
		of_wq |= event.event_type == IBV_EVENT_WQ_FATAL && event.element.wq == wq;
		ibv_ack_async_event(&event);
	}
	CT_TRUE(of_cq && of_wq);
	CT_EQ(ibv_destroy_flow(flow), 0);
	CT_EQ(ibv_destroy_qp(box.qp), 0);
	CT_EQ(ibv_destroy_rwq_ind_table(table), 0);
	CT_EQ(ibv_destroy_wq(wq), 0);
	CT_EQ(ibv_destroy_cq(cq), 0);
	raw_close(&a);
}

static void bad_hashes(struct ct *t)
{
	struct raw_box a;
	struct spread s;
	struct ibv_qp_init_attr_ex good, attr;

	raw_open(t, &a, 0);
	spread_open(t, &s, 0);
	good = spread_attr(t, s.table, 0);
#define REFUSED(with, wanted)                                                  \
	do {                                                                   \
		attr = good;                                                   \
		with;                                                          \
		CT_NULL(ibv_create_qp_ex(ct_context(t->near), &attr), wanted); \
	} while (0)
	REFUSED(attr.rx_hash_conf.rx_hash_function = 2, EOPNOTSUPP);
	REFUSED(attr.rx_hash_conf.rx_hash_key_len = 39, EINVAL);
	REFUSED(attr.rx_hash_conf.rx_hash_fields_mask = IBV_RX_HASH_INNER, EOPNOTSUPP);
	REFUSED(attr.comp_mask &= ~(unsigned)IBV_QP_INIT_ATTR_RX_HASH, EINVAL);
	REFUSED(attr.qp_type = IBV_QPT_UD, EOPNOTSUPP);
	REFUSED(attr.send_cq = a.cq; attr.recv_cq = a.cq; attr.cap.max_send_wr = 1, EINVAL);
#undef REFUSED
	spread_close(&s);
	raw_close(&a);
}

const struct ct_case ct_wq_cases[] = {
	{ "a work queue goes from RESET to RDY to ERR and back", states, CT_SOLO },
	{ "work queues and tables check their arguments", arguments, CT_SOLO },
	{ "work queues and tables stay with their context", other_contexts, CT_SOLO },
	{ "a work queue has flags, and one of them can be changed", flags, CT_SOLO },
	{ "the hash of a frame picks its work queue", spreads_by_hash, CT_SOLO },
	{ "a frame without the hashed fields goes to the first entry", without_fields, CT_SOLO },
	{ "a work queue that overruns its CQ is IBV_EVENT_WQ_FATAL", overruns_its_cq, CT_SOLO },
	{ "a QP that spreads frames checks its arguments", bad_hashes, CT_SOLO },
	{ 0 },
};
