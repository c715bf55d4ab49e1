/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * On-demand paging: regions whose memory comes and goes. Whatever is missing when an operation
 * touches it is an error of that operation, whoever executes it; never one of the process.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ct.h"

enum { PAGE = 4096, PAGES = 16, SIZE = PAGES * PAGE };
enum { ODP = CT_ACCESS_ALL | IBV_ACCESS_ON_DEMAND };

/* ---- address space --------------------------------------------------------------------------- */

/* Reserved and not there, or there and fresh. */
static void set(uint8_t *at, size_t length, int protection)
{
	CT_TRUE(mmap(at, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
}

static uint8_t *space(int protection)
{
	uint8_t *at = mmap(NULL, SIZE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CT_TRUE(at != MAP_FAILED);
	return at;
}

static void write_pattern(uint8_t *at, uint32_t length, unsigned seed)
{
	for (uint32_t i = 0; i < length; i++)
		at[i] = (uint8_t)(i * 7 + seed);
}

static void check_pattern(const uint8_t *at, uint32_t length, unsigned seed)
{
	for (uint32_t i = 0; i < length; i++)
		CT_EQ(at[i], (uint8_t)(i * 7 + seed));
}

static struct ibv_mr *reg(struct ct *t, void *at, size_t length, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(ct_object(t->near, t->near->pd), at, length, access);

	CT_TRUE(mr != NULL);
	return mr;
}

/* ---- objects --------------------------------------------------------------------------------- */

static void capabilities(struct ct *t)
{
	const uint32_t two_sided = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
	/* FLUSH and ATOMIC_WRITE have no names in older headers. */
	const uint32_t reliable = IBV_ODP_SUPPORT_ATOMIC | 1 << 6 | 1 << 7;
	struct ibv_device_attr_ex attr;

	CT_EQ(ibv_query_device_ex(ct_context(t->near), NULL, &attr), 0);
	CT_EQ(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	CT_EQ(attr.odp_caps.per_transport_caps.ud_odp_caps & two_sided, two_sided);
	CT_EQ(attr.odp_caps.per_transport_caps.uc_odp_caps & two_sided, two_sided);
	CT_EQ(attr.odp_caps.per_transport_caps.rc_odp_caps & reliable, reliable);
	CT_EQ(attr.odp_caps.per_transport_caps.ud_odp_caps & IBV_ODP_SUPPORT_READ, 0);
}

static void registering(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	uint8_t *hole = space(PROT_NONE);
	struct ibv_mr *mr;

	CT_NULL(ibv_reg_mr(pd, hole, SIZE, CT_ACCESS_ALL), EFAULT);
	CT_EQ(ibv_dereg_mr(reg(t, hole, SIZE, ODP)), 0);
	CT_EQ(ibv_dereg_mr(reg(t, hole, SIZE, IBV_ACCESS_ON_DEMAND)), 0);
	CT_NULL(ibv_reg_mr(pd, hole, SIZE, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_WRITE), EINVAL);
	CT_NULL(ibv_reg_mr(pd, NULL, SIZE_MAX, CT_ACCESS_ALL), EINVAL);
	CT_NULL(ibv_reg_mr(pd, hole, SIZE_MAX, ODP), EINVAL);
	CT_NULL(ibv_reg_mr(pd, NULL, SIZE_MAX, ODP | IBV_ACCESS_HUGETLB), EINVAL);
	mr = reg(t, NULL, SIZE_MAX, ODP | IBV_ACCESS_RELAXED_ORDERING);
	CT_TRUE(mr->length == SIZE_MAX && !mr->addr);
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(hole, SIZE);
}

/* Flags that a library does not know, in the range of those that may be ignored. */
static void optional_flags(struct ct *t)
{
	uint8_t *at = space(PROT_READ | PROT_WRITE);

	for (int bit = 20; bit < 30; bit++)
		CT_EQ(ibv_dereg_mr(reg(t, at, SIZE, CT_ACCESS_ALL | 1 << bit)), 0);
	CT_NULL(ibv_reg_mr(ct_object(t->near, t->near->pd), at, SIZE, CT_ACCESS_ALL | 1 << 19),
		EINVAL);
	munmap(at, SIZE);
}

static void advice(struct ct *t)
{
	enum {
		READ = IBV_ADVISE_MR_ADVICE_PREFETCH,
		WRITE = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
		LOOK = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
		FLUSH = IBV_ADVISE_MR_FLAG_FLUSH
	};
	struct ibv_pd *pd = ct_object(t->near, t->near->pd), *other = ibv_alloc_pd(pd->context);
	uint8_t *at = space(PROT_READ | PROT_WRITE), *hole = space(PROT_NONE);
	struct ibv_mr *mr = reg(t, at, SIZE, ODP), *weak = reg(t, at, SIZE, IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *plain = reg(t, at, SIZE, CT_ACCESS_ALL), *none = reg(t, hole, SIZE, ODP);
	struct ibv_mr *whole = reg(t, NULL, SIZE_MAX, ODP);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	const struct {
		struct ibv_pd *pd;
		int advice;
		uint32_t flags;
		struct ibv_sge sge;
		int wanted;
	} rows[] = {
		{ pd, READ, 0, { (uintptr_t)at, SIZE, mr->lkey }, 0 },
		{ pd, READ, FLUSH, { (uintptr_t)at + 1, 1, mr->lkey }, 0 },
		{ pd, WRITE, FLUSH, { (uintptr_t)at, SIZE, mr->lkey }, 0 },
		{ pd, LOOK, FLUSH, { (uintptr_t)at, SIZE, mr->lkey }, 0 },
		{ pd, READ, FLUSH, { (uintptr_t)at, SIZE, weak->lkey }, 0 },
		{ pd, WRITE, FLUSH, { (uintptr_t)at, SIZE, whole->lkey }, 0 },
		{ pd, WRITE, FLUSH, { (uintptr_t)at, SIZE, weak->lkey }, EPERM },
		{ other, READ, FLUSH, { (uintptr_t)at, SIZE, mr->lkey }, EPERM },
		{ pd, READ, FLUSH, { (uintptr_t)at, SIZE, mr->lkey ^ 0x100 }, ENOENT },
		{ pd, READ, FLUSH, { (uintptr_t)at, SIZE, plain->lkey }, ENOENT },
		{ other, READ, 0, { (uintptr_t)at, SIZE, plain->lkey }, ENOENT },
		{ pd, READ, FLUSH, { (uintptr_t)at, SIZE + 1, mr->lkey }, EFAULT },
		{ pd, READ, 0, { (uintptr_t)at - 1, 8, mr->lkey }, EFAULT },
		{ pd, READ, FLUSH, { (uintptr_t)hole, 1, none->lkey }, EFAULT },
		{ pd, READ, 0, { (uintptr_t)hole, 1, none->lkey }, 0 }, /* nobody waits for it */
		{ pd, READ, FLUSH << 1, { (uintptr_t)at, 8, mr->lkey }, EINVAL },
		{ pd, LOOK + 1, FLUSH, { (uintptr_t)at, 8, mr->lkey }, EOPNOTSUPP },
	};

	CT_TRUE(mw != NULL && other != NULL);
	for (int i = 0; i < CT_COUNT(rows); i++) {
		struct ibv_sge sge = rows[i].sge;

		CT_EQ(ibv_advise_mr(rows[i].pd, (enum ibv_advise_mr_advice)rows[i].advice,
				    rows[i].flags, &sge, 1),
		      rows[i].wanted);
	}
	CT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, FLUSH, NULL, 0), EINVAL);
	CT_EQ(ibv_dealloc_mw(mw), 0);
	CT_EQ(ibv_dereg_mr(mr) | ibv_dereg_mr(weak) | ibv_dereg_mr(plain) | ibv_dereg_mr(none) |
		      ibv_dereg_mr(whole),
	      0);
	CT_EQ(ibv_dealloc_pd(other), 0);
	munmap(at, SIZE);
	munmap(hole, SIZE);
}

/* Prefetched pages are there. */
static void prefetch(struct ct *t)
{
	uint8_t *at = space(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = reg(t, at, SIZE, ODP);
	struct ibv_sge sge = { (uintptr_t)at, SIZE, mr->lkey };
	unsigned char present[PAGES];

	CT_EQ(mincore(at, SIZE, present), 0);
	for (int i = 0; i < PAGES; i++)
		CT_EQ(present[i] & 1, 0);
	CT_EQ(ibv_advise_mr(mr->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
			    &sge, 1),
	      0);
	CT_EQ(mincore(at, SIZE, present), 0);
	for (int i = 0; i < PAGES; i++)
		CT_EQ(present[i] & 1, 1);
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(at, SIZE);
}

/* ---- traffic --------------------------------------------------------------------------------- */

/* Both ways, with memory that appears only after the region, and again after it was replaced. */
static void carry(struct ct *t, bool implicit)
{
	static const uint32_t sizes[] = { 8, 24, 200, 1000, 3000, 40000 };
	uint8_t *at = space(PROT_NONE);
	struct ibv_mr *mr = implicit ? reg(t, NULL, SIZE_MAX, ODP) : reg(t, at, SIZE, ODP);
	struct ct_link l, in;
	uint32_t head;

	ct_link_open(t, &l, NULL);
	in = ct_reverse(&l);
	head = ct_headroom(&l);
	for (int i = 0; i < CT_COUNT(sizes); i++) {
		uint32_t size = sizes[i] < ct_message_max(&l) ? sizes[i] : ct_message_max(&l);
		struct ibv_sge to = { (uintptr_t)at + 100, size + head, mr->lkey };
		struct ibv_sge from = { (uintptr_t)at + 100 + head, size, mr->lkey };
		struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &to, .num_sge = 1 }, *bad;
		struct ibv_send_wr send = ct_wr(&l, IBV_WR_SEND, 3, &from, 1);

		set(at, SIZE, PROT_NONE);
		ct_fill(t->far, 4096, size, i);
		CT_EQ(ct_post_recv(&in.b, &recv, &bad), 0);
		set(at, SIZE, PROT_READ | PROT_WRITE); /* posted before, there when it is needed */
		ct_send(&in, 2, 4096, size);
		ct_sent(&in, 2, IBV_WC_SUCCESS);
		ct_got(&in, 1, IBV_WC_SUCCESS);
		ct_fill(t->far, 4096 - head, size + head, 99);
		ct_recv(&l.b, 4, 4096 - head, size + head);
		ct_post(&l.a, &send);
		ct_sent(&l, 3, IBV_WC_SUCCESS);
		ct_got(&l, 4, IBV_WC_SUCCESS);
		ct_same(t->far, 4096, size, i);
	}
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(at, SIZE);
}

static void explicit_messages(struct ct *t)
{
	carry(t, false);
}

static void implicit_messages(struct ct *t)
{
	carry(t, true);
}

static void one_sided(struct ct *t)
{
	uint8_t *at = space(PROT_NONE);
	struct ibv_mr *mr = reg(t, at, SIZE, ODP);
	struct ibv_sge sge = ct_sge(t->far, 0, 40000), one = ct_sge(t->far, 0, 8);
	struct ibv_sge own = { (uintptr_t)at, 40000, mr->lkey };
	struct ct_link l, in;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	in = ct_reverse(&l);
	for (unsigned round = 1; round < 4; round++) {
		set(at, SIZE, PROT_READ | PROT_WRITE); /* new pages at the old place */
		ct_fill(t->far, 0, 40000, round);
		wr = ct_wr(&in, IBV_WR_RDMA_WRITE, 1, &sge, 1);
		ct_aim(&wr, (uintptr_t)at, mr->rkey);
		ct_post(&in.a, &wr);
		ct_sent(&in, 1, IBV_WC_SUCCESS);
		/* What arrived is what a WRITE sends back, and what a READ fetches. */
		wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 2, &own, 1);
		ct_aim(&wr, t->far->mr.addr + (1 << 20), t->far->mr.rkey);
		ct_post(&l.a, &wr);
		ct_sent(&l, 2, IBV_WC_SUCCESS);
		ct_fill(t->far, 0, 40000, 50);
		wr = ct_wr(&in, IBV_WR_RDMA_READ, 3, &sge, 1);
		ct_aim(&wr, (uintptr_t)at, mr->rkey);
		ct_post(&in.a, &wr);
		ct_sent(&in, 3, IBV_WC_SUCCESS);
		ct_same(t->far, 0, 40000, round);
		CT_EQ(ct_peek(t->far, 1 << 20), ct_peek(t->far, 0));
		CT_EQ(ct_peek(t->far, (1 << 20) + 39992), ct_peek(t->far, 39992));
		write_pattern(at, SIZE, round);
		wr = ct_wr(&l, IBV_WR_RDMA_READ, 4, &own, 1);
		ct_aim(&wr, t->far->mr.addr, t->far->mr.rkey);
		ct_post(&l.a, &wr);
		ct_sent(&l, 4, IBV_WC_SUCCESS);
		CT_EQ(memcmp(at, &(uint64_t){ ct_peek(t->far, 0) }, 8), 0);
		check_pattern(at + 61000, 4000, round + 61000 * 7); /* behind it nothing changed */
		*(uint64_t *)at = 5;
		wr = ct_wr(&in, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, &one, 1);
		ct_aim(&wr, (uintptr_t)at, mr->rkey);
		wr.wr.atomic.compare_add = round;
		ct_post(&in.a, &wr);
		ct_sent(&in, 5, IBV_WC_SUCCESS);
		CT_EQ(ct_peek(t->far, 0), 5);
		CT_EQ(*(uint64_t *)at, 5 + round);
		wr = ct_wr(&in, IBV_WR_ATOMIC_WRITE, 6, &one, 1); /* the 5 that was fetched */
		ct_aim(&wr, (uintptr_t)at + 8192, mr->rkey);
		ct_post(&in.a, &wr);
		ct_sent(&in, 6, IBV_WC_SUCCESS);
		CT_EQ(*(uint64_t *)(at + 8192), 5);
	}
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(at, SIZE);
}

/* ---- holes ----------------------------------------------------------------------------------- */

/* The own memory is missing, from its first byte or in the middle: an error of the work request. */
static void own_holes(struct ct *t)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t length, skip; /* bytes that are there in front of the hole */
		int protection;
	} rows[] = {
		{ IBV_WR_SEND, 8, 0, PROT_NONE },
		{ IBV_WR_SEND, 1000, 500, PROT_NONE },
		{ IBV_WR_SEND, 20000, 8192, PROT_NONE },
		{ IBV_WR_RDMA_WRITE, 8, 0, PROT_NONE },
		{ IBV_WR_RDMA_WRITE, 20000, 8192, PROT_NONE },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 1000, 0, PROT_NONE },
		{ IBV_WR_RDMA_READ, 8, 0, PROT_NONE },
		{ IBV_WR_RDMA_READ, 20000, 8192, PROT_READ },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, PROT_READ },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 8, 0, PROT_NONE },
	};
	uint8_t *at = space(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = reg(t, at, SIZE, ODP);

	for (int i = 0; i < CT_COUNT(rows); i++) {
		struct ibv_sge sge = { (uintptr_t)at + 32768 - rows[i].skip, rows[i].length,
				       mr->lkey };
		struct ct_link l;
		struct ibv_send_wr wr;

		if (t->type != IBV_QPT_RC && rows[i].opcode >= IBV_WR_RDMA_READ)
			break;
		if (t->type == IBV_QPT_UD && rows[i].opcode != IBV_WR_SEND)
			continue;
		if (t->type == IBV_QPT_UD &&
		    rows[i].length > ct_message_max(&(struct ct_link){
					     .a = { .end = t->near, .type = IBV_QPT_UD } }))
			continue;
		set(at, 32768, PROT_READ | PROT_WRITE);
		set(at + 32768, SIZE - 32768, rows[i].protection);
		ct_fill(t->far, 1 << 20, 64, 3); /* a WRITE may have got as far as the hole */
		ct_link_open(t, &l, NULL);
		ct_recv(&l.b, 9, 0, 32768);
		wr = ct_wr(&l, rows[i].opcode, (uint64_t)i, &sge, 1);
		wr.wr.atomic.compare_add = t->type == IBV_QPT_RC ? 1 : wr.wr.atomic.compare_add;
		if (t->type != IBV_QPT_UD)
			ct_aim(&wr, t->far->mr.addr + (1 << 20), t->far->mr.rkey);
		ct_post(&l.a, &wr);
		ct_sent(&l, (uint64_t)i, IBV_WC_LOC_PROT_ERR);
		CT_EQ(ct_qp_state(&l.a), t->type == IBV_QPT_RC ? IBV_QPS_ERR : IBV_QPS_SQE);
		if (rows[i].opcode >= IBV_WR_ATOMIC_CMP_AND_SWP)
			ct_same(t->far, 1 << 20, 64, 3); /* no answer, no effect */
		ct_none(t->far, l.b.rcq);
		CT_EQ(ct_destroy(t->near, l.a.handle), 0);
		CT_EQ(ct_destroy(t->far, l.b.handle), 0);
	}
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(at, SIZE);
}

/* The target's memory is missing: the initiator is refused, the target is told. */
static void target_holes(struct ct *t)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t length;
		int protection;
	} rows[] = {
		{ IBV_WR_RDMA_WRITE, 8, PROT_NONE },
		{ IBV_WR_RDMA_WRITE, 8, PROT_READ },
		{ IBV_WR_RDMA_WRITE, 20000, PROT_NONE },
		{ IBV_WR_RDMA_READ, 8, PROT_NONE },
		{ IBV_WR_RDMA_READ, 20000, PROT_NONE },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, PROT_NONE },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 8, PROT_READ },
		{ IBV_WR_ATOMIC_WRITE, 8, PROT_READ },
	};
	uint8_t *at = space(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = reg(t, at, SIZE, ODP);

	for (int i = 0; i < CT_COUNT(rows); i++) {
		struct ibv_sge sge = ct_sge(t->far, 0, rows[i].length);
		struct ct_link l, in;
		struct ibv_send_wr wr;

		set(at, SIZE, PROT_READ | PROT_WRITE);
		set(at + 8192, 8192, rows[i].protection);
		ct_link_open(t, &l, NULL);
		in = ct_reverse(&l);
		wr = ct_wr(&in, rows[i].opcode, (uint64_t)i, &sge, 1);
		ct_aim(&wr, (uintptr_t)at + (rows[i].length == 8 ? 8192 : 0), mr->rkey);
		wr.wr.atomic.compare_add = 0;
		wr.wr.atomic.swap = 1;
		if (rows[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			wr.wr.atomic.compare_add = 1;
		ct_post(&in.a, &wr);
		ct_sent(&in, (uint64_t)i, IBV_WC_REM_ACCESS_ERR);
		ct_wait_state(&l.a, IBV_QPS_ERR);
		ct_event(t->near, IBV_EVENT_QP_ACCESS_ERR, l.a.handle);
		CT_EQ(ct_destroy(t->near, l.a.handle), 0);
		CT_EQ(ct_destroy(t->far, l.b.handle), 0);
	}
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(at, SIZE);
}

/* So is the buffer of a receive. */
static void receive_holes(struct ct *t)
{
	static const uint32_t sizes[] = { 8, 200, 1000 };
	uint8_t *at = space(PROT_NONE);
	struct ibv_mr *mr = reg(t, at, SIZE, ODP);

	for (int i = 0; i < CT_COUNT(sizes); i++) {
		struct ibv_sge sge = { (uintptr_t)at, 2000, mr->lkey };
		struct ibv_recv_wr recv = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 }, *bad;
		struct ct_link l, in;

		ct_link_open(t, &l, NULL);
		in = ct_reverse(&l);
		CT_EQ(ct_post_recv(&in.b, &recv, &bad), 0);
		ct_send(&in, 1, 0, sizes[i]);
		ct_sent(&in, 1, t->type == IBV_QPT_RC ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
		ct_got(&in, 7, IBV_WC_LOC_PROT_ERR);
		ct_wait_state(&l.a, IBV_QPS_ERR);
		CT_EQ(ct_destroy(t->near, l.a.handle), 0);
		CT_EQ(ct_destroy(t->far, l.b.handle), 0);
	}
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(at, SIZE);
}

/* ---- while it is used ------------------------------------------------------------------------ */

struct blink {
	uint8_t *at;
	_Atomic bool stop;
};

static void *blinking(void *arg)
{
	struct blink *blink = arg;

	while (!atomic_load(&blink->stop)) {
		set(blink->at, SIZE, PROT_NONE);
		set(blink->at, SIZE, PROT_READ | PROT_WRITE);
	}
	return NULL;
}

/* Memory comes and goes under whoever copies: some work requests fail, the process does not. */
static void under_fire(struct ct *t, bool from_here)
{
	struct blink blink = { .at = space(PROT_READ | PROT_WRITE) };
	struct ibv_mr *mr = reg(t, blink.at, SIZE, ODP);
	pthread_t thread;

	CT_EQ(pthread_create(&thread, NULL, blinking, &blink), 0);
	for (int round = 0; round < 20; round++) {
		struct ct_end *e = from_here ? t->near : t->far;
		struct ibv_sge sge = ct_sge(t->far, 0, 3000);
		struct ct_opts o = ct_defaults(t);
		struct ibv_send_wr wr;
		struct ct_link l, in;

		*(from_here ? &o.scq_a : &o.scq_b) = ct_create_cq(e, 64, 0);
		ct_link_open(t, &l, &o);
		in = from_here ? l : ct_reverse(&l);
		if (from_here)
			sge = (struct ibv_sge){ (uintptr_t)blink.at + 3000, 3000, mr->lkey };
		wr = ct_wr(&in, round % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0, &sge, 1);
		if (!from_here)
			ct_aim(&wr, (uintptr_t)blink.at + 3000, mr->rkey);
		CT_TRUE(ct_hammer_join(e, ct_hammer_start(&in.a, &wr, 50, 8)) >= 0);
		CT_EQ(ct_destroy(t->near, l.a.handle), 0);
		CT_EQ(ct_destroy(t->far, l.b.handle), 0);
	}
	atomic_store(&blink.stop, true);
	CT_EQ(pthread_join(thread, NULL), 0);
	CT_EQ(ibv_dereg_mr(mr), 0);
	munmap(blink.at, SIZE);
}

static void own_side_under_fire(struct ct *t)
{
	under_fire(t, true);
}

static void target_under_fire(struct ct *t)
{
	under_fire(t, false);
}

const struct ct_case ct_odp_cases[] = {
	{ "the device says what on-demand paging it has", capabilities, CT_SOLO },
	{ "an on-demand region needs no memory, an implicit one no address", registering, CT_SOLO },
	{ "optional access flags that are unknown are ignored", optional_flags, CT_SOLO },
	{ "advise_mr checks what it is given", advice, CT_SOLO },
	{ "prefetched pages are there", prefetch, CT_SOLO },
	{ "an on-demand region sends and receives what is there now", explicit_messages,
	  CT_RC | CT_UC | CT_UD },
	{ "an implicit region sends and receives from anywhere", implicit_messages,
	  CT_RC | CT_UC | CT_UD },
	{ "an on-demand region is the target of WRITE, READ and atomics", one_sided, CT_RC },
	{ "own memory that is missing is LOC_PROT_ERR", own_holes, CT_RC | CT_UC | CT_UD },
	{ "memory that is missing at the target is REM_ACCESS_ERR", target_holes, CT_RC },
	{ "a receive whose memory is missing is LOC_PROT_ERR", receive_holes,
	  CT_RC | CT_UC | CT_UD },
	{ "own memory may go away under a work request", own_side_under_fire, CT_RC },
	{ "memory may go away under a peer that uses it", target_under_fire, CT_RC },
	{ 0 },
};
