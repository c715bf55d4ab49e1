/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics. */
#include "ct.h"

static const uint64_t WORD = 4096, OLD = 1024;

static struct ibv_send_wr atomic(const struct ct_link *l, enum ibv_wr_opcode opcode, uint64_t wr_id,
				 struct ibv_sge *sge, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr wr;

	*sge = ct_sge(l->a.end, OLD + wr_id * 8, 8);
	wr = ct_wr(l, opcode, wr_id, sge, 1);
	ct_aim(&wr, l->b.end->mr.addr + WORD, l->b.end->mr.rkey);
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	return wr;
}

static uint64_t run(const struct ct_link *l, enum ibv_wr_opcode opcode, uint64_t compare_add,
		    uint64_t swap)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = atomic(l, opcode, 1, &sge, compare_add, swap);
	struct ibv_wc wc;

	ct_poke(l->a.end, OLD + 8, 0x7777);
	ct_post(&l->a, &wr);
	wc = ct_sent(l, 1, IBV_WC_SUCCESS);
	CT_EQ(wc.opcode, opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD);
	CT_EQ(wc.byte_len, 8);
	return ct_peek(l->a.end, OLD + 8);
}

static void compare_and_swap(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_poke(t->far, WORD, 0x1122334455667788);
	CT_EQ(run(&l, IBV_WR_ATOMIC_CMP_AND_SWP, 0x1122334455667788, 42), 0x1122334455667788);
	CT_EQ(ct_peek(t->far, WORD), 42);
	CT_EQ(run(&l, IBV_WR_ATOMIC_CMP_AND_SWP, 41, 43), 42); /* differs: not swapped */
	CT_EQ(ct_peek(t->far, WORD), 42);
	CT_EQ(run(&l, IBV_WR_ATOMIC_CMP_AND_SWP, 42, 0), 42);
	CT_EQ(ct_peek(t->far, WORD), 0);
}

static void fetch_and_add(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_poke(t->far, WORD - 8, 0xaaaa);
	ct_poke(t->far, WORD, 5);
	ct_poke(t->far, WORD + 8, 0xbbbb);
	CT_EQ(run(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 10, 0), 5);
	CT_EQ(run(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, (uint64_t)-20, 0), 15); /* modulo 2^64 */
	CT_EQ(ct_peek(t->far, WORD), (uint64_t)-5);
	CT_EQ(run(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 1ull << 40, 0), (uint64_t)-5);
	CT_EQ(ct_peek(t->far, WORD), (1ull << 40) - 5);
	CT_EQ(ct_peek(t->far, WORD - 8), 0xaaaa);
	CT_EQ(ct_peek(t->far, WORD + 8), 0xbbbb);
}

/* The atomic right of the region is the only one that is needed. */
static void atomic_right_is_enough(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, WORD, 64,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, &mr) > 0);
	ct_poke(t->far, WORD, 100);
	wr = atomic(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge, 1, 0);
	ct_aim(&wr, mr.addr, mr.rkey);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->far, WORD), 101);
}

/* Posted from both ends at once, over several QPs, all at one word of the far end. */
static void concurrent_adds_all_count(struct ct *t)
{
	enum { LINKS = 4, ADDS = 60 };
	struct ct_link l[LINKS];
	struct ct_opts o = ct_defaults(t);
	bool seen[LINKS * ADDS] = { false };

	for (int i = 0; i < LINKS; i++)
		ct_link_open(t, &l[i], &o);
	ct_poke(t->far, WORD, 0);
	for (int k = 0; k < ADDS; k++)
		for (int i = 0; i < LINKS; i++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = atomic(&l[i], IBV_WR_ATOMIC_FETCH_AND_ADD,
						       k * LINKS + i, &sge, 1, 0);

			ct_post(&l[i].a, &wr);
		}
	for (int k = 0; k < ADDS * LINKS; k++)
		CT_EQ(ct_wait(t->near, t->near->scq).status, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->far, WORD), LINKS * ADDS);
	for (int k = 0; k < ADDS * LINKS; k++) { /* each saw a value of its own */
		uint64_t old = ct_peek(t->near, OLD + k * 8);

		CT_TRUE(old < LINKS * ADDS && !seen[old]);
		seen[old] = true;
	}
}

/* The word is the far end's own memory: a loopback QP there competes with the near end. */
static void adds_from_both_ends(struct ct *t)
{
	enum { ADDS = 60 };
	struct ct_link l, own;
	struct ct_opts o = ct_defaults(t);
	struct ct self = *t;

	self.near = t->far;
	ct_link_open(t, &l, &o);
	ct_link_open(&self, &own, &o);
	ct_poke(t->far, WORD, 0);
	for (int k = 0; k < ADDS; k++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = atomic(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &sge, 1, 0);

		ct_post(&l.a, &wr);
		wr = atomic(&own, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &sge, 1, 0);
		ct_post(&own.a, &wr);
	}
	for (int k = 0; k < ADDS; k++) {
		ct_sent(&l, 0, IBV_WC_SUCCESS);
		ct_sent(&own, 0, IBV_WC_SUCCESS);
	}
	CT_EQ(ct_peek(t->far, WORD), 2 * ADDS);
}

static void atomics_are_ordered_with_writes(struct ct *t)
{
	struct ct_link l;
	struct ibv_sge value, old;
	struct ibv_send_wr write, add;

	ct_link_open(t, &l, NULL);
	for (uint64_t i = 1; i < 100; i++) {
		value = ct_sge(t->near, 0, 8);
		write = ct_wr(&l, IBV_WR_RDMA_WRITE, 0, &value, 1);
		ct_aim(&write, t->far->mr.addr + WORD, t->far->mr.rkey);
		add = atomic(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &old, 7, 0);
		write.next = &add;
		ct_poke(t->near, 0, i * 1000);
		ct_post(&l.a, &write);
		ct_sent(&l, 0, IBV_WC_SUCCESS);
		ct_sent(&l, 1, IBV_WC_SUCCESS);
		CT_EQ(ct_peek(t->near, OLD + 8), i * 1000);
		CT_EQ(ct_peek(t->far, WORD), i * 1000 + 7);
	}
}

const struct ct_case ct_atomic_cases[] = {
	{ "CMP_AND_SWP swaps if equal and returns the old value", compare_and_swap, CT_RC | CT_IB },
	{ "FETCH_AND_ADD adds modulo 2^64 and returns the old value", fetch_and_add,
	  CT_RC | CT_IB },
	{ "the atomic right of an MR is enough", atomic_right_is_enough, CT_RC },
	{ "concurrent atomics over several QPs all count", concurrent_adds_all_count, CT_RC },
	{ "atomics of both ends at one word all count", adds_from_both_ends, CT_RC },
	{ "an atomic sees an earlier WRITE", atomics_are_ordered_with_writes, CT_RC },
	{ 0 },
};
