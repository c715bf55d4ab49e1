/* SPDX-License-Identifier: BSD-2-Clause */
/* What unreliable transports lose in silence, and how their send queue fails and recovers. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

/* ---- datagrams for nobody -------------------------------------------------------------------- */

/* The spoilt datagram is lost; the good one behind it takes the receive. */
static void check_lost(struct ct_link *l, uint32_t qpn, uint32_t qkey)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, 64);
	struct ibv_send_wr wr = ct_wr(l, IBV_WR_SEND, 1, &sge, 1);
	struct ibv_wc wc;

	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	ct_recv(&l->b, 10, TARGET, 1024);
	ct_post(&l->a, &wr);
	ct_sent(l, 1, IBV_WC_SUCCESS);
	ct_send(l, 2, 0, 99);
	ct_sent(l, 2, IBV_WC_SUCCESS);
	wc = ct_got(l, 10, IBV_WC_SUCCESS);
	CT_EQ(wc.byte_len, CT_GRH_BYTES + 99);
	CT_EQ(ct_qp_state(&l->a), IBV_QPS_RTS);
	CT_EQ(ct_qp_state(&l->b), IBV_QPS_RTS);
	ct_no_event(l->a.end);
	ct_no_event(l->b.end);
}

static void wrong_qkey(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	check_lost(&l, l.b.qpn, CT_QKEY + 1);
}

static void wrong_number(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	check_lost(&l, l.b.qpn ^ 0x800, CT_QKEY);
	check_lost(&l, 0xfffffe, CT_QKEY);
}

static void qp_of_another_transport(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, rc;

	o.type = IBV_QPT_RC;
	ct_link_open(t, &l, NULL);
	ct_link_open(t, &rc, &o);
	check_lost(&l, rc.b.qpn, CT_QKEY);
	ct_usable(&rc);
}

static void qp_not_ready(struct ct *t)
{
	struct ct_link l, sleeping;

	ct_link_open(t, &l, NULL);
	ct_link_create(t, &sleeping, NULL);
	ct_init(&sleeping.b);
	ct_recv(&sleeping.b, 66, TARGET, 1024);
	check_lost(&l, sleeping.b.qpn, CT_QKEY);
	ct_none(t->far, sleeping.b.rcq);
}

/* The Q_Key that counts is the one of the receiving QP, and it can change. */
static void qkey_follows_modify(struct ct *t)
{
	struct ibv_qp_attr attr = { .qkey = 0x777 };
	struct ibv_sge sge = ct_sge(t->near, 0, 64);
	struct ibv_send_wr wr;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	CT_EQ(ct_modify_qp(&l.b, &attr, IBV_QP_QKEY), 0);
	ct_recv(&l.b, 10, TARGET, 1024);
	ct_send(&l, 1, 0, 64); /* still with the old one */
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	wr = ct_wr(&l, IBV_WR_SEND_WITH_IMM, 2, &sge, 1);
	wr.wr.ud.remote_qkey = 0x777;
	ct_post(&l.a, &wr);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	CT_TRUE(ct_got(&l, 10, IBV_WC_SUCCESS).wc_flags & IBV_WC_WITH_IMM);
}

/* No receive, no error: the send succeeds, the target stays as it is. */
static void no_receive(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < 5; i++) {
		ct_send(&l, i, 0, 64);
		ct_sent(&l, i, IBV_WC_SUCCESS);
	}
	CT_EQ(ct_qp_state(&l.a), IBV_QPS_RTS);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_RTS);
	ct_no_event(t->far);
}

/* Unconnected or misconnected UC: as if the cable led nowhere. */
static void uc_wrong_psn_or_peer(struct ct *t)
{
	struct ct_link l;
	struct ct_qp wrong;

	if (ct_by_packets() && t->near->port.link_layer == IBV_LINK_LAYER_ETHERNET)
		ct_skip("a packet of UC does not name the QP that sent it");
	ct_link_create(t, &l, NULL);
	ct_init(&l.a);
	ct_rtr(&l.a, &l.b, &l.o);
	ct_rts(&l.a, &l.o);
	ct_init(&l.b);
	ct_recv(&l.b, 10, TARGET, 1024);
	wrong = l.a;
	wrong.qpn ^= 0x800;
	ct_rtr(&l.b, &wrong, &l.o);
	ct_send(&l, 1, 0, 64);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_none(t->far, l.b.rcq);
}

/* ---- SQE
 * ------------------------------------------------------------------------------------------ */

static void fail_send(struct ct_link *l, uint64_t wr_id)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, 64);
	struct ibv_send_wr wr = ct_wr(l, IBV_WR_SEND, wr_id, &sge, 1);

	sge.lkey ^= 0x100;
	wr.send_flags = 0;
	ct_post(&l->a, &wr);
	ct_sent(l, wr_id, IBV_WC_LOC_PROT_ERR);
	CT_EQ(ct_qp_state(&l->a), IBV_QPS_SQE);
}

static void sqe_stops_the_send_queue_only(struct ct *t)
{
	struct ct_link l, back;

	ct_link_open(t, &l, NULL);
	back = ct_reverse(&l);
	ct_recv(&l.a, 50, TARGET, 1024);
	fail_send(&l, 1);
	ct_send(&l, 2, 0, 8); /* accepted, flushed */
	ct_sent(&l, 2, IBV_WC_WR_FLUSH_ERR);
	ct_send(&back, 3, 0, 64);
	ct_sent(&back, 3, IBV_WC_SUCCESS);
	ct_got(&back, 50, IBV_WC_SUCCESS);
	ct_no_event(t->near);
}

static void sqe_to_rts(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < 3; i++) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };

		fail_send(&l, 1);
		CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_STATE | (i ? IBV_QP_CUR_STATE : 0)), 0);
		CT_EQ(ct_qp_state(&l.a), IBV_QPS_RTS);
		ct_usable(&l);
	}
}

static void sqe_to_err_or_reset(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_recv(&l.a, 50, TARGET, 1024);
	fail_send(&l, 1);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_SQD), EINVAL);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_INIT), EINVAL);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_ERR), 0);
	ct_expect(t->near, l.a.rcq, 50, IBV_WC_WR_FLUSH_ERR);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
	ct_link_connect(&l);
	fail_send(&l, 2);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
	ct_link_connect(&l);
	ct_usable(&l);
}

const struct ct_case ct_err_drop_cases[] = {
	{ "a datagram with a wrong Q_Key is lost", wrong_qkey, CT_UD | CT_IB },
	{ "a datagram for a QP that does not exist is lost", wrong_number, CT_UD },
	{ "a datagram for a QP of another transport is lost", qp_of_another_transport, CT_UD },
	{ "a datagram for a QP that is not ready is lost", qp_not_ready, CT_UD },
	{ "the Q_Key of a QP follows modify_qp", qkey_follows_modify, CT_UD },
	{ "an unreliable message without a receive is no error", no_receive, CT_UC | CT_UD },
	{ "a UC message that the peer does not expect is lost", uc_wrong_psn_or_peer, CT_UC },
	{ "a failed unreliable send stops the send queue only", sqe_stops_the_send_queue_only,
	  CT_UC | CT_UD | CT_IB },
	{ "SQE to RTS resumes", sqe_to_rts, CT_UC | CT_UD },
	{ "SQE can be left for ERR and RESET, for nothing else", sqe_to_err_or_reset,
	  CT_UC | CT_UD },
	{ 0 },
};
