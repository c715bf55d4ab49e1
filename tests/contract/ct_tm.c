/* SPDX-License-Identifier: BSD-2-Clause */
/* Tag matching SRQs: the list, messages that match, and those that do not. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ct_tm_rig.h"

enum { HEADER = sizeof(struct ibv_tmh), MATCHED = IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID };

static const uint64_t EXACT = UINT64_MAX, BUFFER = 1 << 20, RECEIVE = 4 << 20;

static void caps_are_told(struct ct *t)
{
	struct ibv_device_attr_ex attr;

	CT_EQ(ibv_query_device_ex(ct_context(t->near), NULL, &attr), 0);
	CT_TRUE(attr.tm_caps.flags & IBV_TM_CAP_RC);
	CT_TRUE(attr.tm_caps.max_num_tags > 0 && attr.tm_caps.max_ops > 0);
	CT_TRUE(attr.tm_caps.max_sge > 0);
	CT_TRUE(attr.tm_caps.max_rndv_hdr_size >= HEADER + sizeof(struct ibv_rvh));
}

static struct ibv_srq_init_attr_ex srq_attr(struct ct *t)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = ct_object(t->near, t->near->pd),
		.cq = ct_object(t->near, t->near->rcq),
		.tm_cap = { 4, 4 },
	};
}

static void creating_is_checked(struct ct *t)
{
	struct ibv_srq_init_attr_ex attr = srq_attr(t);
	struct ibv_device_attr_ex device;
	struct ibv_ops_wr *bad, op = { .opcode = IBV_WR_TAG_SYNC };
	struct ibv_srq *basic;
	int handle;

	CT_EQ(ibv_query_device_ex(ct_context(t->near), NULL, &device), 0);
	attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ;
	CT_NULL(ibv_create_srq_ex(ct_context(t->near), &attr), EINVAL);
	attr = srq_attr(t);
	attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_TM;
	CT_NULL(ibv_create_srq_ex(ct_context(t->near), &attr), EINVAL);
	attr = srq_attr(t);
	attr.tm_cap.max_num_tags = device.tm_caps.max_num_tags + 1;
	CT_NULL(ibv_create_srq_ex(ct_context(t->near), &attr), EINVAL);
	attr = srq_attr(t);
	attr.tm_cap.max_ops = device.tm_caps.max_ops + 1;
	CT_NULL(ibv_create_srq_ex(ct_context(t->near), &attr), EINVAL);

	handle = ct_create_srq(t->near, t->near->pd, 4, 1);
	CT_TRUE(handle > 0);
	basic = ct_object(t->near, handle);
	CT_EQ(ibv_post_srq_ops(basic, &op, &bad), EINVAL); /* it has no tags */
	CT_TRUE(bad == &op);
}

static void only_rc(struct ct *t)
{
	struct ibv_srq_init_attr_ex attr = srq_attr(t);
	struct ibv_srq *srq = ibv_create_srq_ex(ct_context(t->near), &attr);
	struct ibv_qp_init_attr init = {
		.send_cq = ct_object(t->near, t->near->scq),
		.recv_cq = ct_object(t->near, t->near->rcq),
		.srq = srq,
		.cap = { 1, 0, 1, 0, 0 },
		.qp_type = IBV_QPT_UD,
	};

	CT_TRUE(srq != NULL);
	CT_NULL(ibv_create_qp(ct_object(t->near, t->near->pd), &init), EINVAL);
	CT_EQ(ibv_destroy_srq(srq), 0);
}

/* The buffer gets the payload, the completion the tag and the sender's context. */
static void eager_message(struct ct *t)
{
	static const uint32_t sizes[] = { 0, 8, 300, 4096, 100000 };
	struct tags tm;

	tm_open(t, &tm, NULL);
	for (unsigned i = 0; i < CT_COUNT(sizes); i++) {
		struct tm_wc wc;

		ct_fill(t->far, 0, HEADER + sizes[i], 40 + i);
		ct_fill(t->near, BUFFER - HEADER, HEADER + 200000, 7);
		tm_added(&tm, 100 + i, 0x1111 + i, EXACT, BUFFER, 100000, NULL);
		tm_send(&tm, 0, 0, HEADER + sizes[i], IBV_TMH_EAGER, 0x1111 + i);
		wc = tm_expect(&tm, 100 + i, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
		CT_EQ(wc.tag, 0x1111 + i);
		CT_EQ(wc.priv, (0x1111 + i) ^ 0x5a5a);
		CT_EQ(wc.byte_len, sizes[i]);
		CT_EQ(wc.qpn, tm.qp[0]->qp_num);
		/* What the pattern has behind a header's length. */
		for (uint32_t at = 0; at < sizes[i]; at += sizes[i] / 7 + 1) {
			uint8_t sent, got;

			ct_peek_bytes(t->far, HEADER + at, 1, &sent);
			ct_peek_bytes(t->near, BUFFER + at, 1, &got);
			CT_EQ(got, sent);
		}
		ct_same(t->near, BUFFER - HEADER, HEADER, 7);
	}
	CT_TRUE(tm_none(&tm));
	tm_close(&tm);
}

static void several_elements(struct ct *t)
{
	struct tags tm;
	struct ibv_sge sge[3];
	struct ibv_ops_wr *bad, op = { .wr_id = 1, .opcode = IBV_WR_TAG_ADD };
	uint8_t sent[60], got[60];

	tm_open(t, &tm, NULL);
	for (int i = 0; i < 3; i++)
		sge[i] = ct_sge(t->near, BUFFER + 1000 * i, 20);
	op.tm.add.recv_wr_id = 5;
	op.tm.add.sg_list = sge;
	op.tm.add.num_sge = 3;
	op.tm.add.tag = 9;
	op.tm.add.mask = EXACT;
	CT_EQ(ibv_post_srq_ops(tm.srq, &op, &bad), 0); /* not signalled: nothing is told */
	ct_fill(t->far, 0, HEADER + 60, 3);
	tm_send(&tm, 0, 0, HEADER + 60, IBV_TMH_EAGER, 9);
	tm_expect(&tm, 5, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	ct_peek_bytes(t->far, HEADER, 60, sent);
	for (int i = 0; i < 3; i++)
		ct_peek_bytes(t->near, BUFFER + 1000 * i, 20, got + 20 * i);
	CT_TRUE(!memcmp(sent, got, 60));
	tm_close(&tm);
}

/* In the order in which they were added, and with masks. */
static void first_match_wins(struct ct *t)
{
	struct tags tm;

	tm_open(t, &tm, NULL);
	tm_added(&tm, 1, 0x0200, 0xff00, BUFFER, 64, NULL);
	tm_added(&tm, 2, 0x0205, EXACT, BUFFER, 64, NULL);
	tm_added(&tm, 3, 0, 0, BUFFER, 64, NULL); /* anything */
	tm_added(&tm, 4, 0x0205, EXACT, BUFFER, 64, NULL);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 0x0205);
	tm_expect(&tm, 1, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 0x0205);
	tm_expect(&tm, 2, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 0x0205);
	tm_expect(&tm, 3, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 0x0205);
	tm_expect(&tm, 4, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	CT_TRUE(tm_none(&tm));
	tm_close(&tm);
}

/* The whole message, header and all. */
static void unexpected_message(struct ct *t)
{
	struct tags tm;
	struct tm_wc wc;
	uint8_t sent[80], got[80];

	tm_open(t, &tm, NULL);
	tm_added(&tm, 1, 0x77, EXACT, BUFFER, 64, NULL);
	tm_receive(&tm, 50, RECEIVE, 80);
	ct_fill(t->far, 0, 80, 3);
	tm_send(&tm, 0, 0, 80, IBV_TMH_EAGER, 0x78);
	wc = tm_expect(&tm, 50, IBV_WC_TM_RECV, 0, IBV_WC_SUCCESS);
	CT_EQ(wc.byte_len, 80);
	CT_EQ(wc.tag, 0);
	ct_peek_bytes(t->far, 0, 80, sent);
	ct_peek_bytes(t->near, RECEIVE, 80, got);
	CT_TRUE(!memcmp(sent, got, 80));
	/* The tag that was there before is not touched by any of this. */
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 0x77);
	tm_expect(&tm, 1, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	tm_close(&tm);
}

/* A message without a tag, and a FIN, never match. */
static void without_a_tag(struct ct *t)
{
	struct tags tm;

	tm_open(t, &tm, NULL);
	tm_added(&tm, 1, 0, 0, BUFFER, 64, NULL);
	tm_receive(&tm, 50, RECEIVE, 64);
	tm_receive(&tm, 51, RECEIVE, 64);
	tm_send(&tm, 0, 0, 64, IBV_TMH_NO_TAG, 5);
	tm_expect(&tm, 50, IBV_WC_TM_NO_TAG, 0, IBV_WC_SUCCESS);
	tm_send(&tm, 0, 0, HEADER, IBV_TMH_FIN, 5);
	CT_EQ(tm_expect(&tm, 51, IBV_WC_TM_NO_TAG, 0, IBV_WC_SUCCESS).byte_len, HEADER);
	/* They are not unexpected: what is added now matches at once. */
	tm_added(&tm, 2, 6, EXACT, BUFFER, 64, NULL);
	tm_close(&tm);
}

/* What is added before the application knows of all messages waits until it does. */
static void phases(struct ct *t)
{
	struct tags tm;

	tm_open(t, &tm, NULL);
	tm_receive(&tm, 50, RECEIVE, 64);
	tm_receive(&tm, 51, RECEIVE, 64);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 1);
	CT_EQ(tm_add(&tm, 1, 2, EXACT, BUFFER, 64, NULL), 0);
	tm_expect(&tm, 50, IBV_WC_TM_RECV, 0, IBV_WC_SUCCESS);
	tm_expect(&tm, 1, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ, IBV_WC_SUCCESS);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 2); /* not yet */
	tm_expect(&tm, 51, IBV_WC_TM_RECV, 0, IBV_WC_SUCCESS);
	CT_EQ(tm_op(&tm, IBV_WR_TAG_SYNC, 9, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC, 1, 0), 0);
	tm_expect(&tm, 9, IBV_WC_TM_SYNC, IBV_WC_TM_SYNC_REQ, IBV_WC_SUCCESS);
	CT_EQ(tm_op(&tm, IBV_WR_TAG_SYNC, 9, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC, 2, 0), 0);
	tm_expect(&tm, 9, IBV_WC_TM_SYNC, 0, IBV_WC_SUCCESS);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 2);
	tm_expect(&tm, 1, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	tm_close(&tm);
}

static void removing(struct ct *t)
{
	struct tags tm;
	uint32_t first, second;

	tm_open(t, &tm, NULL);
	tm_added(&tm, 1, 5, EXACT, BUFFER, 64, &first);
	tm_added(&tm, 2, 5, EXACT, BUFFER, 64, &second);
	CT_TRUE(first != second);
	CT_EQ(tm_op(&tm, IBV_WR_TAG_DEL, 10, IBV_OPS_SIGNALED, 0, first), 0);
	tm_expect(&tm, 10, IBV_WC_TM_DEL, 0, IBV_WC_SUCCESS);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 5);
	tm_expect(&tm, 2, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	/* Too late: a message has it. Told even if it is not signalled. */
	CT_EQ(tm_op(&tm, IBV_WR_TAG_DEL, 11, 0, 0, second), 0);
	tm_expect(&tm, 11, IBV_WC_TM_DEL, 0, IBV_WC_TM_ERR);
	CT_EQ(tm_op(&tm, IBV_WR_TAG_DEL, 12, IBV_OPS_SIGNALED, 0, first), 0);
	tm_expect(&tm, 12, IBV_WC_TM_DEL, 0, IBV_WC_TM_ERR);
	CT_EQ(tm_op(&tm, IBV_WR_TAG_DEL, 13, IBV_OPS_SIGNALED, 0, 0xffff), EINVAL);
	CT_EQ(tm_op(&tm, (enum ibv_ops_wr_opcode)99, 14, IBV_OPS_SIGNALED, 0, 0), EINVAL);
	CT_TRUE(tm_none(&tm));
	tm_close(&tm);
}

static void limits(struct ct *t)
{
	struct ibv_sge sge[64] = { 0 };
	struct ibv_ops_wr *bad, op = { .opcode = IBV_WR_TAG_ADD };
	struct ibv_device_attr_ex device;
	struct tags tm;

	CT_EQ(ibv_query_device_ex(ct_context(t->near), NULL, &device), 0);
	tm_open(t, &tm, NULL);
	for (uint64_t i = 0; i < TM_TAGS; i++)
		tm_added(&tm, i, i, EXACT, BUFFER, 64, NULL);
	CT_EQ(tm_add(&tm, 99, 99, EXACT, BUFFER, 64, NULL), ENOMEM);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 3);
	tm_expect(&tm, 3, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	tm_added(&tm, 3, 3, EXACT, BUFFER, 64, NULL);
	/* Operations are free again when their completion, or a later one, was polled. */
	for (uint64_t i = 0; i < TM_OPS; i++)
		CT_EQ(tm_op(&tm, IBV_WR_TAG_SYNC, i, i == TM_OPS - 1 ? IBV_OPS_SIGNALED : 0, 0, 0),
		      0);
	CT_EQ(tm_op(&tm, IBV_WR_TAG_SYNC, 99, IBV_OPS_SIGNALED, 0, 0), ENOMEM);
	tm_expect(&tm, TM_OPS - 1, IBV_WC_TM_SYNC, 0, IBV_WC_SUCCESS);
	CT_EQ(tm_op(&tm, IBV_WR_TAG_SYNC, 99, IBV_OPS_SIGNALED, 0, 0), 0);
	tm_expect(&tm, 99, IBV_WC_TM_SYNC, 0, IBV_WC_SUCCESS);
	op.tm.add.sg_list = sge;
	op.tm.add.num_sge = (int)device.tm_caps.max_sge + 1;
	CT_EQ(ibv_post_srq_ops(tm.srq, &op, &bad), EINVAL);
	tm_close(&tm);
}

/* Both ends learn of it, and the tag is used up. */
static void fails_at_the_buffer(struct ct *t, uint32_t lkey_change, uint32_t room,
				enum ibv_wc_status here, enum ibv_wc_status there)
{
	struct tags tm;
	struct ibv_sge sge;
	struct ibv_ops_wr *bad, op = { .wr_id = 1, .opcode = IBV_WR_TAG_ADD };

	tm_open(t, &tm, NULL);
	sge = ct_sge(t->near, BUFFER, room);
	sge.lkey ^= lkey_change;
	op.tm.add.recv_wr_id = 5;
	op.tm.add.sg_list = &sge;
	op.tm.add.num_sge = 1;
	op.tm.add.tag = 9;
	op.tm.add.mask = EXACT;
	CT_EQ(ibv_post_srq_ops(tm.srq, &op, &bad), 0);
	tm_header(t->far, 0, IBV_TMH_EAGER, 0, 9);
	ct_send(&tm.l[0], 9, 0, 5000);
	ct_expect(t->far, tm.l[0].a.scq, 9, there);
	tm_expect(&tm, 5, IBV_WC_TM_RECV, 0, here);
	CT_EQ(tm_op(&tm, IBV_WR_TAG_DEL, 11, IBV_OPS_SIGNALED, 0, op.tm.handle), 0);
	tm_expect(&tm, 11, IBV_WC_TM_DEL, 0, IBV_WC_TM_ERR);
	tm_close(&tm);
}

static void too_long(struct ct *t)
{
	fails_at_the_buffer(t, 0, 64, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
}

static void too_long_later(struct ct *t)
{
	fails_at_the_buffer(t, 0, 4900, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
}

static void bad_lkey(struct ct *t)
{
	fails_at_the_buffer(t, 0x80, 8192, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
}

static void no_header(struct ct *t)
{
	struct tags tm;

	tm_open(t, &tm, NULL);
	tm_receive(&tm, 50, RECEIVE, 64);
	ct_send(&tm.l[0], 1, 0, 8);
	ct_expect(t->far, tm.l[0].a.scq, 1, IBV_WC_REM_INV_REQ_ERR);
	CT_TRUE(tm_none(&tm)); /* the receive is still there */
	tm_close(&tm);
}

/* Without a receive an unexpected message waits for one, or for its tag. */
static void waits_for_room(struct ct *t)
{
	struct tags tm;

	tm_open(t, &tm, NULL);
	tm_header(t->far, 0, IBV_TMH_EAGER, 0, 9);
	ct_send(&tm.l[0], 9, 0, 64);
	ct_send(&tm.l[0], 10, 0, 64);
	tm_added(&tm, 1, 9, EXACT, BUFFER, 64, NULL);
	tm_expect(&tm, 1, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	tm_receive(&tm, 50, RECEIVE, 64);
	tm_expect(&tm, 50, IBV_WC_TM_RECV, 0, IBV_WC_SUCCESS);
	ct_expect(t->far, tm.l[0].a.scq, 9, IBV_WC_SUCCESS);
	ct_expect(t->far, tm.l[0].a.scq, 10, IBV_WC_SUCCESS);
	tm_close(&tm);
}

/* Several senders, one list. */
static void many_qps(struct ct *t)
{
	static const struct tm_opts o = { .send_wr = 1, .qps = TM_QPS };
	enum { ROUNDS = 20 };
	struct tags tm;

	tm_open(t, &tm, &o);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		bool seen[TM_QPS] = { false };

		for (uint64_t i = 0; i < TM_QPS; i++)
			tm_added(&tm, 100 + i, i, EXACT, BUFFER, 8192, NULL);
		for (int i = 0; i < TM_QPS; i++) {
			tm_header(t->far, 10000 * (uint64_t)i, IBV_TMH_EAGER, 0, (uint64_t)i);
			ct_send(&tm.l[i], (uint64_t)i, 10000 * (uint64_t)i, 8000);
		}
		for (int i = 0; i < TM_QPS; i++) {
			struct tm_wc wc = tm_wait(&tm);

			CT_EQ(wc.opcode, IBV_WC_TM_RECV);
			CT_TRUE(wc.tag < TM_QPS && !seen[wc.tag]);
			CT_EQ(wc.wr_id, 100 + wc.tag);
			CT_EQ(wc.qpn, tm.qp[wc.tag]->qp_num);
			seen[wc.tag] = true;
		}
		for (int i = 0; i < TM_QPS; i++)
			CT_EQ(ct_wait(t->far, t->far->scq).status, IBV_WC_SUCCESS);
	}
	tm_close(&tm);
}

/* Such a QP sends, writes and is read like any other. */
static void other_operations(struct ct *t)
{
	static const struct tm_opts o = { .send_wr = 8 };
	struct tags tm;
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr;

	tm_open(t, &tm, &o);
	ct_recv(&tm.l[0].a, 3, 0, 64);
	sge = ct_sge(t->near, BUFFER, 64);
	ct_fill(t->near, BUFFER, 64, 9);
	wr = (struct ibv_send_wr){ .wr_id = 1,
				   .sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED };
	CT_EQ(ibv_post_send(tm.qp[0], &wr, &bad), 0);
	ct_expect(t->near, t->near->scq, 1, IBV_WC_SUCCESS);
	ct_expect(t->far, tm.l[0].a.rcq, 3, IBV_WC_SUCCESS);
	ct_same(t->far, 0, 64, 9);
	ct_do(&tm.l[0], IBV_WR_RDMA_READ, 4, BUFFER, 64);
	ct_expect(t->far, tm.l[0].a.scq, 4, IBV_WC_SUCCESS);
	ct_same(t->far, BUFFER, 64, 9);
	ct_fill(t->far, BUFFER, 64, 11);
	ct_do(&tm.l[0], IBV_WR_RDMA_WRITE, 5, BUFFER, 64);
	ct_expect(t->far, tm.l[0].a.scq, 5, IBV_WC_SUCCESS);
	ct_same(t->near, BUFFER, 64, 11);
	tm_close(&tm);
}

/* It takes a receive of the SRQ, so it completes where the SRQ's receives do. */
static void write_with_immediate(struct ct *t)
{
	struct tags tm;

	tm_open(t, &tm, NULL);
	tm_added(&tm, 1, 0, 0, BUFFER, 64, NULL); /* no message of tags */
	tm_receive(&tm, 50, RECEIVE, 64);
	ct_fill(t->far, 0, 5000, 11);
	ct_send_at(&tm.l[0], IBV_WR_RDMA_WRITE_WITH_IMM, 5, 0, 5000);
	ct_expect(t->far, tm.l[0].a.scq, 5, IBV_WC_SUCCESS);
	CT_EQ(tm_expect(&tm, 50, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, IBV_WC_SUCCESS)
		      .byte_len,
	      5000);
	ct_none(t->near, t->near->rcq);
	tm_close(&tm);
}

/* A longer queue than the CQ was made for: what does not fit is an overrun, not one more. */
static void grows_beyond_its_cq(struct ct *t)
{
	enum { EXACT_FIT = TM_RECEIVES + TM_OPS + 2 * TM_TAGS, MORE = 2 * EXACT_FIT };
	static const struct tm_opts o = { .send_wr = 1, .cqe = EXACT_FIT };
	struct ibv_srq_attr attr = { .max_wr = MORE };
	enum ibv_event_type type;
	struct tags tm;
	int handle, cqe;

	tm_open(t, &tm, &o);
	cqe = ibv_cq_ex_to_cq(tm.cq)->cqe;
	if (cqe >= MORE)
		ct_skip("a CQ of %d entries", cqe);
	CT_EQ(ibv_modify_srq(tm.srq, &attr, IBV_SRQ_MAX_WR), 0);
	for (int i = 0; i < MORE; i++)
		tm_receive(&tm, (uint64_t)i, RECEIVE, 64);
	for (int i = 0; i < cqe; i++)
		tm_send(&tm, 0, 0, 64, IBV_TMH_NO_TAG, 1);
	ct_no_event(t->near);
	tm_header(t->far, 0, IBV_TMH_NO_TAG, 0, 1);
	ct_send(&tm.l[0], 2, 0, 64);
	do /* those of the QP may come before it */
		CT_TRUE(ct_get_async_event(t->near, CT_DEADLINE_MS, &type, &handle));
	while (type != IBV_EVENT_CQ_ERR);
	for (int i = 0; i < cqe; i++)
		tm_expect(&tm, (uint64_t)i, IBV_WC_TM_NO_TAG, 0, IBV_WC_SUCCESS);
	tm_close(&tm);
}

static void wakes_a_sleeper(struct ct *t)
{
	static const struct tm_opts o = { .send_wr = 1, .channel = true };
	struct ibv_cq *cq;
	struct tags tm;
	void *context;

	tm_open(t, &tm, &o);
	tm_added(&tm, 1, 9, EXACT, BUFFER, 64, NULL);
	CT_EQ(ibv_req_notify_cq(ibv_cq_ex_to_cq(tm.cq), 0), 0);
	tm_header(t->far, 0, IBV_TMH_EAGER, 0, 9);
	ct_send(&tm.l[0], 9, 0, 64);
	CT_EQ(ibv_get_cq_event(tm.channel, &cq, &context), 0);
	CT_TRUE(cq == ibv_cq_ex_to_cq(tm.cq));
	ibv_ack_cq_events(cq, 1);
	tm_expect(&tm, 1, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	ct_expect(t->far, tm.l[0].a.scq, 9, IBV_WC_SUCCESS);
	tm_close(&tm);
}

/* A QP that went through RESET matches again; the list has outlived it. */
static void after_a_reset(struct ct *t)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ct_opts o = ct_defaults(t);
	struct tags tm;

	tm_open(t, &tm, NULL);
	tm_added(&tm, 1, 9, EXACT, BUFFER, 64, NULL);
	tm_receive(&tm, 50, RECEIVE, 64);
	CT_EQ(ibv_modify_qp(tm.qp[0], &reset, IBV_QP_STATE), 0);
	CT_EQ(ct_to_state(&tm.l[0].a, IBV_QPS_RESET), 0);
	tm_connect(&tm, 0, &o);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 9);
	tm_expect(&tm, 1, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 8);
	tm_expect(&tm, 50, IBV_WC_TM_RECV, 0, IBV_WC_SUCCESS);
	tm_close(&tm);
}

/* They are copies there: nothing of one is needed to free another. */
static void in_any_order_after_fork(struct ct *t)
{
	struct tags tm;
	int status = -1;
	pid_t pid;

	tm_open(t, &tm, NULL);
	tm_added(&tm, 1, 9, EXACT, BUFFER, 64, NULL);
	pid = fork();
	CT_TRUE(pid >= 0);
	if (!pid) {
		alarm(CT_DEADLINE_MS / 1000);
		_exit(ibv_destroy_cq(ibv_cq_ex_to_cq(tm.cq)) || ibv_destroy_srq(tm.srq) ||
		      ibv_destroy_qp(tm.qp[0]));
	}
	CT_EQ(waitpid(pid, &status, 0), pid);
	CT_EQ(status, 0);
	tm_send(&tm, 0, 0, 64, IBV_TMH_EAGER, 9);
	tm_expect(&tm, 1, IBV_WC_TM_RECV, MATCHED, IBV_WC_SUCCESS);
	tm_close(&tm);
}

const struct ct_case ct_tm_cases[] = {
	{ "the device tells its limits of tag matching", caps_are_told, CT_SOLO },
	{ "an SRQ that matches tags needs a CQ and tm_cap within the limits", creating_is_checked,
	  CT_SOLO },
	{ "tags are matched on RC only", only_rc, CT_SOLO },
	{ "an eager message goes into its tagged buffer without the header", eager_message,
	  CT_RC | CT_IB },
	{ "a tagged buffer may have several elements", several_elements, CT_RC },
	{ "the first tag that matches under its mask wins", first_match_wins, CT_RC },
	{ "an unexpected tag goes into a receive with its header", unexpected_message, CT_RC },
	{ "NO_TAG and FIN never match a tag", without_a_tag, CT_RC },
	{ "a tag added out of phase matches nothing before the SYNC", phases, CT_RC },
	{ "a removed tag does not match, a consumed tag is not removed", removing, CT_RC },
	{ "the tag list and its operations have the limits asked for", limits, CT_RC },
	{ "a tag too short for its message is LOC_LEN", too_long, CT_RC },
	{ "a tag too short for the second packet is LOC_LEN", too_long_later, CT_RC },
	{ "a tag with a bad lkey is LOC_PROT", bad_lkey, CT_RC },
	{ "a message without a tag matching header is REM_INV_REQ", no_header, CT_RC },
	{ "a tag or a receive that comes late takes the message that waits", waits_for_room,
	  CT_RC },
	{ "QPs that share a tag list find their tags", many_qps, CT_RC },
	{ "a QP that matches tags does all else as well", other_operations, CT_RC },
	{ "a WRITE with immediate completes at the CQ of the tags", write_with_immediate, CT_RC },
	{ "an SRQ that grows beyond its CQ can overrun it", grows_beyond_its_cq, CT_RC },
	{ "a tag match wakes a sleeper", wakes_a_sleeper, CT_RC },
	{ "a forked child lets go of tag lists, QPs and CQs in any order", in_any_order_after_fork,
	  CT_RC },
	{ "a tag list outlives the RESET of its QP", after_a_reset, CT_RC },
	{ 0 },
};
