/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues. */
#include "ct.h"
#include "ct_tm_rig.h"

static struct ibv_pd *pd_of(struct ct *t)
{
	return ct_object(t->near, t->near->pd);
}

static void sizes_are_checked(struct ct *t)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 100, .max_sge = 3 } };
	struct ibv_srq_attr attr;
	struct ibv_srq *srq = ibv_create_srq(pd_of(t), &init);

	CT_TRUE(srq != NULL);
	CT_TRUE(init.attr.max_wr >= 100 && init.attr.max_sge >= 3);
	CT_EQ(ibv_query_srq(srq, &attr), 0);
	CT_EQ(attr.max_wr, init.attr.max_wr);
	CT_EQ(attr.max_sge, init.attr.max_sge);
	CT_EQ(attr.srq_limit, 0);
	CT_EQ(ibv_destroy_srq(srq), 0);
	init.attr = (struct ibv_srq_attr){ .max_wr = t->near->attr.max_srq_wr + 1, .max_sge = 1 };
	CT_NULL(ibv_create_srq(pd_of(t), &init), EINVAL);
	init.attr = (struct ibv_srq_attr){ .max_wr = 1, .max_sge = t->near->attr.max_srq_sge + 1 };
	CT_NULL(ibv_create_srq(pd_of(t), &init), EINVAL);
}

static void limits_are_reachable(struct ct *t)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr attr = { .max_wr = t->near->attr.max_srq_wr };
	struct ibv_srq *srq = ibv_create_srq(pd_of(t), &init);

	CT_TRUE(srq != NULL);
	if (t->near->attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE)
		CT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	CT_EQ(ibv_destroy_srq(srq), 0);
	init.attr.max_wr = t->near->attr.max_srq_wr;
	init.attr.max_sge = t->near->attr.max_srq_sge;
	srq = ibv_create_srq(pd_of(t), &init);
	CT_TRUE(srq != NULL);
	CT_EQ(ibv_destroy_srq(srq), 0);
}

static void limit_is_checked_and_reported(struct ct *t)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd_of(t), &init);
	struct ibv_srq_attr attr = { .srq_limit = init.attr.max_wr + 1 };

	CT_TRUE(srq != NULL);
	CT_ERROR(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	/* Filled first: an armed limit above the receives that are posted fires at once. */
	for (uint32_t i = 0; i < init.attr.max_wr; i++) {
		struct ibv_recv_wr recv = { .wr_id = i }, *bad;

		CT_EQ(ibv_post_srq_recv(srq, &recv, &bad), 0);
	}
	attr.srq_limit = 4;
	CT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	CT_EQ(ibv_query_srq(srq, &attr), 0);
	CT_EQ(attr.srq_limit, 4);
	CT_EQ(ibv_destroy_srq(srq), 0);
}

static void posts_are_checked(struct ct *t)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 2 } };
	struct ibv_srq *srq = ibv_create_srq(pd_of(t), &init);
	struct ibv_sge sge[CT_SGE_MAX] = { { 0 } };
	struct ibv_recv_wr first = { .wr_id = 1 }, second = { .wr_id = 2 }, *bad = NULL;

	CT_TRUE(srq != NULL);
	first.next = &second;
	second.sg_list = sge;
	second.num_sge = init.attr.max_sge + 1;
	CT_EQ(ibv_post_srq_recv(srq, &first, &bad), EINVAL);
	CT_TRUE(bad == &second);
	first.next = NULL; /* the first one has been posted */
	for (uint32_t i = 1; i < init.attr.max_wr; i++)
		CT_EQ(ibv_post_srq_recv(srq, &first, &bad), 0);
	CT_EQ(ibv_post_srq_recv(srq, &first, &bad), ENOMEM);
	CT_TRUE(bad == &first);
	CT_EQ(ibv_destroy_srq(srq), 0);
}

static void resize(struct ct *t)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd_of(t), &init);
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad;
	struct ibv_srq_attr attr = { .max_wr = 100 };

	if (!(t->near->attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		ct_skip("the device does not resize SRQs");
	CT_TRUE(srq != NULL);
	for (uint32_t i = 0; i < init.attr.max_wr; i++)
		CT_EQ(ibv_post_srq_recv(srq, &recv, &bad), 0);
	CT_EQ(ibv_post_srq_recv(srq, &recv, &bad), ENOMEM);
	CT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	CT_EQ(ibv_query_srq(srq, &attr), 0);
	CT_TRUE(attr.max_wr >= 100);
	for (uint32_t i = init.attr.max_wr; i < attr.max_wr; i++)
		CT_EQ(ibv_post_srq_recv(srq, &recv, &bad), 0);
	CT_EQ(ibv_post_srq_recv(srq, &recv, &bad), ENOMEM);
	attr.max_wr = 4; /* below what is posted */
	CT_ERROR(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.max_wr = t->near->attr.max_srq_wr + 1;
	CT_ERROR(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	CT_EQ(ibv_destroy_srq(srq), 0);
}

static void no_post_recv_beside_an_srq(struct ct *t)
{
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad = NULL;
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.srq_b = ct_create_srq(t->far, t->far->pd, 16, 1);
	ct_link_open(t, &l, &o);
	CT_EQ(ct_post_recv(&l.b, &recv, &bad), EINVAL);
	CT_TRUE(bad == &recv);
}

static void post(struct ct_end *e, int srq, uint64_t wr_id, uint64_t offset)
{
	struct ibv_sge sge = ct_sge(e, offset, 1024);
	struct ibv_recv_wr recv = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CT_EQ(ct_post_srq_recv(e, srq, &recv, &bad), 0);
}

/* Receives are handed out in post order, to whichever QP a message comes for. */
static void qps_share_the_receives(struct ct *t)
{
	enum { LINKS = 3, ROUNDS = 8 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l[LINKS];
	int srq = ct_create_srq(t->far, t->far->pd, 64, 1);

	o.srq_b = srq;
	for (int i = 0; i < LINKS; i++)
		ct_link_open(t, &l[i], &o);
	for (int i = 0; i < LINKS * ROUNDS; i++)
		post(t->far, srq, i, 65536 + i * 1024);
	for (int i = 0; i < LINKS * ROUNDS; i++) {
		struct ct_link *link = &l[i * 7 % LINKS];
		struct ibv_wc wc;

		ct_fill(t->near, 0, 10 + i * 30, i);
		ct_send(link, i, 0, 10 + i * 30);
		ct_sent(link, i, IBV_WC_SUCCESS);
		wc = ct_got(link, i, IBV_WC_SUCCESS);
		CT_EQ(wc.qp_num, link->b.qpn);
		CT_EQ(wc.byte_len, 10 + i * 30 + ct_headroom(link));
		ct_same(t->far, 65536 + i * 1024 + ct_headroom(link), 10 + i * 30, i);
	}
}

/* An SRQ knows no CQ: each QP reports to its own. */
static void several_cqs(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l1, l2;
	int srq = ct_create_srq(t->far, t->far->pd, 64, 1);

	o.srq_b = srq;
	o.rcq_b = ct_create_cq(t->far, 64, 0);
	ct_link_open(t, &l1, &o);
	o.rcq_b = ct_create_cq(t->far, 64, 0);
	ct_link_open(t, &l2, &o);
	for (int i = 0; i < 8; i++)
		post(t->far, srq, i, 65536 + i * 1024);
	for (int i = 0; i < 8; i++) {
		struct ct_link *mine = i % 2 ? &l1 : &l2, *other = i % 2 ? &l2 : &l1;

		ct_send(mine, i, 0, 64);
		ct_sent(mine, i, IBV_WC_SUCCESS);
		ct_got(mine, i, IBV_WC_SUCCESS);
		ct_none(t->far, other->b.rcq);
	}
}

static void consume(struct ct_link *l, int first, int count)
{
	for (int i = first; i < first + count; i++) {
		ct_send(l, i, 0, 64);
		ct_sent(l, i, IBV_WC_SUCCESS);
		ct_got(l, i, IBV_WC_SUCCESS);
	}
}

static void limit_fires_once(struct ct *t)
{
	struct ibv_srq_attr attr = { .srq_limit = 4 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	int srq = ct_create_srq(t->far, t->far->pd, 64, 1);

	o.srq_b = srq;
	ct_link_open(t, &l, &o);
	for (int i = 0; i < 12; i++)
		post(t->far, srq, i, 65536 + i * 1024);
	CT_EQ(ct_modify_srq(t->far, srq, &attr, IBV_SRQ_LIMIT), 0);
	consume(&l, 0, 8); /* four are left: not yet below the limit */
	ct_no_event(t->far);
	consume(&l, 8, 1);
	ct_event(t->far, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	consume(&l, 9, 2);
	ct_no_event(t->far);
	for (int i = 12; i < 20; i++)
		post(t->far, srq, i, 65536 + i * 1024);
	CT_EQ(ct_modify_srq(t->far, srq, &attr, IBV_SRQ_LIMIT), 0);
	consume(&l, 11, 6);
	ct_event(t->far, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
}

/* An SRQ of 8 receives, of which two are consumed; the SRQ. */
static int begin_small(struct ct *t, struct ct_link *l)
{
	struct ct_opts o = ct_defaults(t);

	if (!(t->far->attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		ct_skip("the device does not resize SRQs");
	o.srq_b = ct_create_srq(t->far, t->far->pd, 8, 1);
	ct_link_open(t, l, &o);
	for (int i = 0; i < 8; i++)
		post(t->far, o.srq_b, i, 65536 + i * 1024);
	consume(l, 0, 2);
	return o.srq_b;
}

/* Posted receives, arrived messages and connected senders all live through a resize. */
static void resize_under_traffic(struct ct *t)
{
	struct ibv_srq_attr attr = { .max_wr = 200 };
	struct ct_link l;
	int srq = begin_small(t, &l);

	for (int i = 2; i < 5; i++) {
		ct_fill(t->near, 0, 64, i);
		ct_send(&l, i, 0, 64);
		ct_sent(&l, i, IBV_WC_SUCCESS);
	}
	CT_EQ(ct_modify_srq(t->far, srq, &attr, IBV_SRQ_MAX_WR), 0);
	for (int i = 8; i < 60; i++)
		post(t->far, srq, i, 65536 + i * 1024);
	for (int i = 2; i < 5; i++) {
		ct_got(&l, i, IBV_WC_SUCCESS);
		ct_same(t->far, 65536 + i * 1024 + ct_headroom(&l), 64, i);
	}
	consume(&l, 5, 55);
}

/* The CQ has been found empty before: it must not go on looking at the old ring. */
static void resize_of_an_idle_srq(struct ct *t)
{
	struct ibv_srq_attr attr = { .max_wr = 200 };
	struct ct_link l;
	struct ibv_wc wc;
	int srq = begin_small(t, &l);

	CT_EQ(ct_poll_cq(t->far, l.b.rcq, 1, 0, &wc), 0);
	CT_EQ(ct_poll_cq(t->far, l.b.rcq, 1, 0, &wc), 0);
	CT_EQ(ct_modify_srq(t->far, srq, &attr, IBV_SRQ_MAX_WR), 0);
	consume(&l, 2, 6);
}

/* A QP may go away while its siblings use the SRQ. */
static void receives_survive_a_qp(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l1, l2;
	int srq = ct_create_srq(t->far, t->far->pd, 64, 1);

	o.srq_b = srq;
	ct_link_open(t, &l1, &o);
	ct_link_open(t, &l2, &o);
	for (int i = 0; i < 4; i++)
		post(t->far, srq, i, 65536 + i * 1024);
	consume(&l1, 0, 1);
	CT_EQ(ct_destroy(t->far, l1.b.handle), 0);
	consume(&l2, 1, 3);
}

enum {
	PIECES = 32,
	PIECE = 4 << 20
}; /* long enough to be interrupted: the arena, again and again */

static void long_message(struct ct_link *l, int srq)
{
	struct ibv_sge from[PIECES], to[PIECES];
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = to, .num_sge = PIECES }, *bad;
	struct ibv_send_wr wr;

	for (int i = 0; i < PIECES; i++) {
		from[i] = ct_sge(l->a.end, 0, PIECE);
		to[i] = ct_sge(l->b.end, PIECE, PIECE);
	}
	CT_EQ(ct_post_srq_recv(l->b.end, srq, &recv, &bad), 0);
	wr = ct_wr(l, IBV_WR_SEND, 2, from, PIECES);
	ct_post(&l->a, &wr);
}

/* Two links with one SRQ, and a long message under way on the first. */
static void begin_long(struct ct *t, struct ct_link *l, struct ct_link *next)
{
	struct ct_opts o = ct_defaults(t);

	o.cap.max_send_sge = PIECES;
	o.srq_b = ct_create_srq(t->far, t->far->pd, 16, PIECES);
	ct_link_open(t, l, &o);
	ct_link_open(t, next, &o);
	long_message(l, o.srq_b);
}

/* A short message finds the receive that the long one had begun to fill. */
static void receive_is_there_again(struct ct_link *l)
{
	struct ibv_wc wc;

	ct_send(l, 3, 0, 8);
	ct_sent(l, 3, IBV_WC_SUCCESS);
	wc = ct_wait(l->b.end, l->b.rcq);
	CT_EQ(wc.wr_id, 1);
	CT_EQ(wc.status, IBV_WC_SUCCESS);
	CT_EQ(wc.byte_len, 8);
}

/* Neither an SRQ nor an XRC SRQ loses it, whichever end gives up. */
static void interrupted(struct ct *t, enum ibv_qp_type type)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	struct ibv_wc wc;

	o.type = type;
	o.cap.max_send_sge = o.cap.max_recv_sge = PIECES;
	o.srq_b = type == IBV_QPT_RC ? ct_create_srq(t->far, t->far->pd, 16, PIECES) : 0;
	ct_link_open(t, &l, &o);
	long_message(&l, l.b.srq);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_ERR), 0);
	if (ct_wait(t->near, l.a.scq).status == IBV_WC_SUCCESS)
		return; /* it was faster */
	CT_EQ(ct_to_state(&l.b, IBV_QPS_ERR), 0);
	if (ct_poll_cq(t->far, l.b.rcq, 1, 0, &wc))
		return; /* it was faster than its ACK */
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
	/* What is still on its way is not for the new connection. */
	l.a.psn = (l.a.psn + 0x400000) & 0xffffff;
	ct_link_connect(&l);
	receive_is_there_again(&l);
}

static void an_interrupted_message_gives_its_receive_back(struct ct *t)
{
	interrupted(t, IBV_QPT_RC);
	interrupted(t, IBV_QPT_XRC_SEND);
}

static void a_destroyed_sender_gives_its_receive_back(struct ct *t)
{
	struct ct_link l, next;
	struct ibv_wc wc;

	begin_long(t, &l, &next);
	CT_EQ(ct_destroy(t->near, l.a.handle), 0);
	if (ct_poll_cq(t->far, l.b.rcq, 1, 0, &wc))
		return; /* it was faster */
	CT_EQ(ct_destroy(t->far, l.b.handle), 0);
	receive_is_there_again(&next);
}

static void a_destroyed_target_gives_its_receive_back(struct ct *t)
{
	struct ct_link l, next;

	begin_long(t, &l, &next);
	CT_EQ(ct_destroy(t->far, l.b.handle), 0);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_ERR), 0);
	if (ct_wait(t->near, l.a.scq).status == IBV_WC_SUCCESS)
		return; /* it was faster */
	receive_is_there_again(&next);
}

/* The target connects anew before its peer knows that the connection has ended. */
static void a_target_that_is_reset_gives_its_receive_back(struct ct *t)
{
	struct ct_link l, next;

	begin_long(t, &l, &next);
	CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
	l.a.psn = (l.a.psn + 0x400000) & 0xffffff;
	ct_init(&l.b);
	ct_rtr(&l.b, &l.a, &l.o);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_ERR), 0);
	if (ct_wait(t->near, l.a.scq).status == IBV_WC_SUCCESS)
		return; /* it was faster */
	receive_is_there_again(&next);
}

/* Messages have taken the receives: that their completions wait does not make them posted. */
static void limit_counts_what_is_left(struct ct *t)
{
	enum { COUNT = 8 };
	int srq = ct_create_srq(t->far, t->far->pd, 16, 1);
	struct ibv_srq_attr attr = { .srq_limit = 4 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.srq_b = srq;
	ct_link_open(t, &l, &o);
	for (int i = 0; i < COUNT; i++) {
		post(t->far, srq, i, 65536 + i * 1024);
		ct_send(&l, i, 0, 8);
		ct_sent(&l, i, IBV_WC_SUCCESS);
	}
	CT_EQ(ct_modify_srq(t->far, srq, &attr, IBV_SRQ_LIMIT), 0);
	ct_event(t->far, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
}

/* ---- protection domains ---------------------------------------------------------------------- */

static void post_from(struct ct_end *e, int srq, const struct ct_mr *mr, uint32_t length)
{
	struct ibv_sge sge = { mr->addr + 65536, length, mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 10, .sg_list = &sge, .num_sge = 1 }, *bad;

	CT_EQ(ct_post_srq_recv(e, srq, &recv, &bad), 0);
}

/* The QP has one PD, its SRQ another one: that of the SRQ counts. */
static void receive_of(struct ct *t, bool of_the_srq, uint32_t size)
{
	const enum ibv_wc_status refused =
		t->type == IBV_QPT_RC ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS;
	int pd = ct_alloc_pd(t->far), srq = ct_create_srq(t->far, pd, 16, 1);
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	struct ct_mr mr;

	CT_TRUE(ct_reg_mr(t->far, pd, 0, CT_ARENA_BYTES, CT_ACCESS_ALL, &mr) > 0);
	o.srq_b = srq;
	ct_link_open(t, &l, &o);
	ct_fill(t->far, 65536, 8192, 1);
	ct_fill(t->near, 0, size, 2);
	post_from(t->far, srq, of_the_srq ? &mr : &t->far->mr, ct_headroom(&l) + size);
	ct_send(&l, 1, 0, size);
	ct_sent(&l, 1, of_the_srq ? IBV_WC_SUCCESS : refused);
	ct_got(&l, 10, of_the_srq ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
	if (of_the_srq)
		ct_same(t->far, 65536 + ct_headroom(&l), size, 2);
	else
		ct_same(t->far, 65536, 8192, 1);
}

/* In the cell, behind it, and in a buffer of its own. */
static const uint32_t sizes[] = { 8, 28, 200, 1000 };

static void pd_of_the_srq(struct ct *t)
{
	for (int i = 0; i < CT_COUNT(sizes); i++)
		receive_of(t, true, sizes[i]);
}

static void pd_of_the_qp(struct ct *t)
{
	for (int i = 0; i < CT_COUNT(sizes); i++)
		receive_of(t, false, sizes[i]);
}

/* The near end's arena is registered in the PD of the QP. */
static void pd_with_tag_matching(struct ct *t)
{
	for (int tagged = 0; tagged < 2; tagged++) {
		struct tm_opts o = { .srq_pd = ibv_alloc_pd(ct_context(t->near)) };
		struct tags tm;

		tm_open(t, &tm, &o);
		if (tagged)
			tm_added(&tm, 7, 5, UINT64_MAX, 65536, 4096, NULL);
		tm_receive(&tm, 50, 65536, 4096);
		tm_header(t->far, 0, IBV_TMH_EAGER, 0, 5);
		ct_send(&tm.l[0], 1, 0, 600);
		ct_expect(t->far, tm.l[0].a.scq, 1, IBV_WC_REM_OP_ERR);
		tm_expect(&tm, tagged ? 7 : 50, IBV_WC_TM_RECV, 0, IBV_WC_LOC_PROT_ERR);
		tm_close(&tm);
		CT_EQ(ibv_dealloc_pd(o.srq_pd), 0);
	}
}

const struct ct_case ct_srq_cases[] = {
	{ "an SRQ checks its sizes and reports them", sizes_are_checked, CT_SOLO },
	{ "an SRQ can be as large as the device reports", limits_are_reachable, CT_SOLO },
	{ "an SRQ limit is checked and reported", limit_is_checked_and_reported, CT_SOLO },
	{ "a bad or superfluous receive for an SRQ is refused", posts_are_checked, CT_SOLO },
	{ "modify_srq resizes, never below what is posted", resize, CT_SOLO },
	{ "post_recv on a QP with an SRQ is EINVAL", no_post_recv_beside_an_srq,
	  CT_RC | CT_UC | CT_UD },
	{ "receives of an SRQ belong to the PD of the SRQ", pd_of_the_srq, CT_RC | CT_UC | CT_UD },
	{ "receives of an SRQ in the PD of the QP are LOC_PROT_ERR", pd_of_the_qp, CT_RC | CT_UD },
	{ "receives of an SRQ with tag matching belong to its PD", pd_with_tag_matching, CT_RC },
	{ "QPs share the receives of an SRQ in post order", qps_share_the_receives,
	  CT_RC | CT_UC | CT_UD | CT_IB },
	{ "QPs of one SRQ report to CQs of their own", several_cqs, CT_RC | CT_UC | CT_UD },
	{ "the SRQ limit event fires once, until armed again", limit_fires_once,
	  CT_RC | CT_UC | CT_UD },
	{ "an SRQ limit counts the receives that are left", limit_counts_what_is_left, CT_RC },
	{ "an SRQ is resized under traffic", resize_under_traffic, CT_RC | CT_UC | CT_UD },
	{ "an SRQ that is idle is resized", resize_of_an_idle_srq, CT_RC | CT_UC | CT_UD },
	{ "receives of an SRQ survive a QP", receives_survive_a_qp, CT_RC | CT_UC | CT_UD },
	{ "a message that is interrupted by an error gives its receive back to the SRQ",
	  an_interrupted_message_gives_its_receive_back, CT_RC },
	{ "a sender that is destroyed gives its receive back to the SRQ",
	  a_destroyed_sender_gives_its_receive_back, CT_RC },
	{ "a target QP that is destroyed gives its receive back to the SRQ",
	  a_destroyed_target_gives_its_receive_back, CT_RC },
	{ "a target QP that is reset gives its receive back to the SRQ",
	  a_target_that_is_reset_gives_its_receive_back, CT_RC },
	{ 0 },
};
