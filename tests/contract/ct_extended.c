/* SPDX-License-Identifier: BSD-2-Clause */
/* The extended ways to make and poll objects, as far as the device has them. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

static struct ibv_cq_ex *make_cq(struct ct *t)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 64,
					    .wc_flags = IBV_WC_EX_WITH_BYTE_LEN |
							IBV_WC_EX_WITH_IMM |
							IBV_WC_EX_WITH_QP_NUM };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ct_context(t->near), &init);

	if (!cq && errno == EOPNOTSUPP)
		ct_skip("the device has no extended CQs");
	CT_TRUE(cq != NULL);
	return cq;
}

/* A near RC QP that receives into `cq`, connected to a far one by hand. */
static struct ibv_qp *make_receiver(struct ct *t, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex init = { .send_cq = cq,
					    .recv_cq = cq,
					    .qp_type = IBV_QPT_RC,
					    .cap = { 8, 8, 1, 1, 0 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .pd = ct_object(t->near, t->near->pd) };
	struct ibv_qp *qp = ibv_create_qp_ex(ct_context(t->near), &init);

	CT_TRUE(qp != NULL);
	return qp;
}

static void connect_receiver(struct ct *t, struct ibv_qp *qp, struct ct_link *to_near)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_qp peer = { .end = t->near, .type = IBV_QPT_RC, .qpn = qp->qp_num, .psn = 5 };
	struct ibv_qp_attr attr;
	struct ct_link l;
	int mask;

	ct_link_create(t, &l, &o);
	*to_near = ct_reverse(&l);
	to_near->b = peer;
	mask = ct_attr_init(&peer, &attr);
	CT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	mask = ct_attr_rtr(&peer, &to_near->a, &o, &attr);
	CT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	ct_init(&to_near->a);
	ct_rtr(&to_near->a, &peer, &o);
	ct_rts(&to_near->a, &o);
}

static void deliver(struct ct *t, struct ibv_qp *qp, struct ct_link *l, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_sge from = ct_sge(t->far, 0, 10 + i), to = ct_sge(t->near, TARGET, 256);
		struct ibv_recv_wr recv = { .wr_id = i, .sg_list = &to, .num_sge = 1 }, *bad;
		struct ibv_send_wr wr = ct_wr(l, IBV_WR_SEND_WITH_IMM, i, &from, 1);

		wr.imm_data = 100 + i;
		CT_EQ(ibv_post_recv(qp, &recv, &bad), 0);
		ct_post(&l->a, &wr);
		ct_sent(l, i, IBV_WC_SUCCESS);
	}
}

static void plain_poll(struct ct *t)
{
	struct ibv_cq_ex *cq = make_cq(t);
	struct ibv_qp *qp = make_receiver(t, ibv_cq_ex_to_cq(cq));
	struct ibv_wc wc;
	struct ct_link l;

	connect_receiver(t, qp, &l);
	deliver(t, qp, &l, 3);
	for (int i = 0; i < 3; i++) {
		double deadline_s = ct_now_s() + CT_DEADLINE_MS / 1e3;
		int n;

		while (!(n = ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc)) && ct_now_s() < deadline_s)
			;
		CT_EQ(n, 1);
		CT_EQ(wc.wr_id, i);
		CT_EQ(wc.byte_len, 10 + i);
	}
	CT_EQ(ibv_destroy_qp(qp), 0);
	CT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void iterator_poll(struct ct *t)
{
	struct ibv_cq_ex *cq = make_cq(t);
	struct ibv_qp *qp = make_receiver(t, ibv_cq_ex_to_cq(cq));
	struct ibv_poll_cq_attr none = { 0 };
	double deadline_s;
	struct ct_link l;
	int ret;

	CT_EQ(ibv_start_poll(cq, &none), ENOENT);
	connect_receiver(t, qp, &l);
	deliver(t, qp, &l, 3);
	deadline_s = ct_now_s() + CT_DEADLINE_MS / 1e3;
	while ((ret = ibv_start_poll(cq, &none)) == ENOENT && ct_now_s() < deadline_s)
		;
	CT_EQ(ret, 0);
	for (int i = 0; i < 3; i++) {
		CT_EQ(cq->status, IBV_WC_SUCCESS);
		CT_EQ(cq->wr_id, i);
		CT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
		CT_EQ(ibv_wc_read_byte_len(cq), 10 + i);
		CT_EQ(ibv_wc_read_imm_data(cq), 100 + i);
		CT_EQ(ibv_wc_read_qp_num(cq), qp->qp_num);
		CT_EQ(ibv_next_poll(cq), i < 2 ? 0 : ENOENT);
	}
	ibv_end_poll(cq);
	CT_EQ(ibv_start_poll(cq, &none), ENOENT);
	CT_EQ(ibv_destroy_qp(qp), 0);
	CT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

const struct ct_case ct_extended_cases[] = {
	{ "an extended CQ can be polled the plain way", plain_poll, CT_RC },
	{ "an extended CQ can be polled by its iterator", iterator_poll, CT_RC },
	{ 0 },
};
