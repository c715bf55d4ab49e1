/* SPDX-License-Identifier: BSD-2-Clause */
/* Experimental verbs, written as a program of their time would be. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pair.h"

enum { RESULT = 0, TARGET = 8 }; /* words of a pair */

static struct ibv_exp_send_wr masked(struct pair *pair, struct ibv_sge *sge, int opcode)
{
	struct ibv_exp_send_wr wr = { 0 };

	*sge = (struct ibv_sge){ (uintptr_t)&pair->words[RESULT], 8, pair->mr->lkey };
	wr.wr_id = 77;
	wr.sg_list = sge;
	wr.num_sge = 1;
	wr.exp_opcode = opcode;
	wr.exp_send_flags = IBV_EXP_SEND_EXT_ATOMIC_INLINE | IBV_EXP_SEND_SIGNALED;
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.ext_op.masked_atomics.remote_addr = (uintptr_t)&pair->words[TARGET];
	wr.ext_op.masked_atomics.rkey = pair->mr->rkey;
	return wr;
}

static void expect_done(struct pair *pair, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = pair_wait(pair);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 77);
	assert_int_equal(wc.opcode, opcode);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(pair_poll(pair, &wc), 0); /* and nothing of how it was done */
}

static void query_device_tells_of_extended_atomics(void **state)
{
	struct pair pair;
	struct ibv_exp_device_attr attr = { .comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1 };
	struct ibv_device_attr today;

	pair_open(&pair, 0, 4);
	assert_int_equal(ibv_exp_query_device(pair.context, &attr), 0);
	assert_int_equal(ibv_query_device(pair.context, &today), 0);
	assert_int_equal(attr.max_qp, today.max_qp);
	assert_int_equal(attr.max_srq_sge, today.max_srq_sge);
	assert_int_equal(attr.phys_port_cnt, today.phys_port_cnt);
	assert_true(attr.comp_mask & IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS);
	assert_true(attr.exp_device_cap_flags & IBV_EXP_DEVICE_EXT_ATOMICS);
	assert_int_equal(attr.ext_atom.log_atomic_arg_sizes, 1 | 2 | 4 | 8 | 16 | 32);
	assert_int_equal(attr.ext_atom.log_max_atomic_inline, 5);
	attr.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED;
	assert_int_equal(ibv_exp_query_device(pair.context, &attr), EINVAL);
	pair_close(&pair);
}

static void create_qp_refuses_what_it_does_not_know(void **state)
{
	struct pair pair;
	struct ibv_exp_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					     .cap = { .max_send_wr = 1, .max_send_sge = 1 } };

	pair_open(&pair, 0, 4);
	attr.send_cq = attr.recv_cq = pair.cq;
	attr.pd = pair.pd;
	attr.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_QPG;
	assert_null(ibv_exp_create_qp(pair.context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG;
	attr.max_atomic_arg = 64;
	assert_null(ibv_exp_create_qp(pair.context, &attr));
	assert_int_equal(errno, EINVAL);
	pair_close(&pair);
}

static void plain_operations_are_todays(void **state)
{
	struct pair pair;
	struct ibv_sge sge, to;
	struct ibv_recv_wr receive = { .wr_id = 5, .sg_list = &to, .num_sge = 1 }, *bad_receive;
	struct ibv_exp_send_wr wr[2] = { 0 }, *bad;

	pair_open(&pair, 0, 4);
	sge = (struct ibv_sge){ (uintptr_t)pair.words, 16, pair.mr->lkey };
	to = (struct ibv_sge){ (uintptr_t)&pair.words[20], 16, pair.mr->lkey };
	pair.words[0] = 11;
	pair.words[1] = 22;
	assert_int_equal(ibv_post_recv(pair.qp[1], &receive, &bad_receive), 0);
	wr[0].sg_list = wr[1].sg_list = &sge;
	wr[0].num_sge = wr[1].num_sge = 1;
	wr[0].exp_opcode = IBV_EXP_WR_RDMA_WRITE;
	wr[0].wr.rdma.remote_addr = (uintptr_t)&pair.words[40];
	wr[0].wr.rdma.rkey = pair.mr->rkey;
	wr[0].next = &wr[1];
	wr[1].exp_opcode = IBV_EXP_WR_SEND_WITH_IMM;
	wr[1].ex.imm_data = 0x12345678;
	assert_int_equal(ibv_exp_post_send(pair.qp[0], wr, &bad), 0);
	struct ibv_wc wc = pair_wait(&pair); /* neither was signaled */
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.imm_data, 0x12345678);
	assert_int_equal(pair.words[21], 22);
	assert_int_equal(pair.words[40], 11);
	wr[1].exp_opcode = (enum ibv_exp_wr_opcode)0x7f;
	wr[1].next = NULL;
	assert_int_equal(ibv_exp_post_send(pair.qp[0], &wr[1], &bad), EOPNOTSUPP);
	assert_ptr_equal(bad, &wr[1]);
	pair_close(&pair);
}

/* As with ibv_post_send: its low 8 bits count, and the window says which key it has. */
static void a_window_gets_the_key_that_is_asked_for(void **state)
{
	struct ibv_exp_send_wr wr = { .wr_id = 9,
				      .exp_opcode = IBV_EXP_WR_BIND_MW,
				      .exp_send_flags = IBV_EXP_SEND_SIGNALED },
			       *bad;
	struct ibv_mw *mw;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct pair pair;
	uint32_t before;

	pair_open(&pair, 0, 4);
	mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2);
	mr = ibv_reg_mr(pair.pd, pair.words, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	assert_non_null(mw);
	assert_non_null(mr);
	before = mw->rkey;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = 0x4a5;
	wr.bind_mw.bind_info.mr = mr;
	wr.bind_mw.bind_info.addr = (uintptr_t)pair.words;
	wr.bind_mw.bind_info.length = 8;
	wr.bind_mw.bind_info.exp_mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	assert_int_equal(ibv_exp_post_send(pair.qp[0], &wr, &bad), 0);
	wc = pair_wait(&pair);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(mw->rkey, (before & ~0xffu) | 0xa5);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}

/* Rights have more bits there than today's have. */
static void a_right_that_nobody_knows_is_refused(void **state)
{
	struct ibv_exp_send_wr wr = { .exp_opcode = IBV_EXP_WR_BIND_MW }, *bad;
	struct ibv_mw *mw;
	struct pair pair;

	pair_open(&pair, 0, 4);
	mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2);
	assert_non_null(mw);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info.mr = pair.mr;
	wr.bind_mw.bind_info.addr = (uintptr_t)pair.words;
	wr.bind_mw.bind_info.length = 8;
	wr.bind_mw.bind_info.exp_mw_access_flags = 1ull << 40;
	assert_int_equal(ibv_exp_post_send(pair.qp[0], &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void masked_compare_and_swap(void **state)
{
	static const struct {
		uint64_t memory, compare_mask, compare, swap_mask, swap, after;
	} rows[] = {
		/* all bits: as the plain one */
		{ 5, ~0ull, 5, ~0ull, 9, 9 },
		{ 5, ~0ull, 6, ~0ull, 9, 5 },
		/* compares the low byte only, swaps all */
		{ 0xaa11, 0xff, 0x11, ~0ull, 0x77, 0x77 },
		{ 0xaa12, 0xff, 0x11, ~0ull, 0x77, 0xaa12 },
		/* swaps the second byte only; what lies outside of the masks does not count */
		{ 0xaabbccdd, 0xff, 0x9900dd, 0xff00, 0x12345678, 0xaabb56dd },
		/* compares nothing: always swaps */
		{ 0xffff, 0, 1, 0xf0, 0, 0xff0f },
		/* swaps nothing */
		{ 0x1234, 0xff, 0x34, 0, 0xffff, 0x1234 },
	};
	struct pair pair;

	pair_open(&pair, 0, 4);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ibv_sge sge;
		struct ibv_exp_send_wr *bad,
			wr = masked(&pair, &sge, IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP);
		struct ibv_exp_cmp_swap *op =
			&wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;

		op->compare_mask = rows[i].compare_mask;
		op->compare_val = rows[i].compare;
		op->swap_mask = rows[i].swap_mask;
		op->swap_val = rows[i].swap;
		pair.words[TARGET] = rows[i].memory;
		pair.words[RESULT] = ~rows[i].memory;
		assert_int_equal(ibv_exp_post_send(pair.qp[0], &wr, &bad), 0);
		expect_done(&pair, IBV_WC_COMP_SWAP);
		assert_int_equal(pair.words[TARGET], rows[i].after);
		assert_int_equal(pair.words[RESULT], rows[i].memory);
	}
	pair_close(&pair);
}

static void masked_fetch_and_add(void **state)
{
	static const struct {
		uint64_t memory, boundary, add, after;
	} rows[] = {
		{ 0xffffffffffffffff, 0, 1, 0 },
		{ 0xffffffffffffffff, 1ull << 63, 2, 1 },
		/* two halves: the low one wraps, the high one does not notice */
		{ 0x00000001ffffffff, 1ull << 31, 1, 0x0000000100000000 },
		{ 0xffffffffffffffff, 1ull << 31 | 1ull << 63, 0x100000001, 0 },
		/* eight bytes */
		{ 0xff01ff02ff03ff04, 0x8080808080808080, 0x0101010101010101, 0x0002000300040005 },
		/* each bit a field: addition is exclusive or */
		{ 0xf0f0, ~0ull, 0xff00, 0x0ff0 },
	};
	struct pair pair;

	pair_open(&pair, 0, 4);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ibv_sge sge;
		struct ibv_exp_send_wr *bad,
			wr = masked(&pair, &sge, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);

		wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = rows[i].add;
		wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary =
			rows[i].boundary;
		pair.words[TARGET] = rows[i].memory;
		pair.words[RESULT] = ~rows[i].memory;
		assert_int_equal(ibv_exp_post_send(pair.qp[0], &wr, &bad), 0);
		expect_done(&pair, IBV_WC_FETCH_ADD);
		assert_int_equal(pair.words[TARGET], rows[i].after);
		assert_int_equal(pair.words[RESULT], rows[i].memory);
	}
	pair_close(&pair);
}

static void masked_atomics_need_the_right_to_atomics_only(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_mr *mr;

	pair_open(&pair, 0, 4);
	mr = ibv_reg_mr(pair.pd, &pair.words[TARGET], 8,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	assert_non_null(mr);
	wr = masked(&pair, &sge, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
	wr.ext_op.masked_atomics.rkey = mr->rkey;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = 3;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary = 1;
	pair.words[TARGET] = 5;
	assert_int_equal(ibv_exp_post_send(pair.qp[0], &wr, &bad), 0);
	expect_done(&pair, IBV_WC_FETCH_ADD);
	assert_int_equal(pair.words[TARGET], 6); /* the carry of the lowest bit is cut off */
	assert_int_equal(pair.words[RESULT], 5);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}

/* sq_sig_all: every request is reported, once. */
static void a_queue_that_reports_all_reports_one_masked_atomic(void **state)
{
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, 1, 4);
	wr = masked(&pair, &sge, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
	wr.exp_send_flags &= ~(uint64_t)IBV_EXP_SEND_SIGNALED;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary = 1;
	assert_int_equal(ibv_exp_post_send(pair.qp[0], &wr, &bad), 0);
	expect_done(&pair, IBV_WC_FETCH_ADD);
	pair_close(&pair);
}

static void a_bad_key_fails_the_masked_atomic_once(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_wc wc;
	int failed = 0;

	pair_open(&pair, 0, 4);
	wr = masked(&pair, &sge, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary = 1;
	wr.ext_op.masked_atomics.rkey ^= 0x5a5a5a00;
	assert_int_equal(ibv_exp_post_send(pair.qp[0], &wr, &bad), 0);
	wc = pair_wait(&pair);
	assert_int_equal(wc.wr_id, 77);
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	/* What stood behind it is flushed, as with any other request. */
	while (pair_poll(&pair, &wc)) {
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		failed++;
	}
	assert_true(failed <= 1);
	pair_close(&pair);
}

struct adder {
	struct pair *pair;
	int index;
	unsigned times;
};

/* Each adds to a field of its own; the fields share a word. */
static void *add_often(void *arg)
{
	struct adder *adder = arg;

	for (unsigned i = 0; i < adder->times; i++) {
		struct ibv_sge sge;
		struct ibv_exp_send_wr *bad,
			wr = masked(adder->pair, &sge, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
		struct ibv_exp_fetch_add *op =
			&wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;
		int err;

		sge.addr = (uintptr_t)&adder->pair->words[16 + adder->index];
		op->add_val = 1ull << 32 * adder->index;
		op->field_boundary = 1ull << 31 | 1ull << 63;
		err = ibv_exp_post_send(adder->pair->qp[adder->index], &wr, &bad);
		/* Slots come back with a completion. */
		if (err == ENOMEM) {
			i--;
			sched_yield();
		} else if (err) {
			return (void *)"ibv_exp_post_send failed";
		}
	}
	return NULL;
}

static void masked_atomics_of_two_threads_lose_nothing(void **state)
{
	enum { TIMES = 200 };
	struct pair pair;
	struct adder adders[2] = { { &pair, 0, TIMES }, { &pair, 1, TIMES } };
	pthread_t threads[2];
	unsigned done = 0;

	pair_open(&pair, 0, 16);
	pair.words[TARGET] = 0xffffff80ull; /* the low field wraps on the way */
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_often, &adders[i]), 0);
	while (done < 2 * TIMES) {
		struct ibv_wc wc;

		if (pair_poll(&pair, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			done++;
		}
	}
	for (int i = 0; i < 2; i++) {
		void *complaint;

		pthread_join(threads[i], &complaint);
		assert_null(complaint);
	}
	assert_int_equal(pair.words[TARGET] >> 32, TIMES);
	assert_int_equal((uint32_t)pair.words[TARGET], (uint32_t)(0xffffff80u + TIMES));
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(query_device_tells_of_extended_atomics),
		cmocka_unit_test(create_qp_refuses_what_it_does_not_know),
		cmocka_unit_test(plain_operations_are_todays),
		cmocka_unit_test(a_window_gets_the_key_that_is_asked_for),
		cmocka_unit_test(a_right_that_nobody_knows_is_refused),
		cmocka_unit_test(masked_compare_and_swap),
		cmocka_unit_test(masked_fetch_and_add),
		cmocka_unit_test(masked_atomics_need_the_right_to_atomics_only),
		cmocka_unit_test(a_queue_that_reports_all_reports_one_masked_atomic),
		cmocka_unit_test(a_bad_key_fails_the_masked_atomic_once),
		cmocka_unit_test(masked_atomics_of_two_threads_lose_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
