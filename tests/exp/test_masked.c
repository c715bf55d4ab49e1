/* SPDX-License-Identifier: BSD-2-Clause */
/* Extended atomics of 1 to 32 bytes, with masks. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

enum { TARGET = 4096, RESULT = 512, WIDE = 32 };

struct operands {
	uint8_t compare[WIDE], compare_mask[WIDE], swap[WIDE], swap_mask[WIDE];
};

static const struct rig_opts all_sizes = { .max_atomic_arg = WIDE };

/* The member is the number, or its address if the number is longer. */
static uint64_t member(const uint8_t *operand, unsigned width)
{
	uint64_t value = 0;

	if (width > sizeof(value))
		return (uintptr_t)operand;
	memcpy(&value, operand, width);
	return value;
}

static struct ibv_exp_send_wr request(struct rig *rig, struct ibv_sge *sge, unsigned width,
				      int opcode)
{
	struct ibv_exp_send_wr wr = {
		.wr_id = 7,
		.sg_list = sge,
		.num_sge = 1,
		.exp_opcode = opcode,
		.exp_send_flags = IBV_EXP_SEND_EXT_ATOMIC_INLINE | IBV_EXP_SEND_SIGNALED,
	};

	*sge = (struct ibv_sge){ (uintptr_t)rig->near.arena + RESULT, width, rig->near.mr->lkey };
	wr.ext_op.masked_atomics.log_arg_sz = (uint32_t)__builtin_ctz(width);
	wr.ext_op.masked_atomics.remote_addr = (uintptr_t)rig->far_arena + TARGET;
	wr.ext_op.masked_atomics.rkey = rig->far.rkey;
	return wr;
}

static void post(struct rig *rig, struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr *bad;

	RIG_EQ(ibv_exp_post_send(rig->near.qp, wr, &bad), 0);
}

static void swap_with(struct ibv_exp_send_wr *wr, const struct operands *o, unsigned width)
{
	struct ibv_exp_cmp_swap *op = &wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;

	op->compare_val = member(o->compare, width);
	op->compare_mask = member(o->compare_mask, width);
	op->swap_val = member(o->swap, width);
	op->swap_mask = member(o->swap_mask, width);
}

static void add_with(struct ibv_exp_send_wr *wr, const uint8_t *add, const uint8_t *boundary,
		     unsigned width)
{
	struct ibv_exp_fetch_add *op = &wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;

	op->add_val = member(add, width);
	op->field_boundary = member(boundary, width);
}

/* The bytes around the target do not change. */
static void expect_target(struct rig *rig, const uint8_t *wanted, unsigned width)
{
	const uint8_t *at = rig->far_arena + TARGET;

	assert_memory_equal(at, wanted, width);
	for (int i = 1; i <= 8; i++) {
		assert_int_equal(at[-i], 0xee);
		assert_int_equal(at[width + (unsigned)i - 1], 0xee);
	}
}

static void set_target(struct rig *rig, const uint8_t *value, unsigned width)
{
	memset(rig->far_arena + TARGET - 8, 0xee, width + 16);
	memcpy(rig->far_arena + TARGET, value, width);
}

static void swaps_under_masks_of_each_size(void **state)
{
	struct rig rig;

	rig_open(&rig, &all_sizes);
	for (unsigned width = 1; width <= WIDE; width *= 2) {
		struct operands o;
		uint8_t before[WIDE], after[WIDE];
		struct ibv_sge sge;
		struct ibv_exp_send_wr wr =
			request(&rig, &sge, width, IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP);

		rig_fill(before, width, width);
		rig_fill(o.swap, width, width + 100);
		rig_fill(o.swap_mask, width, width + 200);
		rig_fill(o.compare_mask, width, width + 300);
		o.compare_mask[width - 1] |= 1;
		for (unsigned i = 0; i < width; i++) {
			/* equal under the mask, different elsewhere */
			o.compare[i] = (uint8_t)(before[i] ^ ~o.compare_mask[i]);
			after[i] = (uint8_t)((before[i] & ~o.swap_mask[i]) |
					     (o.swap[i] & o.swap_mask[i]));
		}
		swap_with(&wr, &o, width);
		set_target(&rig, before, width);
		post(&rig, &wr);
		assert_int_equal(rig_sent(&rig, 7, IBV_WC_SUCCESS).exp_opcode,
				 IBV_EXP_WC_MASKED_COMP_SWAP);
		expect_target(&rig, after, width);
		assert_memory_equal(rig.near.arena + RESULT, before, width);
		/* a bit under the mask differs: nothing is swapped, and the value comes back */
		o.compare[width - 1] ^= 1;
		swap_with(&wr, &o, width);
		set_target(&rig, before, width);
		memset(rig.near.arena + RESULT, 0, width);
		post(&rig, &wr);
		rig_sent(&rig, 7, IBV_WC_SUCCESS);
		expect_target(&rig, before, width);
		assert_memory_equal(rig.near.arena + RESULT, before, width);
	}
	rig_close(&rig);
}

static void adds_whole_numbers_of_each_size(void **state)
{
	static const uint8_t one[WIDE] = { 1 }, none[WIDE],
			     ones[WIDE] = { [0 ... WIDE - 1] = 0xff };
	struct rig rig;

	rig_open(&rig, &all_sizes);
	for (unsigned width = 1; width <= WIDE; width *= 2) {
		struct ibv_sge sge;
		struct ibv_exp_send_wr wr =
			request(&rig, &sge, width, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);

		add_with(&wr, one, none, width);
		set_target(&rig, ones, width); /* the carry goes through all of it */
		post(&rig, &wr);
		assert_int_equal(rig_sent(&rig, 7, IBV_WC_SUCCESS).exp_opcode,
				 IBV_EXP_WC_MASKED_FETCH_ADD);
		expect_target(&rig, none, width);
		assert_memory_equal(rig.near.arena + RESULT, ones, width);
	}
	rig_close(&rig);
}

/* 32 bytes hold four counters of 64 bits, or sixteen of 16. */
static void fields_of_a_wide_number_count_apart(void **state)
{
	uint16_t fields[16], add[16], boundary[16], wanted[16];
	struct ibv_exp_send_wr wr;
	struct ibv_sge sge;
	struct rig rig;

	rig_open(&rig, &all_sizes);
	for (unsigned i = 0; i < 16; i++) {
		fields[i] = (uint16_t)(0xfff0 + i);
		add[i] = (uint16_t)(3 * i);
		boundary[i] = 0x8000;
		wanted[i] = (uint16_t)(fields[i] + add[i]);
	}
	set_target(&rig, (const uint8_t *)fields, WIDE);
	wr = request(&rig, &sge, WIDE, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
	add_with(&wr, (const uint8_t *)add, (const uint8_t *)boundary, WIDE);
	post(&rig, &wr);
	rig_sent(&rig, 7, IBV_WC_SUCCESS);
	expect_target(&rig, (const uint8_t *)wanted, WIDE);
	rig_close(&rig);
}

/* A plain atomic and an extended one at the same word. */
static void extended_and_plain_atomics_keep_order(void **state)
{
	enum { TIMES = 30 };
	uint64_t word = 0;
	struct rig rig;

	rig_open(&rig, &all_sizes);
	set_target(&rig, (const uint8_t *)&word, 8);
	for (uint64_t i = 0; i < TIMES; i++) {
		static const uint8_t one[WIDE] = { 1 }, none[WIDE];
		struct ibv_sge sge[2];
		struct ibv_exp_send_wr wr[2];

		wr[0] = request(&rig, &sge[0], 4, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
		add_with(&wr[0], one, none, 4);
		wr[1] = request(&rig, &sge[1], 8, IBV_EXP_WR_ATOMIC_FETCH_AND_ADD);
		wr[1].exp_send_flags = IBV_EXP_SEND_SIGNALED;
		wr[1].wr_id = 8;
		wr[1].wr.atomic.remote_addr = (uintptr_t)rig.far_arena + TARGET;
		wr[1].wr.atomic.rkey = rig.far.rkey;
		wr[1].wr.atomic.compare_add = 1;
		wr[0].next = &wr[1];
		post(&rig, wr);
		rig_sent(&rig, 7, IBV_WC_SUCCESS);
		rig_sent(&rig, 8, IBV_WC_SUCCESS);
		memcpy(&word, rig.near.arena + RESULT, sizeof(word));
		assert_int_equal(word, 2 * i + 1);
	}
	word = 2ull * TIMES;
	expect_target(&rig, (const uint8_t *)&word, 8);
	rig_close(&rig);
}

/* More of them than may be under way, none waited for. */
static void many_extended_atomics_each_see_their_turn(void **state)
{
	static const uint8_t one[WIDE] = { 1 }, none[WIDE];
	enum { COUNT = RIG_DEPTH };
	struct rig rig;

	rig_open(&rig, &all_sizes);
	set_target(&rig, none, 16);
	for (uint64_t i = 0; i < COUNT; i++) {
		struct ibv_sge sge;
		struct ibv_exp_send_wr wr =
			request(&rig, &sge, 16, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);

		sge.addr += 16 * i;
		wr.wr_id = i;
		add_with(&wr, one, none, 16);
		post(&rig, &wr);
	}
	for (uint64_t i = 0; i < COUNT; i++) {
		uint64_t old;

		assert_int_equal(rig_sent(&rig, i, IBV_WC_SUCCESS).byte_len, 16);
		memcpy(&old, rig.near.arena + RESULT + 16 * i, sizeof(old));
		assert_int_equal(old, i);
	}
	rig_close(&rig);
}

static void posts_that_cannot_be(void **state)
{
	const struct rig_opts eight = { .max_atomic_arg = 8 };
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_sge sge;
	struct rig rig;

	rig_open(&rig, &eight);
	wr = request(&rig, &sge, 16, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
	add_with(&wr, rig.near.arena, rig.near.arena, 16);
	assert_int_equal(ibv_exp_post_send(rig.near.qp, &wr, &bad), EINVAL); /* max_atomic_arg */
	assert_ptr_equal(bad, &wr);
	wr.ext_op.masked_atomics.log_arg_sz = 6;
	assert_int_equal(ibv_exp_post_send(rig.near.qp, &wr, &bad), EINVAL);
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED; /* operands that are not inline */
	assert_int_equal(ibv_exp_post_send(rig.near.qp, &wr, &bad), EOPNOTSUPP);
	rig_close(&rig);
	rig_open(&rig, NULL); /* no ATOMICS_ARG */
	wr = request(&rig, &sge, 8, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
	assert_int_equal(ibv_exp_post_send(rig.near.qp, &wr, &bad), EOPNOTSUPP);
	rig_close(&rig);
}

/* Each fault leaves the target's bytes alone. */
static void faults_have_the_status_of_plain_atomics(void **state)
{
	static const struct {
		const char *name;
		int shift, length;
		bool bad_key, bad_lkey;
		enum ibv_wc_status status;
	} rows[] = {
		{ "unaligned", 4, 8, false, false, IBV_WC_REM_INV_REQ_ERR },
		{ "no such key", 0, 8, true, false, IBV_WC_REM_ACCESS_ERR },
		{ "outside of the region", RIG_ARENA - TARGET, 8, false, false,
		  IBV_WC_REM_ACCESS_ERR },
		{ "another length", 0, 4, false, false, IBV_WC_LOC_LEN_ERR },
		{ "no such lkey", 0, 8, false, true, IBV_WC_LOC_PROT_ERR },
	};
	static const uint8_t one[WIDE] = { 1 }, none[WIDE];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ibv_exp_send_wr wr;
		struct ibv_sge sge;
		struct rig rig;

		rig_open(&rig, &all_sizes);
		set_target(&rig, none, 16);
		wr = request(&rig, &sge, 8, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
		add_with(&wr, one, none, 8);
		wr.ext_op.masked_atomics.remote_addr += (uint64_t)rows[i].shift;
		wr.ext_op.masked_atomics.rkey ^= rows[i].bad_key ? 0x5a5a5a00 : 0;
		sge.length = (uint32_t)rows[i].length;
		sge.lkey ^= rows[i].bad_lkey ? 0x5a5a5a00 : 0;
		post(&rig, &wr);
		rig_sent(&rig, 7, rows[i].status);
		expect_target(&rig, none, 16);
		rig_close(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(swaps_under_masks_of_each_size),
		cmocka_unit_test(adds_whole_numbers_of_each_size),
		cmocka_unit_test(fields_of_a_wide_number_count_apart),
		cmocka_unit_test(extended_and_plain_atomics_keep_order),
		cmocka_unit_test(many_extended_atomics_each_see_their_turn),
		cmocka_unit_test(posts_that_cannot_be),
		cmocka_unit_test(faults_have_the_status_of_plain_atomics),
	};
	int failed;

	rig_start();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rig_stop();
	return failed;
}
