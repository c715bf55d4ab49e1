/* SPDX-License-Identifier: BSD-2-Clause */
/* A CQ that is too small: it dies, and with it the QPs that cannot complete. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

static int cqe_of(struct ct *t, int cq)
{
	return ((struct ibv_cq *)ct_object(t->near, cq))->cqe;
}

/* CQ_ERR for the CQ and QP_FATAL for the QP, in either order. */
static void expect_events(struct ct_end *e, int cq, int qp)
{
	enum ibv_event_type type;
	int handle;
	bool cq_err = false, qp_fatal = false;

	for (int i = 0; i < 2; i++) {
		CT_TRUE(ct_get_async_event(e, CT_DEADLINE_MS, &type, &handle));
		cq_err |= type == IBV_EVENT_CQ_ERR && handle == cq;
		qp_fatal |= type == IBV_EVENT_QP_FATAL && handle == qp;
	}
	CT_TRUE(cq_err);
	CT_TRUE(qp_fatal);
}

/* What is in the CQ is what came first, complete and in order; then nothing more. */
static void expect_prefix(struct ct_end *e, int cq, int cqe)
{
	struct ibv_wc wc;
	int got, n = 0;

	while ((got = ct_poll_cq(e, cq, 1, 0, &wc)) == 1) {
		CT_EQ(wc.wr_id, n);
		CT_EQ(wc.status, IBV_WC_SUCCESS);
		n++;
	}
	CT_TRUE(n <= cqe);
	CT_TRUE(n == cqe || got < 0);
}

static void send_overrun(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, other;
	int cqe;

	ct_link_open(t, &other, NULL);
	o.scq_a = ct_create_cq(t->near, 4, 0);
	cqe = cqe_of(t, o.scq_a);
	o.cap.max_send_wr = cqe + 8;
	ct_link_open(t, &l, &o);
	for (int i = 0; i < cqe + 2; i++)
		ct_do(&l, IBV_WR_RDMA_WRITE, i, TARGET, 8);
	expect_events(t->near, o.scq_a, l.a.handle);
	ct_wait_state(&l.a, IBV_QPS_ERR);
	expect_prefix(t->near, o.scq_a, cqe);
	ct_usable(&other);
}

static void receive_overrun(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, back, other;
	int cqe;

	ct_link_open(t, &other, NULL);
	o.rcq_a = ct_create_cq(t->near, 4, 0);
	cqe = cqe_of(t, o.rcq_a);
	o.cap.max_send_wr = o.cap.max_recv_wr = cqe + 8;
	ct_link_open(t, &l, &o);
	back = ct_reverse(&l);
	for (int i = 0; i < cqe + 2; i++)
		ct_recv(&l.a, i, TARGET, 256);
	for (int i = 0; i < cqe + 2; i++)
		ct_send(&back, i, 0, 8);
	expect_events(t->near, o.rcq_a, l.a.handle);
	ct_wait_state(&l.a, IBV_QPS_ERR);
	expect_prefix(t->near, o.rcq_a, cqe);
	ct_usable(&other);
}

/* As many as fit are fine, also again and again. */
static void exactly_full_is_fine(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	int cqe;

	o.scq_a = ct_create_cq(t->near, 4, 0);
	cqe = cqe_of(t, o.scq_a);
	o.cap.max_send_wr = cqe;
	ct_link_open(t, &l, &o);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < cqe; i++)
			ct_do(&l, IBV_WR_RDMA_WRITE, i, TARGET, 8);
		for (int i = 0; i < cqe; i++)
			ct_sent(&l, i, IBV_WC_SUCCESS);
	}
	ct_no_event(t->near);
}

/* What is not polled when a queue is emptied leaves its room: the CQ goes on as before. */
static void room_comes_back(struct ct *t, enum ibv_qp_type type)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, stays; /* stays: the CQs go on counting */
	int cqe;

	o.type = type;
	o.scq_a = ct_create_cq(t->near, 4, 0);
	o.rcq_b = ct_create_cq(t->far, 4, 0);
	cqe = cqe_of(t, o.scq_a);
	o.cap.max_send_wr = o.cap.max_recv_wr = cqe + 8;
	ct_link_open(t, &stays, &o);
	for (int round = 0; round < 4; round++) {
		ct_link_open(t, &l, &o);
		for (int i = 0; i < cqe; i++) {
			ct_recv(&l.b, i, TARGET, 64);
			ct_send(&l, i, 0, 8);
		}
		/* One each is polled, and the others are left. */
		ct_sent(&l, 0, IBV_WC_SUCCESS);
		ct_got(&l, 0, IBV_WC_SUCCESS);
		if (round % 2) {
			CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
			CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
		}
		CT_EQ(ct_destroy(t->near, l.a.handle), 0);
		CT_EQ(ct_destroy(t->far, l.b.handle), 0);
		if (l.b.srq)
			CT_EQ(ct_destroy(t->far, l.b.srq), 0);
	}
	ct_link_open(t, &l, &o);
	for (int i = 0; i < cqe; i++) {
		ct_recv(&l.b, i, TARGET, 64);
		ct_send(&l, i, 0, 8);
	}
	for (int i = 0; i < cqe; i++) {
		ct_sent(&l, i, IBV_WC_SUCCESS);
		ct_got(&l, i, IBV_WC_SUCCESS);
	}
	ct_no_event(t->near);
	ct_no_event(t->far);
}

static void room_of_qps_comes_back(struct ct *t)
{
	room_comes_back(t, IBV_QPT_RC);
}

static void room_of_xrc_srqs_comes_back(struct ct *t)
{
	room_comes_back(t, IBV_QPT_XRC_SEND);
}

/* The receives of the SRQ are there for the next QP, which completes at the same CQ. */
static void room_of_an_srq_comes_back(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, stays;
	int cqe, srq = ct_create_srq(t->far, t->far->pd, 64, 1);

	o.srq_b = srq;
	o.rcq_b = ct_create_cq(t->far, 4, 0);
	cqe = cqe_of(t, ct_create_cq(t->near, 4, 0)); /* they are alike */
	/* The queues of QPs count with a CQ, shared ones do not: one that makes it count. */
	o.scq_b = o.rcq_b;
	o.cap.max_send_wr = cqe + 8;
	ct_link_open(t, &stays, &o);
	for (int round = 0; round < 4; round++) {
		ct_link_open(t, &l, &o);
		for (int i = 0; i < cqe; i++) {
			struct ibv_sge sge = ct_sge(t->far, TARGET, 64);
			struct ibv_recv_wr recv = { .wr_id = i, .sg_list = &sge, .num_sge = 1 },
					   *bad;

			CT_EQ(ct_post_srq_recv(t->far, srq, &recv, &bad), 0);
			ct_send(&l, i, 0, 8);
			ct_sent(&l, i, IBV_WC_SUCCESS);
		}
		CT_EQ(ct_wait(t->far, o.rcq_b).status, IBV_WC_SUCCESS);
		if (round % 2)
			CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
		CT_EQ(ct_destroy(t->far, l.b.handle), 0);
		CT_EQ(ct_destroy(t->near, l.a.handle), 0);
	}
	ct_no_event(t->far);
}

/* Flushed ones take no room, and leave none when their QP goes before they were polled. */
static void flushed_sends_have_no_room(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, failed;
	int cqe;

	o.scq_a = ct_create_cq(t->near, 4, 0);
	cqe = cqe_of(t, o.scq_a);
	o.cap.max_send_wr = cqe + 8;
	ct_link_open(t, &l, &o);
	for (int round = 0; round < 4; round++) {
		ct_link_open(t, &failed, &o);
		CT_EQ(ct_to_state(&failed.a, IBV_QPS_ERR), 0);
		for (int i = 0; i < 5; i++)
			ct_do(&failed, IBV_WR_RDMA_WRITE, i, TARGET, 8);
		if (round % 2)
			CT_EQ(ct_to_state(&failed.a, IBV_QPS_RESET), 0);
		CT_EQ(ct_destroy(t->near, failed.a.handle), 0);
		for (int i = 0; i < cqe; i++)
			ct_do(&l, IBV_WR_RDMA_WRITE, i, TARGET, 8);
		for (int i = 0; i < cqe; i++)
			ct_sent(&l, i, IBV_WC_SUCCESS);
	}
	ct_no_event(t->near);
}

const struct ct_case ct_err_overrun_cases[] = {
	{ "a CQ overrun by sends: CQ_ERR, QP_FATAL, nothing overwritten", send_overrun, CT_RC },
	{ "a CQ overrun by receives: CQ_ERR, QP_FATAL, nothing overwritten", receive_overrun,
	  CT_RC | CT_UD },
	{ "a CQ that is exactly full is fine", exactly_full_is_fine, CT_RC | CT_UC },
	{ "completions of a QP that goes leave their room in the CQ", room_of_qps_comes_back,
	  CT_RC },
	{ "flushed sends of a QP that goes leave the CQ as it was", flushed_sends_have_no_room,
	  CT_RC | CT_UC },
	{ "completions of an XRC SRQ that goes leave their room in the CQ",
	  room_of_xrc_srqs_comes_back, CT_RC },
	{ "completions of an SRQ whose QP goes leave their room in the CQ",
	  room_of_an_srq_comes_back, CT_RC },
	{ 0 },
};
