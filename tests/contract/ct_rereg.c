/* SPDX-License-Identifier: BSD-2-Clause */
/* rereg_mr in every combination: what it changes, for both keys, and what a failure leaves. */
#include <sys/mman.h>

#include "ct.h"

static const uint64_t OLD = 1 << 20, NEW = 2 << 20, LENGTH = 4096;

enum {
	TRANSLATION = IBV_REREG_MR_CHANGE_TRANSLATION,
	PD = IBV_REREG_MR_CHANGE_PD,
	ACCESS = IBV_REREG_MR_CHANGE_ACCESS,
	READ_ONLY = IBV_ACCESS_REMOTE_READ,
	INPUT = IBV_REREG_MR_ERR_INPUT,
	CMD = IBV_REREG_MR_ERR_CMD,
};

static enum ibv_wc_status try_remote(struct ct_link *l, enum ibv_wr_opcode opcode, uint64_t addr,
				     uint32_t rkey)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, 64);
	struct ibv_send_wr wr = ct_wr(l, opcode, 1, &sge, 1);
	enum ibv_wc_status status;

	ct_aim(&wr, addr, rkey);
	ct_post(&l->a, &wr);
	status = ct_wait(l->a.end, l->a.scq).status;
	if (status == IBV_WC_SUCCESS)
		return status;
	/* Mended for the next try. */
	ct_wait_state(&l->b, IBV_QPS_ERR);
	ct_event(l->b.end, IBV_EVENT_QP_ACCESS_ERR, l->b.handle);
	CT_EQ(ct_to_state(&l->a, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&l->b, IBV_QPS_RESET), 0);
	/* Other PSNs: a late copy of the refused packet would be refused once more. */
	l->a.psn = (l->a.psn + 0x400000) & 0xffffff;
	ct_link_connect(l);
	return status;
}

/* The region is far, so that a peer's view of it is what is tested. */
static void remote_view(struct ct *t)
{
	struct ct_link l;
	int other = ct_alloc_pd(t->far);

	CT_TRUE(other > 0);
	ct_link_open(t, &l, NULL);
	for (int flags = 1; flags <= (TRANSLATION | PD | ACCESS); flags++) {
		bool moved = flags & TRANSLATION, strange = flags & PD, weak = flags & ACCESS;
		enum ibv_wc_status refused = IBV_WC_REM_ACCESS_ERR, good = IBV_WC_SUCCESS;
		struct ct_mr mr, old;
		uint64_t now;

		CT_TRUE(ct_reg_mr(t->far, t->far->pd, OLD, LENGTH, CT_ACCESS_ALL, &mr) > 0);
		old = mr;
		CT_EQ(try_remote(&l, IBV_WR_RDMA_WRITE, mr.addr, mr.rkey), good);
		CT_EQ(ct_rereg_mr(t->far, &mr, flags, strange ? other : 0, moved ? NEW : 0,
				  moved ? LENGTH : 0, weak ? READ_ONLY : 0),
		      0);
		CT_EQ(mr.rkey, old.rkey);
		CT_EQ(mr.lkey, old.lkey);
		now = t->far->base + (moved ? NEW : OLD);
		CT_EQ(mr.addr, now);
		CT_EQ(try_remote(&l, IBV_WR_RDMA_WRITE, now, mr.rkey),
		      strange || weak ? refused : good);
		CT_EQ(try_remote(&l, IBV_WR_RDMA_READ, now, mr.rkey), strange ? refused : good);
		if (moved)
			CT_EQ(try_remote(&l, IBV_WR_RDMA_READ, old.addr, mr.rkey), refused);
		/* And back, in one step. */
		CT_EQ(ct_rereg_mr(t->far, &mr, flags, strange ? t->far->pd : 0, moved ? OLD : 0,
				  moved ? LENGTH : 0, weak ? CT_ACCESS_ALL : 0),
		      0);
		CT_EQ(try_remote(&l, IBV_WR_RDMA_WRITE, old.addr, mr.rkey), good);
		CT_EQ(ct_destroy(t->far, mr.handle), 0);
	}
	CT_EQ(ct_destroy(t->far, other), 0); /* nothing is left in it */
}

/* The same through the lkey: a near region that is read into. */
static void local_view(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd), *other = ibv_alloc_pd(pd->context);
	uint8_t *base = (uint8_t *)(uintptr_t)t->near->base;

	for (int flags = 1; flags <= (TRANSLATION | PD | ACCESS); flags++) {
		bool moved = flags & TRANSLATION, strange = flags & PD, weak = flags & ACCESS;
		struct ibv_mr *mr = ibv_reg_mr(pd, base + OLD, LENGTH, CT_ACCESS_ALL);
		struct ibv_sge sge = { (uintptr_t)base + (moved ? NEW : OLD), 64, mr->lkey };
		struct ct_link l;
		struct ibv_send_wr wr;

		ct_link_open(t, &l, NULL);
		ct_fill(t->far, 0, 64, flags);
		CT_EQ(ibv_rereg_mr(mr, flags, other, moved ? base + NEW : NULL, moved ? LENGTH : 0,
				   weak ? READ_ONLY : 0),
		      0);
		CT_TRUE(mr->pd == (strange ? other : pd));
		CT_TRUE(mr->addr == base + (moved ? NEW : OLD));
		wr = ct_wr(&l, IBV_WR_RDMA_READ, 1, &sge, 1);
		ct_post(&l.a, &wr);
		ct_sent(&l, 1, strange || weak ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
		if (!strange && !weak)
			ct_same(t->near, moved ? NEW : OLD, 64, flags);
		CT_EQ(ibv_dereg_mr(mr), 0);
	}
	CT_EQ(ibv_dealloc_pd(other), 0);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* What the library sees by itself is an input error, the rest is its kernel's to say. */
static void refused(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near), *elsewhere = ibv_open_device(ctx->device);
	struct ibv_pd *pd = ct_object(t->near, t->near->pd), *foreign = ibv_alloc_pd(elsewhere);
	uint8_t *base = (uint8_t *)(uintptr_t)t->near->base;
	struct ibv_mr *mr = ibv_reg_mr(pd, base + OLD, LENGTH, CT_ACCESS_ALL);
	uint8_t *hole = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct {
		int flags;
		struct ibv_pd *pd;
		void *addr;
		size_t length;
		int access, result, error;
	} rows[] = {
		{ 1 << 3, pd, base, 64, 0, INPUT, EINVAL },
		{ TRANSLATION | 1 << 20, pd, base, 64, 0, INPUT, EINVAL },
		{ TRANSLATION, NULL, NULL, 64, 0, INPUT, EINVAL },
		{ TRANSLATION, NULL, base, 0, 0, INPUT, EINVAL },
		{ PD, pd, NULL, 0, CT_ACCESS_ALL, INPUT, EINVAL }, /* rights without the flag */
		{ 0, pd, base, 64, 0, CMD, EINVAL },
		{ PD, NULL, NULL, 0, 0, CMD, EINVAL },
		{ PD, foreign, NULL, 0, 0, CMD, EINVAL },
		{ ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, CMD, EINVAL },
		{ ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_ATOMIC, CMD, EINVAL },
		{ ACCESS, NULL, NULL, 0, 1 << 19, CMD, EINVAL },
		{ TRANSLATION | PD | ACCESS, pd, base + NEW, 64, IBV_ACCESS_REMOTE_ATOMIC, CMD,
		  EINVAL },
		{ TRANSLATION, NULL, hole, LENGTH, 0, CMD, EFAULT },
	};
	struct ct_link l, in;

	CT_TRUE(mr != NULL && hole != MAP_FAILED);
	ct_link_open(t, &l, NULL);
	in = ct_reverse(&l);
	for (int i = 0; i < CT_COUNT(rows); i++) {
		errno = 0;
		CT_EQ(ibv_rereg_mr(mr, rows[i].flags, rows[i].pd, rows[i].addr, rows[i].length,
				   rows[i].access),
		      rows[i].result);
		CT_EQ(errno, rows[i].error);
		/* The old one is as good as before. */
		CT_TRUE(mr->addr == base + OLD && mr->length == LENGTH && mr->pd == pd);
		CT_EQ(try_remote(&in, IBV_WR_RDMA_WRITE, (uintptr_t)mr->addr, mr->rkey),
		      IBV_WC_SUCCESS);
	}
	munmap(hole, LENGTH);
	CT_EQ(ibv_dereg_mr(mr), 0);
	CT_EQ(ibv_dealloc_pd(foreign), 0);
	CT_EQ(ibv_close_device(elsewhere), 0);
}

/* A window would still open what is not there any more. */
static void with_a_window(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	uint8_t *base = (uint8_t *)(uintptr_t)t->near->base;
	struct ibv_mr *mr = ibv_reg_mr(pd, base + OLD, LENGTH, CT_ACCESS_ALL | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .wr_id = 3,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { mr, (uintptr_t)mr->addr, 64,
						   IBV_ACCESS_REMOTE_READ } };
	struct ct_link l;

	CT_TRUE(mr != NULL && mw != NULL);
	ct_link_open(t, &l, NULL);
	CT_EQ(ibv_bind_mw(ct_object(t->near, l.a.handle), mw, &bind), 0);
	ct_sent(&l, 3, IBV_WC_SUCCESS);
	errno = 0;
	CT_EQ(ibv_rereg_mr(mr, ACCESS, NULL, NULL, 0, READ_ONLY), CMD);
	CT_EQ(errno, EBUSY);
	CT_EQ(ibv_dealloc_mw(mw), 0);
	CT_EQ(ibv_rereg_mr(mr, ACCESS, NULL, NULL, 0, READ_ONLY), 0);
	CT_EQ(ibv_dereg_mr(mr), 0);
}

/* ---- while it is used ------------------------------------------------------------------------ */

/* A posted receive names the memory as it was: it does not fit the region any more. */
static void posted_receives(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	uint8_t *base = (uint8_t *)(uintptr_t)t->near->base;
	struct ibv_mr *mr = ibv_reg_mr(pd, base + OLD, LENGTH, CT_ACCESS_ALL);
	struct ibv_sge sge = { (uintptr_t)base + OLD, 64, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 4, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ct_link l, in;

	ct_link_open(t, &l, NULL);
	in = ct_reverse(&l);
	CT_EQ(ct_post_recv(&in.b, &wr, &bad), 0);
	CT_EQ(ibv_rereg_mr(mr, TRANSLATION, NULL, base + NEW, LENGTH, 0), 0);
	ct_fill(t->near, OLD, 64, 8);
	ct_send(&in, 1, 0, 64);
	ct_sent(&in, 1, IBV_WC_REM_OP_ERR);
	ct_got(&in, 4, IBV_WC_LOC_PROT_ERR);
	ct_same(t->near, OLD, 64, 8);
	CT_EQ(ibv_dereg_mr(mr), 0);
}

/* What arrived before is where it was to be, although nobody has polled it. */
static void arrived_receives(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	uint8_t *base = (uint8_t *)(uintptr_t)t->near->base;
	struct ibv_mr *mr = ibv_reg_mr(pd, base + OLD, LENGTH, CT_ACCESS_ALL);
	struct ibv_sge sge = { (uintptr_t)base + OLD, 64, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 4, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ct_link l, in;

	ct_link_open(t, &l, NULL);
	in = ct_reverse(&l);
	CT_EQ(ct_post_recv(&in.b, &wr, &bad), 0);
	ct_fill(t->far, 0, 16, 9);
	ct_send(&in, 1, 0, 16);
	ct_sent(&in, 1, IBV_WC_SUCCESS);
	CT_EQ(ibv_rereg_mr(mr, TRANSLATION, NULL, base + NEW, LENGTH, 0), 0);
	ct_same(t->near, OLD, 16, 9);
	ct_fill(t->near, OLD, 16, 1); /* from now on it is nobody's business */
	ct_got(&in, 4, IBV_WC_SUCCESS);
	ct_same(t->near, OLD, 16, 1);
	CT_EQ(ibv_dereg_mr(mr), 0);
}

/* To and fro under a peer that writes all the time: each write lands whole, or not at all. */
static void under_load(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	uint8_t *base = (uint8_t *)(uintptr_t)t->near->base;
	struct ibv_mr *mr = ibv_reg_mr(pd, base + OLD, LENGTH, CT_ACCESS_ALL);
	struct ibv_sge sge = ct_sge(t->far, 0, LENGTH);
	struct ct_opts o = ct_defaults(t);
	struct ibv_send_wr wr;
	struct ct_link l, in;
	int hammer;

	o.scq_b = ct_create_cq(t->far, 64, 0);
	ct_link_open(t, &l, &o);
	in = ct_reverse(&l);
	wr = ct_wr(&in, IBV_WR_RDMA_WRITE, 0, &sge, 1);
	ct_aim(&wr, (uintptr_t)base + OLD, mr->rkey);
	hammer = ct_hammer_start(&in.a, &wr, 3000, 8);
	/* The same memory with and without rights that do not matter here. */
	for (int i = 0; i < 300; i++)
		CT_EQ(ibv_rereg_mr(mr, ACCESS, NULL, NULL, 0,
				   i % 2 ? CT_ACCESS_ALL : CT_ACCESS_ALL & ~IBV_ACCESS_REMOTE_READ),
		      0);
	/* A write that met the moment in between was refused, which ends the hammer. */
	CT_TRUE(ct_hammer_join(t->far, hammer) >= 0);
	CT_EQ(ibv_dereg_mr(mr), 0);
	memset(base + OLD, 0x5a, LENGTH);
	for (uint64_t i = 0; i < LENGTH; i++)
		CT_EQ(base[OLD + i], 0x5a);
}

const struct ct_case ct_rereg_cases[] = {
	{ "rereg_mr changes what its flags say for peers, and nothing else", remote_view, CT_RC },
	{ "rereg_mr changes what its flags say for the lkey, too", local_view, CT_RC },
	{ "rereg_mr that is refused leaves the old region as it was", refused, CT_RC },
	{ "rereg_mr with a bound window is refused", with_a_window, CT_RC },
	{ "a receive posted before rereg_mr names the old memory", posted_receives, CT_RC },
	{ "a message that arrived before rereg_mr is in the old memory", arrived_receives, CT_RC },
	{ "rereg_mr while a peer writes", under_load, CT_RC },
	{ 0 },
};
