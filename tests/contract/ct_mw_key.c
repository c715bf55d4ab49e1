/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys of type 2 windows. The low 8 bits are the program's, the others are the window's own index,
 * and a bound window is taken back by an invalidation alone. The windows are at the near end.
 */
#include "ct.h"

static const uint64_t HERE = 1 << 20;
enum { LENGTH = 8192, ALL = CT_ACCESS_REMOTE };

struct stage {
	struct ct *t;
	struct ct_link l, in; /* in: from the far end to the windows */
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint64_t addr;
};

static void set_up(struct ct *t, struct stage *s)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);

	s->t = t;
	s->addr = t->near->base + HERE;
	s->mr = ibv_reg_mr(pd, (void *)(uintptr_t)s->addr, LENGTH,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	s->mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CT_TRUE(s->mr != NULL && s->mw != NULL);
	ct_link_open(t, &s->l, NULL);
	s->in = ct_reverse(&s->l);
}

static void tear_down(struct stage *s)
{
	CT_EQ(ibv_dealloc_mw(s->mw), 0);
	CT_EQ(ibv_dereg_mr(s->mr), 0);
}

static struct ibv_send_wr bind_wr(struct stage *s, uint32_t rkey, uint64_t length)
{
	return (struct ibv_send_wr){
		.wr_id = 11,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { s->mw, rkey, { s->mr, s->addr, length, ALL } },
	};
}

static void bind(struct stage *s, uint32_t rkey, uint64_t length, enum ibv_wc_status status)
{
	struct ibv_send_wr wr = bind_wr(s, rkey, length);

	ct_post(&s->l.a, &wr);
	ct_expect(s->t->near, s->l.a.scq, 11, status);
}

static void local_inv(struct stage *s, uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_send_wr wr = { .wr_id = 12,
				  .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = rkey };

	ct_post(&s->l.a, &wr);
	ct_expect(s->t->near, s->l.a.scq, 12, status);
}

static void far_writes(struct stage *s, uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_sge sge = ct_sge(s->t->far, 0, 8);
	struct ibv_send_wr wr = ct_wr(&s->in, IBV_WR_RDMA_WRITE, 13, &sge, 1);

	ct_aim(&wr, s->addr, rkey);
	ct_post(&s->in.a, &wr);
	ct_sent(&s->in, 13, status);
}

/*
 * The window's rkey says which key it became, whatever the upper bits of the one that was asked
 * for.
 */
static void low_bits_count(struct ct *t)
{
	struct stage s;

	set_up(t, &s);
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t before = s.mw->rkey;
		uint32_t asked = i == 0   ? 0x400
				 : i == 1 ? ~before
				 : i == 2 ? 0xff
					  : ibv_inc_rkey(before);

		bind(&s, asked, 64, IBV_WC_SUCCESS);
		CT_EQ(s.mw->rkey, (before & ~0xffu) | (asked & 0xff));
		far_writes(&s, s.mw->rkey, IBV_WC_SUCCESS);
		local_inv(&s, s.mw->rkey, IBV_WC_SUCCESS);
	}
	bind(&s, 0x400, 64, IBV_WC_SUCCESS);
	far_writes(&s, 0x400, IBV_WC_REM_ACCESS_ERR);
	tear_down(&s);
}

/* A program may note the key itself, as it was asked for. */
static void noted_by_the_program(struct ct *t)
{
	struct stage s;
	uint32_t index;

	set_up(t, &s);
	index = s.mw->rkey & ~0xffu;
	bind(&s, 0x4321, 64, IBV_WC_SUCCESS);
	local_inv(&s, index | 0x21, IBV_WC_SUCCESS);
	s.mw->rkey = 0x4321;
	bind(&s, ibv_inc_rkey(s.mw->rkey), 64, IBV_WC_SUCCESS);
	CT_EQ(s.mw->rkey, index | 0x22);
	far_writes(&s, s.mw->rkey, IBV_WC_SUCCESS);
	tear_down(&s);
}

/* The same key again, after an invalidation. */
static void used_again(struct ct *t)
{
	struct stage s;
	uint32_t key;

	set_up(t, &s);
	bind(&s, ibv_inc_rkey(s.mw->rkey), 64, IBV_WC_SUCCESS);
	key = s.mw->rkey;
	local_inv(&s, key, IBV_WC_SUCCESS);
	bind(&s, key, 64, IBV_WC_SUCCESS);
	CT_EQ(s.mw->rkey, key);
	far_writes(&s, key, IBV_WC_SUCCESS);
	local_inv(&s, key, IBV_WC_SUCCESS);
	far_writes(&s, key, IBV_WC_REM_ACCESS_ERR);
	tear_down(&s);
}

static void no_bytes(struct ct *t)
{
	struct stage s;

	set_up(t, &s);
	bind(&s, ibv_inc_rkey(s.mw->rkey), 0, IBV_WC_MW_BIND_ERR);
	CT_EQ(ct_qp_state(&s.l.a), IBV_QPS_ERR);
	tear_down(&s);
}

/* Nor does it unbind one that is bound. */
static void no_bytes_of_a_bound_one(struct ct *t)
{
	struct stage s;
	uint32_t key;

	set_up(t, &s);
	bind(&s, ibv_inc_rkey(s.mw->rkey), 64, IBV_WC_SUCCESS);
	key = s.mw->rkey;
	bind(&s, ibv_inc_rkey(key), 0, IBV_WC_MW_BIND_ERR);
	CT_EQ(ct_to_state(&s.l.a, IBV_QPS_RESET) | ct_to_state(&s.l.b, IBV_QPS_RESET), 0);
	ct_link_connect(&s.l);
	far_writes(&s, key, IBV_WC_SUCCESS);
	tear_down(&s);
}

/*
 * Through another QP, or after it was taken back, nothing is: its sender succeeds, the receive
 * fails.
 */
static void taken_back_in_vain(struct ct *t)
{
	for (int twice = 0; twice < 2; twice++) {
		struct ct_link second, in;
		struct ibv_send_wr wr;
		struct stage s;

		set_up(t, &s);
		ct_link_open(t, &second, NULL);
		in = twice ? s.in : ct_reverse(&second);
		bind(&s, ibv_inc_rkey(s.mw->rkey), 64, IBV_WC_SUCCESS);
		if (twice)
			local_inv(&s, s.mw->rkey, IBV_WC_SUCCESS);
		ct_recv(&in.b, 21, 0, 64);
		wr = ct_wr(&in, IBV_WR_SEND_WITH_INV, 20, NULL, 0);
		wr.invalidate_rkey = s.mw->rkey;
		ct_post(&in.a, &wr);
		ct_sent(&in, 20, IBV_WC_SUCCESS);
		ct_got(&in, 21, IBV_WC_REM_INV_REQ_ERR);
		ct_wait_state(&in.b, IBV_QPS_ERR);
		ct_no_event(t->near);
		if (!twice)
			far_writes(&s, s.mw->rkey, IBV_WC_SUCCESS);
		tear_down(&s);
	}
}

const struct ct_case ct_mw_key_cases[] = {
	{ "a type 2 bind takes the low 8 bits of its rkey, the window has the others",
	  low_bits_count, CT_RC | CT_IB },
	{ "a type 2 window is bound by whatever the program notes as its rkey",
	  noted_by_the_program, CT_RC | CT_UC },
	{ "the rkey of a type 2 window can be used again", used_again, CT_RC },
	{ "a type 2 bind of no bytes is MW_BIND_ERR", no_bytes, CT_RC },
	{ "a type 2 bind of no bytes does not unbind", no_bytes_of_a_bound_one, CT_RC },
	{ "SEND_WITH_INV takes no window of another QP back, and none twice", taken_back_in_vain,
	  CT_RC },
	{ 0 },
};
