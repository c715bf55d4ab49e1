/* SPDX-License-Identifier: BSD-2-Clause */
/* Rendezvous: the SRQ's QP reads the data itself and tells the sender with a FIN. */
#include <endian.h>

#include "ct_tm_rig.h"

enum {
	HEADERS = sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh),
	MATCH = IBV_WC_TM_MATCH,
	VALID = IBV_WC_TM_DATA_VALID,
};

/* Offsets of the far arena: the message, its data, where FINs go. */
static const uint64_t EXACT = UINT64_MAX, BUFFER = 1 << 20, DATA = 2 << 20, FIN = 64 << 10,
		      RECEIVE = 4 << 20;

static void request(struct tags *tm, uint64_t tag, uint32_t rkey, uint64_t data, uint32_t length)
{
	struct ct_end *far = tm->t->far;

	tm_header(far, 0, IBV_TMH_RNDV, (uint32_t)tag ^ 0x5a5a, tag);
	tm_rndv_header(far, sizeof(struct ibv_tmh), far->mr.addr + data, rkey, length);
	ct_send(&tm->l[0], tag, 0, HEADERS);
}

static void fin_came(struct tags *tm, uint64_t wr_id, uint64_t tag)
{
	struct ct_end *far = tm->t->far;
	struct ibv_wc wc = ct_expect(far, tm->l[0].a.rcq, wr_id, IBV_WC_SUCCESS);
	struct ibv_tmh header;

	CT_EQ(wc.opcode, IBV_WC_RECV);
	CT_EQ(wc.byte_len, sizeof(header));
	ct_peek_bytes(far, FIN + wr_id * 64, sizeof(header), &header);
	CT_EQ(header.opcode, IBV_TMH_FIN);
	CT_EQ(be32toh(header.app_ctx), (uint32_t)tag ^ 0x5a5a);
}

/* Matched, read, told: in this order, and the data is there when it is said to be. */
static void whole(struct tags *tm, uint64_t tag, uint32_t length)
{
	struct ct *t = tm->t;
	struct tm_wc wc;

	ct_fill(t->far, DATA, length, (unsigned)tag);
	ct_recv(&tm->l[0].a, 3, FIN + 3 * 64, 64);
	tm_added(tm, 7, tag, EXACT, BUFFER, 300000, NULL);
	request(tm, tag, t->far->mr.rkey, DATA, length);
	wc = tm_expect(tm, 7, IBV_WC_TM_RECV, MATCH, IBV_WC_SUCCESS);
	CT_EQ(wc.tag, tag);
	CT_EQ(wc.priv, (uint32_t)tag ^ 0x5a5a);
	wc = tm_expect(tm, 7, IBV_WC_TM_RECV, VALID, IBV_WC_SUCCESS);
	CT_EQ(wc.byte_len, length);
	ct_same(t->near, BUFFER, length, (unsigned)tag);
	ct_expect(t->far, tm->l[0].a.scq, tag, IBV_WC_SUCCESS);
	fin_came(tm, 3, tag);
	CT_TRUE(tm_none(tm));
}

static void sizes(struct ct *t)
{
	static const uint32_t lengths[] = { 0, 1, 4096, 300000 };
	struct tags tm;

	tm_open(t, &tm, NULL);
	for (unsigned i = 0; i < CT_COUNT(lengths); i++)
		whole(&tm, 0x100 + i, lengths[i]);
	tm_close(&tm);
}

/* The work requests that it takes are not the application's: a queue of none is enough. */
static void without_a_send_queue(struct ct *t)
{
	static const struct tm_opts o = { .send_wr = 0 };
	struct tags tm;

	tm_open(t, &tm, &o);
	for (uint64_t i = 1; i <= 100; i++) /* more than there are entries for them */
		whole(&tm, i, 64);
	tm_close(&tm);
}

/* What the application left unsignalled does not keep entries from them, though nobody polls. */
static void behind_unsignalled(struct ct *t)
{
	static const struct tm_opts o = { .send_wr = 2 };
	struct ibv_sge sge = ct_sge(t->near, RECEIVE, 64);
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct tags tm;

	tm_open(t, &tm, &o);
	ct_recv(&tm.l[0].a, 9, FIN + 9 * 64, 64);
	CT_EQ(ibv_post_send(tm.qp[0], &wr, &bad), 0);
	ct_expect(t->far, tm.l[0].a.rcq, 9, IBV_WC_SUCCESS);
	for (uint64_t i = 1; i <= 100; i++)
		whole(&tm, i, 64);
	tm_close(&tm);
}

/* Who sleeps for solicited completions learns of the data of a solicited message as well. */
static void solicited(struct ct *t)
{
	static const struct tm_opts o = { .send_wr = 1, .channel = true };
	struct ibv_qp_attr state = { .qp_state = IBV_QPS_SQD };
	struct ct_end *far = t->far;
	struct ibv_sge sge = ct_sge(far, 0, HEADERS);
	struct ibv_send_wr wr = { .wr_id = 5,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED };
	struct ibv_cq *cq;
	struct tags tm;
	void *context;

	tm_open(t, &tm, &o);
	ct_recv(&tm.l[0].a, 3, FIN + 3 * 64, 64);
	tm_added(&tm, 7, 5, EXACT, BUFFER, 4096, NULL);
	CT_EQ(ibv_modify_qp(tm.qp[0], &state, IBV_QP_STATE), 0); /* so that the data must wait */
	tm_header(far, 0, IBV_TMH_RNDV, 5 ^ 0x5a5a, 5);
	tm_rndv_header(far, sizeof(struct ibv_tmh), far->mr.addr + DATA, far->mr.rkey, 4096);
	for (int i = 0; i < 2; i++) {
		CT_EQ(ibv_req_notify_cq(ibv_cq_ex_to_cq(tm.cq), 1), 0);
		if (!i)
			ct_post(&tm.l[0].a, &wr);
		state.qp_state = IBV_QPS_RTS;
		if (i)
			CT_EQ(ibv_modify_qp(tm.qp[0], &state, IBV_QP_STATE), 0);
		CT_EQ(ibv_get_cq_event(tm.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		tm_expect(&tm, 7, IBV_WC_TM_RECV, i ? VALID : MATCH, IBV_WC_SUCCESS);
	}
	ct_expect(far, tm.l[0].a.scq, 5, IBV_WC_SUCCESS);
	fin_came(&tm, 3, 5);
	tm_close(&tm);
}

/* Several at once, while the same QP sends for the application as well. */
static void between_sends(struct ct *t)
{
	enum { SENDS = 4, ROUNDS = 25 };
	static const struct tm_opts o = { .send_wr = SENDS };
	struct tags tm;

	tm_open(t, &tm, &o);
	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_sge sge = ct_sge(t->near, RECEIVE, 64);
		struct ibv_send_wr *bad, wr = { .sg_list = &sge,
						.num_sge = 1,
						.opcode = IBV_WR_SEND,
						.send_flags = IBV_SEND_SIGNALED };
		int fins = 0;

		for (uint64_t i = 0; i < SENDS; i++) {
			ct_recv(&tm.l[0].a, i, FIN + i * 64, 64);
			ct_recv(&tm.l[0].a, SENDS + i, FIN + (SENDS + i) * 64, 64);
			tm_added(&tm, i, i, EXACT, BUFFER + 8192 * i, 8192, NULL);
		}
		for (uint64_t i = 0; i < SENDS; i++) {
			ct_fill(t->far, DATA + 8192 * i, 8192, (unsigned)(round + i));
			request(&tm, i, t->far->mr.rkey, DATA + 8192 * i, 8192);
			ct_expect(t->far, tm.l[0].a.scq, i, IBV_WC_SUCCESS);
			wr.wr_id = i;
			CT_EQ(ibv_post_send(tm.qp[0], &wr, &bad), 0);
		}
		CT_EQ(ibv_post_send(tm.qp[0], &wr, &bad), ENOMEM); /* its own are all in use */
		for (int i = 0; i < 2 * SENDS; i++) {
			struct tm_wc wc = tm_wait(&tm);

			CT_EQ(wc.status, IBV_WC_SUCCESS);
			fins += wc.flags == VALID;
			if (wc.flags == VALID)
				ct_same(t->near, BUFFER + 8192 * wc.wr_id, 8192,
					(unsigned)(round + wc.wr_id));
		}
		CT_EQ(fins, SENDS);
		for (uint64_t i = 0; i < SENDS; i++)
			ct_expect(t->near, t->near->scq, i, IBV_WC_SUCCESS);
		for (uint64_t i = 0; i < 2 * SENDS; i++) /* as they were posted */
			ct_expect(t->far, tm.l[0].a.rcq, i % 2 * SENDS + i / 2, IBV_WC_SUCCESS);
	}
	tm_close(&tm);
}

/* The application gets the header, and can read the data itself. */
static void unexpected(struct ct *t)
{
	struct tags tm;
	uint8_t sent[HEADERS], got[HEADERS];

	tm_open(t, &tm, NULL);
	tm_receive(&tm, 50, RECEIVE, 64);
	request(&tm, 5, t->far->mr.rkey, DATA, 100);
	CT_EQ(tm_expect(&tm, 50, IBV_WC_TM_RECV, 0, IBV_WC_SUCCESS).byte_len, HEADERS);
	ct_expect(t->far, tm.l[0].a.scq, 5, IBV_WC_SUCCESS);
	ct_peek_bytes(t->far, 0, HEADERS, sent);
	ct_peek_bytes(t->near, RECEIVE, HEADERS, got);
	CT_TRUE(!memcmp(sent, got, HEADERS));
	tm_close(&tm);
}

/* It matched, and then its data could not be read: the second completion says so. */
static void bad_rkey(struct ct *t)
{
	struct tags tm;

	tm_open(t, &tm, NULL);
	tm_added(&tm, 7, 5, EXACT, BUFFER, 4096, NULL);
	request(&tm, 5, t->far->mr.rkey ^ 0x80, DATA, 4096);
	tm_expect(&tm, 7, IBV_WC_TM_RECV, MATCH, IBV_WC_SUCCESS);
	tm_expect(&tm, 7, IBV_WC_TM_RECV, 0, IBV_WC_REM_ACCESS_ERR);
	ct_none(t->near, t->near->scq); /* it was not the application's work request */
	CT_TRUE(tm_none(&tm));
	tm_close(&tm);
}

static void too_long(struct ct *t)
{
	struct tags tm;

	tm_open(t, &tm, NULL);
	tm_added(&tm, 7, 5, EXACT, BUFFER, 4095, NULL);
	request(&tm, 5, t->far->mr.rkey, DATA, 4096);
	tm_expect(&tm, 7, IBV_WC_TM_RECV, 0, IBV_WC_LOC_LEN_ERR);
	ct_expect(t->far, tm.l[0].a.scq, 5, IBV_WC_REM_INV_REQ_ERR);
	tm_close(&tm);
}

static void malformed(struct ct *t)
{
	static const uint32_t lengths[] = { HEADERS - 8, 80 }; /* no RVH; more than the limit */
	struct tags tm;

	for (int i = 0; i < CT_COUNT(lengths); i++) {
		tm_open(t, &tm, NULL);
		tm_added(&tm, 7, 5, EXACT, BUFFER, 4096, NULL);
		tm_header(t->far, 0, IBV_TMH_RNDV, 0, 5);
		ct_send(&tm.l[0], 5, 0, lengths[i]);
		ct_expect(t->far, tm.l[0].a.scq, 5, IBV_WC_REM_INV_REQ_ERR);
		CT_TRUE(tm_none(&tm));
		tm_close(&tm);
	}
}

/* The FIN waits for a receive; with the QP everything that is under way ends. */
static void ends_with_the_qp(struct ct *t)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct tags tm;
	struct ct_end *far = t->far;

	tm_open(t, &tm, NULL);
	tm_added(&tm, 7, 5, EXACT, BUFFER, 4096, NULL);
	tm_added(&tm, 8, 6, EXACT, BUFFER, 4096, NULL);
	ct_fill(far, DATA, 4096, 3);
	request(&tm, 5, far->mr.rkey, DATA, 4096); /* its FIN finds no receive ... */
	ct_expect(far, tm.l[0].a.scq, 5, IBV_WC_SUCCESS);
	tm_expect(&tm, 7, IBV_WC_TM_RECV, MATCH, IBV_WC_SUCCESS);
	tm_expect(&tm, 7, IBV_WC_TM_RECV, VALID, IBV_WC_SUCCESS);
	request(&tm, 6, far->mr.rkey, DATA, 4096); /* ... so this one's data must wait */
	ct_expect(far, tm.l[0].a.scq, 6, IBV_WC_SUCCESS);
	tm_expect(&tm, 8, IBV_WC_TM_RECV, MATCH, IBV_WC_SUCCESS);
	CT_EQ(ibv_modify_qp(tm.qp[0], &error, IBV_QP_STATE), 0);
	CT_TRUE(tm_wait(&tm).wr_id == 8);
	CT_TRUE(tm_none(&tm));
	tm_close(&tm);
}

const struct ct_case ct_tm_rndv_cases[] = {
	{ "a rendezvous reads its data and tells the sender", sizes, CT_RC | CT_IB },
	{ "a rendezvous needs no send queue of the application", without_a_send_queue, CT_RC },
	{ "a rendezvous goes on behind unsignalled sends", behind_unsignalled, CT_RC },
	{ "a solicited rendezvous wakes who sleeps, and so does its data", solicited, CT_RC },
	{ "a rendezvous goes on between sends of the application", between_sends, CT_RC },
	{ "an unexpected rendezvous goes into a receive", unexpected, CT_RC },
	{ "a rendezvous whose data is not readable fails in its tag", bad_rkey, CT_RC },
	{ "a rendezvous too long for its tag is LOC_LEN", too_long, CT_RC },
	{ "a rendezvous without its header is REM_INV_REQ", malformed, CT_RC },
	{ "a rendezvous under way ends with its QP", ends_with_the_qp, CT_RC },
	{ 0 },
};
