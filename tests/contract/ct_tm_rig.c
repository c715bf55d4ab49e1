/* SPDX-License-Identifier: BSD-2-Clause */
#include "ct_tm_rig.h"

#include <endian.h>
#include <unistd.h>

static void make_queue(struct ct *t, struct tags *tm, const struct tm_opts *o)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = (uint32_t)(o->cqe ? o->cqe : TM_CQE),
		.channel = tm->channel,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO,
	};
	struct ibv_srq_init_attr_ex srq = {
		.attr = { .max_wr = TM_RECEIVES, .max_sge = 2 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = o->srq_pd ? o->srq_pd : ct_object(t->near, t->near->pd),
		.tm_cap = { .max_num_tags = TM_TAGS, .max_ops = TM_OPS },
	};

	tm->cq = ibv_create_cq_ex(ct_context(t->near), &cq);
	CT_TRUE(tm->cq != NULL);
	srq.cq = ibv_cq_ex_to_cq(tm->cq);
	tm->srq = ibv_create_srq_ex(ct_context(t->near), &srq);
	CT_TRUE(tm->srq != NULL);
}

static void make_qp(struct ct *t, struct tags *tm, int i, uint32_t send_wr)
{
	struct ibv_qp_init_attr init = {
		.send_cq = ct_object(t->near, t->near->scq),
		.recv_cq = ct_object(t->near, t->near->rcq),
		.srq = tm->srq,
		.cap = { .max_send_wr = send_wr, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	tm->qp[i] = ibv_create_qp(ct_object(t->near, t->near->pd), &init);
	CT_TRUE(tm->qp[i] != NULL);
	ct_link_create(t, &l, &o);
	l.a.qpn = tm->qp[i]->qp_num;
	l.a.handle = 0;
	tm->l[i] = ct_reverse(&l);
}

void tm_connect(struct tags *tm, int i, const struct ct_opts *o)
{
	const struct ct_qp *near = &tm->l[i].b, *far = &tm->l[i].a;
	struct ibv_qp_attr attr;
	int mask = ct_attr_init(near, &attr);

	CT_EQ(ibv_modify_qp(tm->qp[i], &attr, mask), 0);
	mask = ct_attr_rtr(near, far, o, &attr);
	CT_EQ(ibv_modify_qp(tm->qp[i], &attr, mask), 0);
	mask = ct_attr_rts(near, o, &attr);
	CT_EQ(ibv_modify_qp(tm->qp[i], &attr, mask), 0);
	ct_init(far);
	ct_rtr(far, near, o);
	ct_rts(far, o);
}

void tm_open(struct ct *t, struct tags *tm, const struct tm_opts *given)
{
	static const struct tm_opts usual = { .send_wr = 4, .qps = 1 };
	const struct tm_opts *o = given ? given : &usual;
	struct ct_opts link = ct_defaults(t);

	*tm = (struct tags){ .t = t, .qps = o->qps ? o->qps : 1 };
	if (o->channel) {
		tm->channel = ibv_create_comp_channel(ct_context(t->near));
		CT_TRUE(tm->channel != NULL);
	}
	make_queue(t, tm, o);
	for (int i = 0; i < tm->qps; i++) {
		make_qp(t, tm, i, o->send_wr);
		tm_connect(tm, i, &link);
	}
}

void tm_close(struct tags *tm)
{
	for (int i = 0; i < tm->qps; i++)
		CT_EQ(ibv_destroy_qp(tm->qp[i]), 0);
	CT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(tm->cq)), EBUSY); /* the SRQ uses it */
	CT_EQ(ibv_destroy_srq(tm->srq), 0);
	CT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(tm->cq)), 0);
	if (tm->channel)
		CT_EQ(ibv_destroy_comp_channel(tm->channel), 0);
}

/* ---- the near end ---------------------------------------------------------------------------- */

int tm_add(struct tags *tm, uint64_t wr_id, uint64_t tag, uint64_t mask, uint64_t offset,
	   uint32_t length, uint32_t *handle)
{
	struct ibv_sge sge = ct_sge(tm->t->near, offset, length);
	struct ibv_ops_wr *bad = NULL, op = {
		.wr_id = wr_id,
		.opcode = IBV_WR_TAG_ADD,
		.flags = IBV_OPS_SIGNALED,
	};
	int ret;

	op.tm.add.recv_wr_id = wr_id;
	op.tm.add.sg_list = &sge;
	op.tm.add.num_sge = 1;
	op.tm.add.tag = tag;
	op.tm.add.mask = mask;
	ret = ibv_post_srq_ops(tm->srq, &op, &bad);
	CT_TRUE(!ret == !bad);
	if (handle)
		*handle = op.tm.handle;
	return ret;
}

int tm_op(struct tags *tm, enum ibv_ops_wr_opcode opcode, uint64_t wr_id, int flags,
	  uint32_t unexpected, uint32_t handle)
{
	struct ibv_ops_wr *bad, op = { .wr_id = wr_id, .opcode = opcode, .flags = flags };

	op.tm.unexpected_cnt = unexpected;
	op.tm.handle = handle;
	return ibv_post_srq_ops(tm->srq, &op, &bad);
}

void tm_receive(struct tags *tm, uint64_t wr_id, uint64_t offset, uint32_t length)
{
	struct ibv_sge sge = ct_sge(tm->t->near, offset, length);
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	CT_EQ(ibv_post_srq_recv(tm->srq, &wr, &bad), 0);
}

static bool poll_one(struct tags *tm, struct tm_wc *wc)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_wc_tm_info info;
	int ret = ibv_start_poll(tm->cq, &attr);

	if (ret == ENOENT)
		return false;
	CT_EQ(ret, 0);
	ibv_wc_read_tm_info(tm->cq, &info);
	*wc = (struct tm_wc){
		.wr_id = tm->cq->wr_id,
		.tag = info.tag,
		.priv = info.priv,
		.status = tm->cq->status,
		.opcode = ibv_wc_read_opcode(tm->cq),
		.flags = ibv_wc_read_wc_flags(tm->cq),
		.byte_len = ibv_wc_read_byte_len(tm->cq),
		.qpn = ibv_wc_read_qp_num(tm->cq),
	};
	ibv_end_poll(tm->cq);
	return true;
}

bool tm_none(struct tags *tm)
{
	struct tm_wc wc;

	return !poll_one(tm, &wc);
}

struct tm_wc tm_wait_at(struct tags *tm)
{
	double end_s = ct_now_s() + CT_DEADLINE_MS / 1000.0;
	struct tm_wc wc;

	while (!poll_one(tm, &wc))
		if (ct_now_s() > end_s)
			ct_fail("no completion came");
	return wc;
}

struct tm_wc tm_expect_at(struct tags *tm, uint64_t wr_id, enum ibv_wc_opcode opcode,
			  unsigned flags, enum ibv_wc_status status)
{
	struct tm_wc wc = tm_wait_at(tm);

	if (wc.wr_id != wr_id || wc.status != status ||
	    (status == IBV_WC_SUCCESS && (wc.opcode != opcode || wc.flags != flags)))
		ct_fail("completion wr_id %llu opcode %d flags 0x%x status %d instead of "
			"wr_id %llu opcode %d flags 0x%x status %d",
			(unsigned long long)wc.wr_id, wc.opcode, wc.flags, wc.status,
			(unsigned long long)wr_id, opcode, flags, status);
	return wc;
}

/* ---- the far end ----------------------------------------------------------------------------- */

static void poke(struct ct_end *e, uint64_t offset, const void *bytes, size_t length)
{
	uint64_t words[4] = { 0 };

	memcpy(words, bytes, length);
	for (size_t i = 0; i < length / 8; i++)
		ct_poke(e, offset + i * 8, words[i]);
}

void tm_header(struct ct_end *e, uint64_t offset, uint8_t opcode, uint32_t app_ctx, uint64_t tag)
{
	const struct ibv_tmh header = {
		.opcode = opcode,
		.app_ctx = htobe32(app_ctx),
		.tag = htobe64(tag),
	};

	poke(e, offset, &header, sizeof(header));
}

void tm_rndv_header(struct ct_end *e, uint64_t offset, uint64_t va, uint32_t rkey, uint32_t length)
{
	const struct ibv_rvh header = { htobe64(va), htobe32(rkey), htobe32(length) };

	poke(e, offset, &header, sizeof(header));
}

void tm_send_at(struct tags *tm, int i, uint64_t offset, uint32_t length, uint8_t opcode,
		uint64_t tag)
{
	tm_header(tm->t->far, offset, opcode, (uint32_t)tag ^ 0x5a5a, tag);
	ct_send_at(&tm->l[i], IBV_WR_SEND, tag, offset, length);
	ct_expect_at(tm->l[i].a.end, tm->l[i].a.scq, tag, IBV_WC_SUCCESS);
}
