/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SEND_WITH_INV whose key cannot be invalidated. The message has arrived, so its sender succeeds;
 * the receive tells the target, whose QP fails.
 */
#include "ct.h"
#include "ct_tm_rig.h"

static const uint64_t TARGET = 1 << 20;

static void send_with_inv(struct ct_link *l, uint32_t length, uint32_t rkey)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, length);
	struct ibv_send_wr wr = ct_wr(l, IBV_WR_SEND_WITH_INV, 1, &sge, 1);

	wr.invalidate_rkey = rkey;
	ct_post(&l->a, &wr);
	ct_sent(l, 1, IBV_WC_SUCCESS);
}

static void fails_at_its_target(struct ct *t, const struct ct_opts *o, uint32_t length,
				uint32_t rkey)
{
	struct ct_link l, other;

	ct_link_open(t, &l, o);
	ct_link_open(t, &other, NULL);
	ct_recv(&l.b, 2, TARGET, length);
	ct_recv(&l.b, 3, TARGET + 2 * length, length);
	send_with_inv(&l, length, rkey);
	ct_got(&l, 2, IBV_WC_REM_INV_REQ_ERR);
	ct_wait_state(&l.b, IBV_QPS_ERR);
	if (l.b.srq)
		ct_event(t->far, IBV_EVENT_QP_LAST_WQE_REACHED, l.b.handle);
	else
		ct_got(&l, 3, IBV_WC_WR_FLUSH_ERR);
	ct_no_event(t->far); /* a completion has told it */
	CT_EQ(ct_qp_state(&l.a), IBV_QPS_RTS);
	ct_no_event(t->near);
	ct_usable(&other);
}

static void of_any_size(struct ct *t)
{
	static const uint32_t lengths[] = { 0, 16, 200, 5000, 100000 };

	for (int i = 0; i < CT_COUNT(lengths); i++)
		fails_at_its_target(t, NULL, lengths[i], t->far->mr.rkey ^ 0x700);
}

/* A region of this API is taken back by dereg_mr alone. */
static void of_a_region(struct ct *t)
{
	fails_at_its_target(t, NULL, 64, t->far->mr.rkey);
}

static void with_an_srq(struct ct *t)
{
	static const uint32_t lengths[] = { 16, 5000 };

	if (t->type == IBV_QPT_XRC_SEND)
		return; /* all of its messages are */
	for (int i = 0; i < CT_COUNT(lengths); i++) {
		struct ct_opts o = ct_defaults(t);

		o.srq_b = ct_create_srq(t->far, t->far->pd, 16, 1);
		fails_at_its_target(t, &o, lengths[i], t->far->mr.rkey ^ 0x700);
	}
}

/* What follows at once finds a QP that has failed. */
static void what_follows_fails(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	struct ibv_sge sge = ct_sge(t->near, 0, 64);
	struct ibv_send_wr wr[2];

	o.timeout = 14; /* 67 ms, eight times */
	ct_link_open(t, &l, &o);
	for (int i = 0; i < 2; i++) {
		ct_recv(&l.b, 10 + i, TARGET, 64);
		wr[i] = ct_wr(&l, i ? IBV_WR_SEND : IBV_WR_SEND_WITH_INV, i, &sge, 1);
	}
	wr[0].invalidate_rkey = 0x12345678;
	wr[0].next = &wr[1];
	ct_post(&l.a, wr);
	ct_sent(&l, 0, IBV_WC_SUCCESS);
	ct_got(&l, 10, IBV_WC_REM_INV_REQ_ERR);
	if (!l.b.srq)
		ct_got(&l, 11, IBV_WC_WR_FLUSH_ERR);
	ct_sent(&l, 1, IBV_WC_RETRY_EXC_ERR);
}

/* --- tag matching --- */

enum { BUFFER = 2 << 20, RECEIVE = 3 << 20, EAGER = 600 };

static void at_a_tag_list(struct ct *t, uint8_t opcode, bool matches)
{
	uint32_t length =
		opcode == IBV_TMH_RNDV ? sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh) : EAGER;
	struct tags tm;

	tm_open(t, &tm, NULL);
	tm_receive(&tm, 50, RECEIVE, 1024);
	if (matches)
		tm_added(&tm, 7, 5, UINT64_MAX, BUFFER, 4096, NULL);
	tm_header(t->far, 0, opcode, 0, 5);
	tm_rndv_header(t->far, sizeof(struct ibv_tmh), t->far->mr.addr, t->far->mr.rkey, 4096);
	send_with_inv(&tm.l[0], length, 0x12345678);
	tm_expect(&tm, matches ? 7 : 50, IBV_WC_TM_RECV, 0, IBV_WC_REM_INV_REQ_ERR);
	tm_close(&tm);
}

static void with_tag_matching(struct ct *t)
{
	if (t->type == IBV_QPT_XRC_SEND)
		return; /* there are no such SRQs of XRC */
	at_a_tag_list(t, IBV_TMH_EAGER, true);
	at_a_tag_list(t, IBV_TMH_EAGER, false);
	at_a_tag_list(t, IBV_TMH_RNDV, true);
}

const struct ct_case ct_invalidate_cases[] = {
	{ "SEND_WITH_INV of an unknown key succeeds here and is REM_INV_REQ_ERR there", of_any_size,
	  CT_RC | CT_IB },
	{ "SEND_WITH_INV of a region's key succeeds here and is REM_INV_REQ_ERR there", of_a_region,
	  CT_RC },
	{ "SEND_WITH_INV of an unknown key into an SRQ", with_an_srq, CT_RC },
	{ "SEND_WITH_INV of an unknown key ends the connection", what_follows_fails, CT_RC },
	{ "SEND_WITH_INV of an unknown key with tag matching", with_tag_matching, CT_RC },
	{ 0 },
};
