/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC: messages that name their SRQ by number, and what is refused. */
#include <fcntl.h>

#include "ct.h"

static struct ct_opts xrc(const struct ct *t)
{
	struct ct_opts o = ct_defaults(t);

	o.type = IBV_QPT_XRC_SEND;
	return o;
}

static void post(struct ct_end *e, int srq, uint64_t wr_id, uint64_t offset, uint32_t length)
{
	struct ibv_sge sge = ct_sge(e, offset, length);
	struct ibv_recv_wr recv = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CT_EQ(ct_post_srq_recv(e, srq, &recv, &bad), 0);
}

static void send_to(struct ct_link *l, uint32_t srqn, uint64_t wr_id, uint32_t length)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, length);
	struct ibv_send_wr wr = ct_wr(l, IBV_WR_SEND, wr_id, &sge, 1);

	wr.qp_type.xrc.remote_srqn = srqn;
	ct_post(&l->a, &wr);
}

/* One connection, many queues: each message goes where it says, and completes there. */
static void each_message_names_its_srq(struct ct *t)
{
	enum { SRQS = 3, ROUNDS = 12 };
	struct ct_opts o = xrc(t);
	struct ct_link l;
	int xrcd, srq[SRQS], cq[SRQS];
	uint32_t srqn[SRQS];
	struct ct_qp qp;

	ct_link_create(t, &l, &o);
	xrcd = ct_open_xrcd(t->far, NULL, O_CREAT);
	CT_TRUE(ct_create_xrc_recv(t->far, xrcd, &qp) > 0);
	qp.access = l.b.access;
	l.b = qp; /* of a domain that we know, in the place of the link's own */
	for (int i = 0; i < SRQS; i++) {
		cq[i] = ct_create_cq(t->far, 64, 0);
		srq[i] = ct_create_xrc_srq(t->far, xrcd, t->far->pd, cq[i], 16, 1, &srqn[i]);
		CT_TRUE(srq[i] > 0);
	}
	ct_link_connect(&l);
	for (int i = 0; i < ROUNDS; i++) {
		int n = i * 7 % SRQS;
		uint32_t length = i % 2 ? 3000 + i : 8 + i;
		struct ibv_wc wc;

		post(t->far, srq[n], i, 65536 + i * 4096, 4096);
		ct_fill(t->near, 0, length, i);
		send_to(&l, srqn[n], i, length);
		ct_sent(&l, i, IBV_WC_SUCCESS);
		wc = ct_expect(t->far, cq[n], i, IBV_WC_SUCCESS);
		CT_EQ(wc.qp_num, l.b.qpn);
		CT_EQ(wc.src_qp, l.a.qpn);
		CT_EQ(wc.byte_len, length);
		ct_same(t->far, 65536 + i * 4096, length, i);
		for (int k = 0; k < SRQS; k++)
			ct_none(t->far, cq[k]);
	}
}

/* The QP that brought the message fails, and says why; what it was about does not. */
static void refused(struct ct *t, struct ct_link *l, enum ibv_wc_status status)
{
	enum ibv_event_type type;
	bool last = false, request = false;
	int handle;

	ct_sent(l, 1, status);
	ct_wait_state(&l->a, IBV_QPS_ERR);
	ct_wait_state(&l->b, IBV_QPS_ERR);
	while (!last || !request) { /* in either order */
		CT_TRUE(ct_get_async_event(t->far, CT_DEADLINE_MS, &type, &handle));
		CT_EQ(handle, l->b.handle);
		last |= type == IBV_EVENT_QP_LAST_WQE_REACHED;
		request |= type != IBV_EVENT_QP_LAST_WQE_REACHED && type != IBV_EVENT_COMM_EST;
	}
}

static void an_unknown_srq_is_refused(struct ct *t)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct ct_opts o = xrc(t);

	for (int i = 0; i < CT_COUNT(ops); i++) {
		struct ibv_sge sge = ct_sge(t->near, 0, 8);
		struct ibv_send_wr wr;
		struct ct_link l;

		ct_link_open(t, &l, &o);
		wr = ct_wr(&l, ops[i], 1, &sge, 1);
		wr.qp_type.xrc.remote_srqn = l.b.srqn ^ 0x7ff;
		ct_post(&l.a, &wr);
		refused(t, &l, IBV_WC_REM_INV_REQ_ERR);
	}
}

static void an_srq_of_another_domain_is_refused(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_link l, other;

	ct_link_open(t, &l, &o);
	ct_link_open(t, &other, &o);
	ct_recv(&other.b, 7, 65536, 64);
	send_to(&l, other.b.srqn, 1, 8);
	refused(t, &l, IBV_WC_REM_INV_REQ_ERR);
	ct_none(t->far, other.b.rcq);
	ct_send(&other, 2, 0, 8); /* it is still there, for its own */
	ct_sent(&other, 2, IBV_WC_SUCCESS);
	ct_got(&other, 7, IBV_WC_SUCCESS);
}

static void a_destroyed_srq_is_refused(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_link l;

	ct_link_open(t, &l, &o);
	ct_recv(&l.b, 5, 65536, 64);
	ct_send(&l, 4, 0, 8);
	ct_sent(&l, 4, IBV_WC_SUCCESS);
	ct_got(&l, 5, IBV_WC_SUCCESS);
	CT_EQ(ct_destroy(t->far, l.b.srq), 0);
	ct_send(&l, 1, 0, 8);
	refused(t, &l, IBV_WC_REM_INV_REQ_ERR);
}

/* Keys are those of the SRQ's PD: the QP has none. */
static void keys_belong_to_the_pd_of_the_srq(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_mr mr;
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct ibv_send_wr wr;
	struct ct_link l;
	int pd = ct_alloc_pd(t->far);

	CT_TRUE(ct_reg_mr(t->far, pd, 0, 4096, CT_ACCESS_ALL, &mr) > 0);
	ct_link_open(t, &l, &o);
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	ct_aim(&wr, mr.addr, mr.rkey);
	ct_post(&l.a, &wr);
	refused(t, &l, IBV_WC_REM_ACCESS_ERR);
}

static void a_receive_that_is_too_short(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_link l;

	ct_link_open(t, &l, &o);
	ct_recv(&l.b, 3, 65536, 16);
	ct_recv(&l.b, 4, 65536, 16);
	ct_send(&l, 1, 0, 5000);
	ct_sent(&l, 1, IBV_WC_REM_INV_REQ_ERR);
	ct_got(&l, 3, IBV_WC_LOC_LEN_ERR);
	ct_wait_state(&l.b, IBV_QPS_ERR);
	ct_none(t->far, l.b.rcq); /* the other receive is for other QPs */
}

static void no_receive_is_rnr(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_link l;

	o.rnr_retry = 1;
	ct_link_open(t, &l, &o);
	ct_send(&l, 1, 0, 8);
	ct_sent(&l, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	CT_TRUE(ct_qp_state(&l.b) == IBV_QPS_RTS);
}

static void xrc_and_rc_do_not_mix(struct ct *t)
{
	struct ct_opts o = xrc(t), rc = ct_defaults(t);
	struct ct_link l, plain;

	o.retry_cnt = 0;
	o.timeout = 10;
	rc.type = IBV_QPT_RC;
	ct_link_create(t, &l, &o);
	ct_link_create(t, &plain, &rc);
	plain.b.srqn = l.b.srqn;
	l.b = plain.b;
	ct_link_connect(&l);
	ct_send(&l, 1, 0, 8);
	ct_sent(&l, 1, IBV_WC_RETRY_EXC_ERR);
}

static void an_srq_limit_fires(struct ct *t)
{
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct ct_opts o = xrc(t);
	struct ct_link l;

	ct_link_open(t, &l, &o);
	for (int i = 0; i < 3; i++)
		ct_recv(&l.b, i, 65536 + i * 64, 64);
	CT_EQ(ct_modify_srq(t->far, l.b.srq, &attr, IBV_SRQ_LIMIT), 0);
	for (int i = 0; i < 2; i++) {
		ct_send(&l, i, 0, 8);
		ct_sent(&l, i, IBV_WC_SUCCESS);
		ct_got(&l, i, IBV_WC_SUCCESS);
	}
	ct_event(t->far, IBV_EVENT_SRQ_LIMIT_REACHED, l.b.srq);
}

/* A CQ with a channel wakes for an XRC SRQ as for any queue. */
static void an_armed_cq_wakes(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_link l;
	int channel = ct_create_channel(t->far);

	o.rcq_b = ct_create_cq(t->far, 64, channel);
	ct_link_open(t, &l, &o);
	ct_recv(&l.b, 3, 65536, 64);
	CT_EQ(ct_req_notify_cq(t->far, o.rcq_b, false), 0);
	ct_send(&l, 1, 0, 8);
	CT_EQ(ct_get_cq_event(t->far, channel, CT_DEADLINE_MS), o.rcq_b);
	ct_got(&l, 3, IBV_WC_SUCCESS);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
}

const struct ct_case ct_xrc_message_cases[] = {
	{ "each XRC message reaches the SRQ that it names", each_message_names_its_srq,
	  CT_RC | CT_IB },
	{ "an unknown XRC SRQ is REM_INV_REQ_ERR", an_unknown_srq_is_refused, CT_RC },
	{ "an SRQ of another XRC domain is REM_INV_REQ_ERR", an_srq_of_another_domain_is_refused,
	  CT_RC },
	{ "a destroyed XRC SRQ is REM_INV_REQ_ERR", a_destroyed_srq_is_refused, CT_RC },
	{ "keys of XRC belong to the PD of the SRQ", keys_belong_to_the_pd_of_the_srq, CT_RC },
	{ "an XRC message longer than its receive: REM_INV_REQ_ERR here, LOC_LEN_ERR there",
	  a_receive_that_is_too_short, CT_RC },
	{ "no receive in an XRC SRQ: RNR_RETRY_EXC_ERR", no_receive_is_rnr, CT_RC },
	{ "an XRC QP and an RC QP do not talk", xrc_and_rc_do_not_mix, CT_RC },
	{ "the limit of an XRC SRQ fires", an_srq_limit_fires, CT_RC },
	{ "an armed CQ wakes for an XRC SRQ", an_armed_cq_wakes, CT_RC },
	{ 0 },
};
