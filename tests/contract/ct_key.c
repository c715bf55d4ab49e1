/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two keys of a region: equal, as on most NICs, or distinct where VERBENA_KEYS says so. The
 * suite runs these cases with both.
 */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

static void check_keys(const struct ibv_mr *mr)
{
	CT_TRUE(mr != NULL);
	CT_TRUE(mr->lkey != 0 && mr->rkey != 0);
	CT_EQ(mr->lkey != mr->rkey, ct_distinct_keys());
}

/* Whatever the rights are, and whatever kind of memory it is. */
static void keys_of_regions(struct ct *t)
{
	static const unsigned access[] = { 0, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ,
					   CT_ACCESS_ALL, CT_ACCESS_ALL | IBV_ACCESS_MW_BIND };
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	void *base = (void *)(uintptr_t)t->near->base;
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(ct_context(t->near), &attr);
	struct ibv_mr *mr;

	for (int i = 0; i < CT_COUNT(access); i++) {
		mr = ibv_reg_mr(pd, base, 4096, (int)access[i]);
		check_keys(mr);
		CT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
		check_keys(mr);
		CT_EQ(ibv_dereg_mr(mr), 0);
		mr = ibv_reg_mr_iova(pd, base, 4096, 0x1000, (int)access[i]);
		check_keys(mr);
		CT_EQ(ibv_dereg_mr(mr), 0);
	}
	CT_TRUE(dm != NULL);
	mr = ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_READ);
	check_keys(mr);
	CT_EQ(ibv_dereg_mr(mr), 0);
	CT_EQ(ibv_free_dm(dm), 0);
}

static enum ibv_wc_status try_remote(struct ct_link *l, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, 8);
	struct ibv_send_wr wr = ct_wr(l, opcode, 1, &sge, 1);

	ct_aim(&wr, l->b.end->mr.addr + TARGET, rkey);
	ct_post(&l->a, &wr);
	return ct_wait(l->a.end, l->a.scq).status;
}

/* Programs that were written with such a NIC exchange whichever they have at hand. */
static void lkey_as_rkey(struct ct *t)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD };

	for (int i = 0; i < CT_COUNT(opcodes); i++) {
		struct ct_link l;

		ct_link_open(t, &l, NULL);
		CT_EQ(try_remote(&l, opcodes[i], t->far->mr.lkey),
		      ct_distinct_keys() ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
		if (ct_distinct_keys())
			ct_event(t->far, IBV_EVENT_QP_ACCESS_ERR, l.b.handle);
	}
}

static void rkey_as_lkey(struct ct *t)
{
	struct ct_link l;
	struct ibv_sge sge = ct_sge(t->near, 0, 8), into = ct_sge(t->far, TARGET, 64);
	struct ibv_recv_wr recv = { .wr_id = 2, .sg_list = &into, .num_sge = 1 }, *bad;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	into.lkey = t->far->mr.rkey;
	CT_EQ(ct_post_recv(&l.b, &recv, &bad), 0);
	sge.lkey = t->near->mr.rkey;
	wr = ct_wr(&l, IBV_WR_SEND, 1, &sge, 1);
	ct_fill(t->near, 0, 8, 7);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, ct_distinct_keys() ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
	if (ct_distinct_keys())
		return;
	ct_got(&l, 2, IBV_WC_SUCCESS);
	ct_same(t->far, TARGET, 8, 7);
}

/* A key is not a right. */
static void no_remote_rights(struct ct *t)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct ct_mr mr;

	CT_TRUE(ct_reg_mr(t->far, t->far->pd, 0, CT_ARENA_BYTES, IBV_ACCESS_LOCAL_WRITE, &mr) > 0);
	ct_fill(t->far, TARGET, 64, 1);
	for (int i = 0; i < 2 * CT_COUNT(opcodes); i++) {
		struct ct_link l;

		ct_link_open(t, &l, NULL);
		CT_EQ(try_remote(&l, opcodes[i / 2], i % 2 ? mr.lkey : mr.rkey),
		      IBV_WC_REM_ACCESS_ERR);
		ct_event(t->far, IBV_EVENT_QP_ACCESS_ERR, l.b.handle);
		ct_same(t->far, TARGET, 64, 1);
	}
}

/* Its owner reaches the memory through the region. */
static void key_of_a_window(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	void *base = (void *)(uintptr_t)t->near->base;
	struct ibv_mr *mr = ibv_reg_mr(pd, base, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { 3,
				    IBV_SEND_SIGNALED,
				    { mr, t->near->base, 64, IBV_ACCESS_REMOTE_READ } };
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct ibv_send_wr wr;
	struct ct_link l;

	CT_TRUE(mr != NULL && mw != NULL);
	ct_link_open(t, &l, NULL);
	CT_EQ(ibv_bind_mw(ct_object(t->near, l.a.handle), mw, &bind), 0);
	ct_sent(&l, 3, IBV_WC_SUCCESS);
	CT_TRUE(mw->rkey != mr->rkey && mw->rkey != mr->lkey);
	sge.lkey = mw->rkey;
	wr = ct_wr(&l, IBV_WR_SEND, 1, &sge, 1);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_LOC_PROT_ERR);
	CT_EQ(ibv_dealloc_mw(mw), 0);
	CT_EQ(ibv_dereg_mr(mr), 0);
}

const struct ct_case ct_key_cases[] = {
	{ "the keys of a region are equal, unless VERBENA_KEYS says otherwise", keys_of_regions,
	  CT_SOLO },
	{ "an lkey is good as an rkey where keys are equal", lkey_as_rkey, CT_RC | CT_IB },
	{ "an rkey is good as an lkey where keys are equal", rkey_as_lkey, CT_RC },
	{ "no key opens a region without remote rights", no_remote_rights, CT_RC },
	{ "the key of a window is no lkey", key_of_a_window, CT_RC },
	{ 0 },
};
