/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: what may be registered, and what a key then opens. */
#include <sys/mman.h>

#include "ct.h"

enum { PAGE = 4096 };

static struct ibv_pd *pd_of(struct ct *t)
{
	return ct_object(t->near, t->near->pd);
}

static uint8_t *pages(int count, int protection)
{
	void *p = mmap(NULL, count * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CT_TRUE(p != MAP_FAILED);
	return p;
}

static void fields_say_what_was_registered(struct ct *t)
{
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = ibv_reg_mr(pd_of(t), p + 5, 100, IBV_ACCESS_LOCAL_WRITE);

	CT_TRUE(mr != NULL);
	CT_TRUE(mr->addr == p + 5 && mr->pd == pd_of(t) && mr->context == ct_context(t->near));
	CT_EQ(mr->length, 100);
	CT_TRUE(mr->lkey != 0 && mr->rkey != 0);
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(p, PAGE);
}

static void access_rules(struct ct *t)
{
	static const struct {
		int access, error;
	} rules[] = {
		{ 0, 0 },
		{ IBV_ACCESS_LOCAL_WRITE, 0 },
		{ IBV_ACCESS_REMOTE_READ, 0 },
		{ IBV_ACCESS_REMOTE_WRITE, EINVAL },
		{ IBV_ACCESS_REMOTE_ATOMIC, EINVAL },
		{ IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, EINVAL },
		{ IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE, 0 },
		{ IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE, 0 },
		{ CT_ACCESS_ALL, 0 },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING, 0 }, /* optional: a hint */
		{ IBV_ACCESS_LOCAL_WRITE | 1 << 25, 0 },      /* optional and unknown: ignored */
		{ IBV_ACCESS_LOCAL_WRITE | 1 << 15, EINVAL }, /* not optional and unknown */
	};
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE);

	for (int i = 0; i < CT_COUNT(rules); i++) {
		struct ibv_mr *mr;

		if (rules[i].error) {
			CT_NULL(ibv_reg_mr(pd_of(t), p, PAGE, rules[i].access), rules[i].error);
			continue;
		}
		mr = ibv_reg_mr(pd_of(t), p, PAGE, rules[i].access);
		CT_TRUE(mr != NULL);
		CT_EQ(ibv_dereg_mr(mr), 0);
	}
	munmap(p, PAGE);
}

static void zero_length(struct ct *t)
{
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = ibv_reg_mr(pd_of(t), p, 0, CT_ACCESS_ALL);

	CT_TRUE(mr != NULL);
	CT_EQ(mr->length, 0);
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(p, PAGE);
}

static void overlapping(struct ct *t)
{
	uint8_t *p = pages(4, PROT_READ | PROT_WRITE);
	struct ibv_mr *a = ibv_reg_mr(pd_of(t), p, 4 * PAGE, CT_ACCESS_ALL);
	struct ibv_mr *b = ibv_reg_mr(pd_of(t), p + PAGE, 2 * PAGE, CT_ACCESS_ALL);
	struct ibv_mr *c = ibv_reg_mr(pd_of(t), p, 4 * PAGE, CT_ACCESS_ALL);

	CT_TRUE(a && b && c);
	CT_TRUE(a->rkey != b->rkey && a->rkey != c->rkey && b->rkey != c->rkey);
	CT_TRUE(a->lkey != b->lkey && a->lkey != c->lkey && b->lkey != c->lkey);
	CT_EQ(ibv_dereg_mr(b), 0);
	CT_EQ(ibv_dereg_mr(a), 0);
	CT_EQ(ibv_dereg_mr(c), 0);
	munmap(p, 4 * PAGE);
}

static void unreadable_memory(struct ct *t)
{
	uint8_t *p = pages(3, PROT_NONE);

	CT_NULL(ibv_reg_mr(pd_of(t), p, PAGE, 0), EFAULT);
	CT_EQ(mprotect(p, PAGE, PROT_READ | PROT_WRITE), 0);
	CT_NULL(ibv_reg_mr(pd_of(t), p, 2 * PAGE, CT_ACCESS_ALL),
		EFAULT); /* only the first page is */
	CT_EQ(mprotect(p + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
	CT_NULL(ibv_reg_mr(pd_of(t), p, 3 * PAGE, 0), EFAULT); /* a hole in the middle */
	munmap(p, 3 * PAGE);
	CT_NULL(ibv_reg_mr(pd_of(t), p, PAGE, IBV_ACCESS_LOCAL_WRITE), EFAULT); /* nothing there */
	CT_NULL(ibv_reg_mr(pd_of(t), NULL, PAGE, IBV_ACCESS_LOCAL_WRITE), EFAULT);
}

static void read_only_memory(struct ct *t)
{
	uint8_t *p = pages(2, PROT_READ);
	struct ibv_mr *mr;

	CT_NULL(ibv_reg_mr(pd_of(t), p, PAGE, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	mr = ibv_reg_mr(pd_of(t), p, PAGE, IBV_ACCESS_REMOTE_READ);
	CT_TRUE(mr != NULL);
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(p, 2 * PAGE);
}

static void wrapping_length(struct ct *t)
{
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE);

	errno = 0;
	CT_TRUE(ibv_reg_mr(pd_of(t), p, SIZE_MAX - 10, IBV_ACCESS_LOCAL_WRITE) == NULL);
	CT_TRUE(errno == EINVAL || errno == EFAULT || errno == ENOMEM);
	munmap(p, PAGE);
}

static void keys_are_not_reused_at_once(struct ct *t)
{
	enum { ROUNDS = 64 };
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE);
	uint32_t lkeys[ROUNDS], rkeys[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd_of(t), p, PAGE, CT_ACCESS_ALL);

		CT_TRUE(mr != NULL);
		lkeys[i] = mr->lkey;
		rkeys[i] = mr->rkey;
		CT_EQ(ibv_dereg_mr(mr), 0);
		for (int j = 0; j < i; j++)
			CT_TRUE(lkeys[i] != lkeys[j] && rkeys[i] != rkeys[j]);
	}
	munmap(p, PAGE);
}

static void rereg_refuses_bad_input(struct ct *t)
{
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = ibv_reg_mr(pd_of(t), p, PAGE, CT_ACCESS_ALL);
	uint32_t rkey;

	CT_TRUE(mr != NULL);
	rkey = mr->rkey;
	CT_EQ(ibv_rereg_mr(mr, 1 << 20, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	CT_EQ(errno, EINVAL);
	CT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, 0, 0),
	      IBV_REREG_MR_ERR_INPUT);
	CT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
	      IBV_REREG_MR_ERR_CMD);
	CT_EQ(errno, EINVAL);
	CT_EQ(mr->rkey, rkey);
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(p, PAGE);
}

/* ---- what a key opens: the far end registers, the near end writes ---------------------------- */

static enum ibv_wc_status write_to(struct ct_link *l, uint64_t addr, uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, length);
	struct ibv_send_wr wr = ct_wr(l, IBV_WR_RDMA_WRITE, 1, &sge, 1);

	ct_aim(&wr, addr, rkey);
	ct_post(&l->a, &wr);
	return ct_wait(l->a.end, l->a.scq).status;
}

/* A refused access breaks the connection: mend it. */
static void mend(struct ct_link *l)
{
	ct_wait_state(&l->b, IBV_QPS_ERR);
	ct_event(l->b.end, IBV_EVENT_QP_ACCESS_ERR, l->b.handle);
	CT_EQ(ct_to_state(&l->a, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&l->b, IBV_QPS_RESET), 0);
	ct_link_connect(l);
}

static void iova_names_the_region(struct ct *t)
{
	const uint64_t iova = 0x123456789000;
	struct ct_link l;
	struct ct_mr mr;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr_iova(t->far, t->far->pd, 8192, 4096, iova, CT_ACCESS_ALL, &mr) > 0);
	ct_fill(t->near, 0, 100, 1);
	ct_fill(t->far, 8192, 4096, 2);
	CT_EQ(write_to(&l, iova + 10, mr.rkey, 100), IBV_WC_SUCCESS);
	ct_same(t->far, 8192, 10, 2);
	ct_same(t->far, 8192 + 10, 100, 1);
	CT_EQ(write_to(&l, t->far->base + 8192, mr.rkey, 100), IBV_WC_REM_ACCESS_ERR);
	mend(&l);
	CT_EQ(write_to(&l, iova + 4096 - 99, mr.rkey, 100), IBV_WC_REM_ACCESS_ERR);
}

/* The iova holds for the lkey as well. */
static void iova_in_an_sge(struct ct *t)
{
	const uint64_t iova = 0x7000;
	struct ibv_sge sge;
	struct ibv_recv_wr recv, *bad;
	struct ct_link l;
	struct ct_mr mr;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr_iova(t->far, t->far->pd, 8192, 4096, iova, CT_ACCESS_ALL, &mr) > 0);
	sge = (struct ibv_sge){ .addr = iova + 1, .length = 500, .lkey = mr.lkey };
	recv = (struct ibv_recv_wr){ .wr_id = 7, .sg_list = &sge, .num_sge = 1 };
	CT_EQ(ct_post_recv(&l.b, &recv, &bad), 0);
	ct_fill(t->near, 0, 300, 3);
	ct_send(&l, 1, 0, 300);
	ct_got(&l, 7, IBV_WC_SUCCESS);
	ct_same(t->far, 8192 + 1 + ct_headroom(&l), 300, 3);
}

static void zero_based(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr;
	int ret = ct_reg_mr(t->far, t->far->pd, 8192, 4096, CT_ACCESS_ALL | IBV_ACCESS_ZERO_BASED,
			    &mr);

	if (ret == -EOPNOTSUPP || ret == -EINVAL)
		ct_skip("the device has no zero-based MRs");
	CT_TRUE(ret > 0);
	ct_link_open(t, &l, NULL);
	ct_fill(t->near, 0, 100, 4);
	CT_EQ(write_to(&l, 16, mr.rkey, 100), IBV_WC_SUCCESS);
	ct_same(t->far, 8192 + 16, 100, 4);
}

static void overlapping_regions_each_keep_their_rights(struct ct *t)
{
	struct ct_mr writable, readable;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, 4096, 4096, CT_ACCESS_ALL, &writable) > 0);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, 4096, 4096, IBV_ACCESS_REMOTE_READ, &readable) > 0);
	CT_EQ(write_to(&l, writable.addr, writable.rkey, 64), IBV_WC_SUCCESS);
	CT_EQ(write_to(&l, readable.addr, readable.rkey, 64), IBV_WC_REM_ACCESS_ERR);
}

static void dereg_closes_the_key_and_no_other(struct ct *t)
{
	struct ct_mr a, b;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, 4096, 4096, CT_ACCESS_ALL, &a) > 0);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, 4096, 4096, CT_ACCESS_ALL, &b) > 0);
	CT_EQ(ct_destroy(t->far, a.handle), 0);
	ct_fill(t->far, 4096, 64, 9);
	CT_EQ(write_to(&l, b.addr + 100, b.rkey, 64), IBV_WC_SUCCESS);
	CT_EQ(write_to(&l, a.addr, a.rkey, 64), IBV_WC_REM_ACCESS_ERR);
	ct_same(t->far, 4096, 64, 9);
}

static void rereg_moves_the_region(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr, old;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, 4096, 4096, CT_ACCESS_ALL, &mr) > 0);
	old = mr;
	CT_EQ(ct_rereg_mr(t->far, &mr, IBV_REREG_MR_CHANGE_TRANSLATION, 0, 16384, 2048, 0), 0);
	CT_EQ(mr.addr, t->far->base + 16384);
	CT_EQ(mr.length, 2048);
	ct_fill(t->near, 0, 64, 5);
	CT_EQ(write_to(&l, mr.addr + 2048 - 64, mr.rkey, 64), IBV_WC_SUCCESS);
	ct_same(t->far, 16384 + 2048 - 64, 64, 5);
	CT_EQ(write_to(&l, old.addr, mr.rkey, 64), IBV_WC_REM_ACCESS_ERR);
	mend(&l);
	CT_EQ(write_to(&l, mr.addr + 2048, mr.rkey, 64), IBV_WC_REM_ACCESS_ERR);
}

static void rereg_changes_rights(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, 4096, 4096, IBV_ACCESS_REMOTE_READ, &mr) > 0);
	CT_EQ(ct_rereg_mr(t->far, &mr, IBV_REREG_MR_CHANGE_ACCESS, 0, 0, 0, CT_ACCESS_ALL), 0);
	CT_EQ(write_to(&l, t->far->base + 4096, mr.rkey, 64), IBV_WC_SUCCESS);
	CT_EQ(ct_rereg_mr(t->far, &mr, IBV_REREG_MR_CHANGE_ACCESS, 0, 0, 0, IBV_ACCESS_REMOTE_READ),
	      0);
	CT_EQ(write_to(&l, t->far->base + 4096, mr.rkey, 64), IBV_WC_REM_ACCESS_ERR);
}

static void rereg_changes_the_pd(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr;
	int other;

	ct_link_open(t, &l, NULL);
	other = ct_alloc_pd(t->far);
	CT_TRUE(ct_reg_mr(t->far, other, 4096, 4096, CT_ACCESS_ALL, &mr) > 0);
	CT_EQ(write_to(&l, t->far->base + 4096, mr.rkey, 64), IBV_WC_REM_ACCESS_ERR);
	mend(&l);
	CT_EQ(ct_rereg_mr(t->far, &mr, IBV_REREG_MR_CHANGE_PD, t->far->pd, 0, 0, 0), 0);
	CT_EQ(ct_destroy(t->far, other), 0); /* no longer used by the MR */
	CT_EQ(write_to(&l, t->far->base + 4096, mr.rkey, 64), IBV_WC_SUCCESS);
}

const struct ct_case ct_mr_cases[] = {
	{ "an MR says what was registered", fields_say_what_was_registered, CT_SOLO },
	{ "remote write and atomic need local write, unknown rights are EINVAL", access_rules,
	  CT_SOLO },
	{ "a zero-length MR can be registered", zero_length, CT_SOLO },
	{ "registrations may overlap and have keys of their own", overlapping, CT_SOLO },
	{ "memory that cannot be read is EFAULT", unreadable_memory, CT_SOLO },
	{ "read-only memory with local write is EFAULT, without it is fine", read_only_memory,
	  CT_SOLO },
	{ "a length beyond the address space is refused", wrapping_length, CT_SOLO },
	{ "keys are not reused at once", keys_are_not_reused_at_once, CT_SOLO },
	{ "rereg_mr refuses bad input and leaves the MR alone", rereg_refuses_bad_input, CT_SOLO },
	{ "an iova names the region instead of its address", iova_names_the_region, CT_RC },
	{ "an iova holds for the lkey as well", iova_in_an_sge, CT_RC | CT_UC | CT_UD },
	{ "a zero-based region is named by offsets", zero_based, CT_RC },
	{ "overlapping regions each keep their own rights",
	  overlapping_regions_each_keep_their_rights, CT_RC },
	{ "dereg_mr closes its key and no other", dereg_closes_the_key_and_no_other, CT_RC },
	{ "rereg_mr moves the region", rereg_moves_the_region, CT_RC },
	{ "rereg_mr changes the rights", rereg_changes_rights, CT_RC },
	{ "rereg_mr changes the PD", rereg_changes_the_pd, CT_RC },
	{ 0 },
};
