/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys that do not open what is asked for: REM_ACCESS_ERR at the initiator; at the target ERR and
 * an event, or the failed receive if the request would have consumed one. No byte is touched.
 */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

typedef void (*spoil_fn)(struct ct_link *l, uint64_t *addr, uint32_t *rkey);

static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
					      IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
					      IBV_WR_ATOMIC_FETCH_AND_ADD };

static void post_spoiled(struct ct_link *l, enum ibv_wr_opcode opcode, spoil_fn spoil)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, 8);
	struct ibv_send_wr wr[3];
	uint64_t addr = l->b.end->mr.addr + TARGET;
	uint32_t rkey = l->b.end->mr.rkey;

	spoil(l, &addr, &rkey);
	for (int i = 0; i < 3; i++) {
		wr[i] = ct_wr(l, opcode, i + 1, &sge, 1);
		ct_aim(&wr[i], addr, rkey);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[0].send_flags = l->a.type == IBV_QPT_RC ? 0 : IBV_SEND_SIGNALED;
	ct_post(&l->a, wr);
}

static void check_reliable(struct ct *t, enum ibv_wr_opcode opcode, spoil_fn spoil)
{
	bool with_imm = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct ct_link l, other;

	ct_link_open(t, &l, NULL);
	ct_link_open(t, &other, NULL);
	ct_fill(t->far, TARGET - 4096, 8192, 1);
	ct_fill(t->near, 0, 8, 2);
	ct_recv(&l.b, 10, 0, 64);
	ct_recv(&l.b, 11, 0, 64);
	post_spoiled(&l, opcode, spoil);
	ct_sent(&l, 1, IBV_WC_REM_ACCESS_ERR);
	ct_sent(&l, 2, IBV_WC_WR_FLUSH_ERR);
	ct_sent(&l, 3, IBV_WC_WR_FLUSH_ERR);
	CT_EQ(ct_qp_state(&l.a), IBV_QPS_ERR);
	ct_got(&l, 10, with_imm ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
	ct_got(&l, 11, IBV_WC_WR_FLUSH_ERR);
	if (!with_imm)
		ct_event(t->far, IBV_EVENT_QP_ACCESS_ERR, l.b.handle);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_ERR);
	ct_no_event(t->far);
	ct_no_event(t->near);
	ct_same(t->far, TARGET - 4096, 8192, 1);
	ct_same(t->near, 0, 8, 2); /* a READ that failed has put nothing into its sink */
	ct_usable(&other);
}

/* UC: dropped. The receive that a WRITE_WITH_IMM would have taken stays for the next message. */
static void check_unreliable(struct ct *t, enum ibv_wr_opcode opcode, spoil_fn spoil)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_fill(t->far, TARGET - 4096, 8192, 1);
	ct_recv(&l.b, 10, 0, 64);
	post_spoiled(&l, opcode, spoil);
	for (int i = 1; i <= 3; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
	ct_send(&l, 4, 0, 8);
	ct_sent(&l, 4, IBV_WC_SUCCESS);
	CT_EQ(ct_got(&l, 10, IBV_WC_SUCCESS).opcode, IBV_WC_RECV);
	ct_same(t->far, TARGET - 4096, 8192, 1);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_RTS);
	ct_no_event(t->far);
}

static void check_each(struct ct *t, spoil_fn spoil)
{
	for (int i = 0; i < CT_COUNT(opcodes); i++)
		if (t->type == IBV_QPT_RC)
			check_reliable(t, opcodes[i], spoil);
		else if (i < 2)
			check_unreliable(t, opcodes[i], spoil);
}

/* ---- the ways to be wrong -------------------------------------------------------------------- */

static void spoil_key(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	*rkey ^= 0x3c00;
}

static void spoil_tag(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	*rkey ^= 1; /* the key of the past or the future: only the consumer part differs */
}

static void spoil_with_lkey(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	*rkey = l->b.end->mr.lkey;
}

static void use_mr(struct ct_link *l, int pd, uint64_t offset, uint64_t length, int access,
		   uint32_t *rkey)
{
	struct ct_mr mr;

	CT_TRUE(ct_reg_mr(l->b.end, pd, offset, length, access, &mr) > 0);
	*rkey = mr.rkey;
}

static void spoil_pd(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	use_mr(l, ct_alloc_pd(l->b.end), TARGET, 4096, CT_ACCESS_ALL, rkey);
}

static void spoil_end(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	use_mr(l, l->b.end->pd, TARGET, 7, CT_ACCESS_ALL, rkey);
}

static void spoil_start(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	use_mr(l, l->b.end->pd, TARGET, 4096, CT_ACCESS_ALL, rkey);
	*addr -= 8;
}

static void spoil_wrap(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	*addr = UINT64_MAX - 7;
}

static void spoil_null(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	*addr = 0;
}

static void spoil_zero_length(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	use_mr(l, l->b.end->pd, TARGET, 0, CT_ACCESS_ALL, rkey);
}

static void spoil_dereg(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	struct ct_mr mr;

	CT_TRUE(ct_reg_mr(l->b.end, l->b.end->pd, TARGET, 4096, CT_ACCESS_ALL, &mr) > 0);
	CT_EQ(ct_destroy(l->b.end, mr.handle), 0);
	*rkey = mr.rkey;
}

static void spoil_all_rights(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	use_mr(l, l->b.end->pd, TARGET, 4096, IBV_ACCESS_LOCAL_WRITE, rkey);
}

static void spoil_write_right(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	use_mr(l, l->b.end->pd, TARGET, 4096, CT_ACCESS_ALL & ~IBV_ACCESS_REMOTE_WRITE, rkey);
}

static void spoil_read_right(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	use_mr(l, l->b.end->pd, TARGET, 4096, CT_ACCESS_ALL & ~IBV_ACCESS_REMOTE_READ, rkey);
}

static void spoil_atomic_right(struct ct_link *l, uint64_t *addr, uint32_t *rkey)
{
	use_mr(l, l->b.end->pd, TARGET, 4096, CT_ACCESS_ALL & ~IBV_ACCESS_REMOTE_ATOMIC, rkey);
}

static void unknown_key(struct ct *t)
{
	check_each(t, spoil_key);
	check_each(t, spoil_tag);
}

static void lkey_as_rkey(struct ct *t)
{
	check_each(t, spoil_with_lkey);
}

static void foreign_pd(struct ct *t)
{
	check_each(t, spoil_pd);
}

static void out_of_bounds(struct ct *t)
{
	check_each(t, spoil_end);
	check_each(t, spoil_start);
	check_each(t, spoil_wrap);
	check_each(t, spoil_null);
	check_each(t, spoil_zero_length);
}

static void key_of_the_past(struct ct *t)
{
	check_each(t, spoil_dereg);
}

static void no_rights(struct ct *t)
{
	check_each(t, spoil_all_rights);
}

static void each_right_for_itself(struct ct *t)
{
	check_reliable(t, IBV_WR_RDMA_WRITE, spoil_write_right);
	check_reliable(t, IBV_WR_RDMA_WRITE_WITH_IMM, spoil_write_right);
	check_reliable(t, IBV_WR_RDMA_READ, spoil_read_right);
	check_reliable(t, IBV_WR_ATOMIC_CMP_AND_SWP, spoil_atomic_right);
	check_reliable(t, IBV_WR_ATOMIC_FETCH_AND_ADD, spoil_atomic_right);
}

/* Work before the bad request has been done. */
static void earlier_requests_count(struct ct *t)
{
	struct ibv_sge sge = ct_sge(t->near, 0, 100);
	struct ibv_send_wr wr[3];
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_fill(t->near, 0, 100, 7);
	for (int i = 0; i < 3; i++) {
		wr[i] = ct_wr(&l, IBV_WR_RDMA_WRITE, i, &sge, 1);
		ct_aim(&wr[i], t->far->mr.addr + TARGET + i * 1000, t->far->mr.rkey);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	ct_fill(t->far, TARGET + 2000, 100, 8);
	wr[1].wr.rdma.rkey ^= 0x100;
	ct_post(&l.a, wr);
	ct_sent(&l, 0, IBV_WC_SUCCESS);
	ct_sent(&l, 1, IBV_WC_REM_ACCESS_ERR);
	ct_sent(&l, 2, IBV_WC_WR_FLUSH_ERR);
	ct_same(t->far, TARGET, 100, 7);
	ct_same(t->far, TARGET + 2000, 100, 8);
	ct_event(t->far, IBV_EVENT_QP_ACCESS_ERR, l.b.handle);
}

const struct ct_case ct_err_access_cases[] = {
	{ "an unknown rkey is REM_ACCESS_ERR", unknown_key, CT_RC | CT_UC | CT_IB },
	{ "an lkey used as rkey is REM_ACCESS_ERR", lkey_as_rkey, CT_RC | CT_UC | CT_DISTINCT },
	{ "an rkey of another PD is REM_ACCESS_ERR", foreign_pd, CT_RC | CT_UC },
	{ "an access out of bounds is REM_ACCESS_ERR", out_of_bounds, CT_RC | CT_UC },
	{ "an rkey of the past is REM_ACCESS_ERR", key_of_the_past, CT_RC | CT_UC },
	{ "an MR without remote rights is REM_ACCESS_ERR", no_rights, CT_RC | CT_UC },
	{ "each remote right of an MR stands for itself", each_right_for_itself, CT_RC },
	{ "requests before the one that is refused have been done", earlier_requests_count, CT_RC },
	{ 0 },
};
