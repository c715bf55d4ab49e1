/* SPDX-License-Identifier: BSD-2-Clause */
/* Parent domains and thread domains. */
#include <stdlib.h>

#include "ct.h"

static const uint64_t TARGET = 4 << 20;

static struct ibv_td *make_td(struct ct *t)
{
	struct ibv_td_init_attr init = { 0 };
	struct ibv_td *td = ibv_alloc_td(ct_context(t->near), &init);

	CT_TRUE(td != NULL);
	return td;
}

static struct ibv_pd *make_parent(struct ct *t, struct ibv_parent_domain_init_attr init)
{
	struct ibv_pd *pd;

	init.pd = ct_object(t->near, t->near->pd);
	pd = ibv_alloc_parent_domain(ct_context(t->near), &init);
	CT_TRUE(pd != NULL);
	return pd;
}

/* ---- objects --------------------------------------------------------------------------------- */

static void busy(struct ct *t)
{
	struct ibv_pd *base = ibv_alloc_pd(ct_context(t->near));
	struct ibv_td *td = make_td(t);
	struct ibv_parent_domain_init_attr init = { .pd = base, .td = td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(ct_context(t->near), &init);
	struct ibv_mr *mr;

	CT_TRUE(parent != NULL && parent != base);
	CT_TRUE(parent->context == base->context);
	CT_ERROR(ibv_dealloc_td(td), EBUSY);
	CT_ERROR(ibv_dealloc_pd(base), EBUSY);
	mr = ibv_reg_mr(parent, &init, sizeof(init), 0);
	CT_TRUE(mr != NULL);
	CT_TRUE(mr->pd == parent);
	CT_ERROR(ibv_dealloc_pd(parent), EBUSY);
	CT_EQ(ibv_dereg_mr(mr), 0);
	CT_EQ(ibv_dealloc_pd(parent), 0);
	CT_EQ(ibv_dealloc_td(td), 0);
	CT_EQ(ibv_dealloc_pd(base), 0);
}

static void *never(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
	return NULL;
}

static void what_is_refused(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	struct ibv_parent_domain_init_attr init = { 0 };
	struct ibv_td_init_attr td_init = { .comp_mask = 1 };
	struct ibv_context *other = ibv_open_device(ctx->device);
	struct ibv_pd *parent;

	CT_NULL(ibv_alloc_td(ctx, &td_init), EINVAL);
	CT_NULL(ibv_alloc_parent_domain(ctx, &init), EINVAL); /* no PD */
	init.pd = pd;
	init.comp_mask = 1 << 10;
	CT_NULL(ibv_alloc_parent_domain(ctx, &init), EINVAL);
	init.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	CT_NULL(ibv_alloc_parent_domain(ctx, &init), EINVAL); /* neither function */
	init.alloc = never;
	CT_NULL(ibv_alloc_parent_domain(ctx, &init), EINVAL); /* only one */
	init.comp_mask = 0;
	CT_NULL(ibv_alloc_parent_domain(other, &init), EINVAL);
	parent = ibv_alloc_parent_domain(ctx, &init);
	CT_TRUE(parent != NULL);
	init.pd = parent; /* no grandparents */
	CT_NULL(ibv_alloc_parent_domain(ctx, &init), EINVAL);
	CT_EQ(ibv_dealloc_pd(parent), 0);
	CT_EQ(ibv_close_device(other), 0);
}

/* ---- interchangeable with its PD ------------------------------------------------------------- */

/* The QP belongs to a parent domain, its MR to the PD behind it, or the other way round. */
static void stands_for_its_pd(struct ct *t)
{
	struct ibv_td *td = make_td(t);
	struct ibv_pd *parent = make_parent(t, (struct ibv_parent_domain_init_attr){ .td = td });
	int base = t->near->pd, handle = ct_adopt_pd(t->near, parent);
	struct ct_mr mr;
	struct ct_link l, in;

	t->near->pd = handle;
	ct_link_open(t, &l, NULL);
	t->near->pd = base;
	in = ct_reverse(&l);
	CT_TRUE(((struct ibv_qp *)ct_object(t->near, l.a.handle))->pd == parent);
	ct_usable(&l);
	ct_usable(&in);
	CT_TRUE(ct_reg_mr(t->near, handle, TARGET, 4096, CT_ACCESS_ALL, &mr) > 0);
	ct_fill(t->far, 0, 100, 7);
	if (t->type == IBV_QPT_RC) {
		struct ibv_sge sge = ct_sge(t->far, 0, 100);
		struct ibv_send_wr wr = ct_wr(&in, IBV_WR_RDMA_WRITE, 1, &sge, 1);

		ct_aim(&wr, mr.addr, mr.rkey);
		ct_post(&in.a, &wr);
		ct_sent(&in, 1, IBV_WC_SUCCESS);
		ct_same(t->near, TARGET, 100, 7);
	}
	CT_ERROR(ibv_dealloc_pd(parent), EBUSY);
	CT_EQ(ct_destroy(t->near, mr.handle), 0);
	CT_EQ(ct_destroy(t->near, l.a.handle), 0);
	if (l.ah_a)
		CT_EQ(ct_destroy(t->near, l.ah_a), 0);
	CT_EQ(ct_destroy(t->near, handle), 0);
	CT_EQ(ibv_dealloc_td(td), 0);
}

/* ---- memory of the application --------------------------------------------------------------- */

enum mood { GIVES, DEFAULTS, FAILS };

static struct counts {
	struct ibv_pd *pd;
	enum mood mood;
	int allocated, freed, asked;
	bool wrong;
} counts;

static void *count_alloc(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			 uint64_t type)
{
	struct counts *c = context;
	void *at;

	c->asked++;
	c->wrong |= pd != c->pd || !size || !alignment || alignment & (alignment - 1) || !type;
	if (c->mood != GIVES)
		return c->mood == DEFAULTS ? IBV_ALLOCATOR_USE_DEFAULT : NULL;
	if (posix_memalign(&at, alignment < sizeof(void *) ? sizeof(void *) : alignment, size))
		return NULL;
	memset(at, 0, size);
	c->allocated++;
	return at;
}

static void count_free(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
	struct counts *c = context;

	c->wrong |= pd != c->pd || !type || c->mood == DEFAULTS;
	c->freed++;
	memset(at, 0xee, 64); /* who still uses it will notice */
	free(at);
}

static struct ibv_pd *make_counting(struct ct *t, enum mood mood)
{
	struct ibv_parent_domain_init_attr init = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = count_alloc,
		.free = count_free,
		.pd_context = &counts,
	};

	counts = (struct counts){ .mood = mood };
	counts.pd = make_parent(t, init);
	return counts.pd;
}

static struct ibv_cq *make_cq(struct ct *t)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 64,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					    .parent_domain = counts.pd };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ct_context(t->near), &init);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static void with_allocators(struct ct *t, enum mood mood)
{
	struct ct_opts o = ct_defaults(t);
	int base = t->near->pd, handle = ct_adopt_pd(t->near, make_counting(t, mood)), cq;
	struct ibv_srq_attr larger = { .max_wr = 200 };
	struct ct_link l, in;
	int before;

	cq = o.scq_a = o.rcq_a = ct_adopt_cq(t->near, make_cq(t));
	CT_TRUE(cq > 0);
	CT_TRUE(counts.asked > 0);
	before = counts.asked;
	if (t->type != IBV_QPT_UC)
		o.srq_a = ct_create_srq(t->near, handle, 16, 1);
	CT_TRUE(t->type == IBV_QPT_UC || counts.asked > before);
	before = counts.asked;
	t->near->pd = handle;
	ct_link_open(t, &l, &o);
	t->near->pd = base;
	CT_TRUE(counts.asked > before);
	in = ct_reverse(&l);
	for (int i = 0; i < 40; i++) {
		ct_usable(&l);
		ct_usable(&in);
	}
	if (o.srq_a) { /* what is replaced is given back */
		before = counts.freed;
		CT_EQ(ct_modify_srq(t->near, o.srq_a, &larger, IBV_SRQ_MAX_WR), 0);
		CT_EQ(counts.freed, before + (mood == GIVES));
		ct_usable(&in);
	}
	CT_EQ(ct_destroy(t->near, l.a.handle), 0);
	if (l.ah_a)
		CT_EQ(ct_destroy(t->near, l.ah_a), 0);
	if (o.srq_a)
		CT_EQ(ct_destroy(t->near, o.srq_a), 0);
	CT_EQ(ct_destroy(t->near, cq), 0);
	CT_EQ(ct_destroy(t->near, handle), 0);
	CT_EQ(counts.freed, counts.allocated);
	CT_EQ(counts.allocated, mood == GIVES ? counts.asked : 0);
	CT_TRUE(!counts.wrong);
}

static void own_memory(struct ct *t)
{
	with_allocators(t, GIVES);
}

static void default_memory(struct ct *t)
{
	with_allocators(t, DEFAULTS);
}

static void no_memory(struct ct *t)
{
	struct ibv_pd *parent = make_counting(t, FAILS);
	struct ibv_srq_init_attr srq = { .attr = { 16, 1, 0 } };
	struct ibv_qp_init_attr qp = { .send_cq = ct_object(t->near, t->near->scq),
				       .recv_cq = ct_object(t->near, t->near->rcq),
				       .cap = { 8, 8, 1, 1, 0 },
				       .qp_type = IBV_QPT_RC };

	CT_NULL(make_cq(t), ENOMEM);
	CT_NULL(ibv_create_srq(parent, &srq), ENOMEM);
	CT_NULL(ibv_create_qp(parent, &qp), ENOMEM);
	CT_TRUE(counts.asked >= 3);
	CT_EQ(counts.freed, 0);
	CT_EQ(ibv_dealloc_pd(parent), 0); /* nothing is left of them */
}

const struct ct_case ct_domain_cases[] = {
	{ "a PD or thread domain cannot go while a parent domain has it", busy, CT_SOLO },
	{ "alloc_td and alloc_parent_domain refuse bad input", what_is_refused, CT_SOLO },
	{ "an allocator that fails is ENOMEM, and nothing leaks", no_memory, CT_SOLO },
	{ "a parent domain stands for its PD", stands_for_its_pd, CT_RC | CT_UC | CT_UD },
	{ "objects live in the memory of their parent domain", own_memory, CT_RC | CT_UC | CT_UD },
	{ "an allocator may ask for the default", default_memory, CT_RC },
	{ 0 },
};
