/* SPDX-License-Identifier: BSD-2-Clause */
/* The arithmetic of extended atomics against that of the compiler, and their payload. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "nic/masked.h"

enum { TIMES = 2000 };

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed ^ *seed >> 29;
}

static struct vb_masked made(bool compare_swap, unsigned width, const uint64_t operands[4])
{
	struct vb_masked op = { .compare_swap = compare_swap, .width = (uint8_t)width };

	for (unsigned i = 0; i < vb_masked_operands(compare_swap); i++)
		memcpy(op.operand[i], &operands[i], width);
	return op;
}

static uint64_t result(const struct vb_masked *op, uint64_t old)
{
	uint64_t value = 0;

	vb_masked_result(op, (const uint8_t *)&old, (uint8_t *)&value);
	return value;
}

static void words_swap_as_the_manual_says(void **state)
{
	uint64_t seed = 1;

	for (int i = 0; i < TIMES; i++) {
		uint64_t old = next(&seed), mask = next(&seed) & next(&seed);
		uint64_t compare = i % 2 ? old ^ (next(&seed) & ~mask) : next(&seed);
		uint64_t o[4] = { compare, mask, next(&seed), next(&seed) };
		struct vb_masked op = made(true, 8, o);
		bool equal = ((old ^ compare) & mask) == 0;

		assert_true(result(&op, old) == (equal ? (old & ~o[3]) | (o[2] & o[3]) : old));
	}
}

static void words_add_with_one_field_as_a_cpu_does(void **state)
{
	uint64_t seed = 2;

	for (int i = 0; i < TIMES; i++) {
		uint64_t old = next(&seed), o[4] = { next(&seed), 0 };
		struct vb_masked whole = made(false, 8, o), half = made(false, 4, o);

		assert_true(result(&whole, old) == old + o[0]);
		assert_true(result(&half, (uint32_t)old) == (uint32_t)(old + o[0]));
	}
}

static void a_boundary_ends_a_carry(void **state)
{
	uint64_t seed = 3;

	for (int i = 0; i < TIMES; i++) {
		uint64_t old = next(&seed), wanted = 0;
		uint64_t o[4] = { next(&seed), 0x8080808080808080ull };
		struct vb_masked op = made(false, 8, o);

		for (int byte = 0; byte < 64; byte += 8)
			wanted |= (((old >> byte) + (o[0] >> byte)) & 0xff) << byte;
		assert_true(result(&op, old) == wanted);
	}
}

static void payloads_come_back_as_they_were(void **state)
{
	for (unsigned width = 1; width <= VB_MASKED_BYTES_MAX; width *= 2)
		for (int swap = 0; swap < 2; swap++) {
			struct vb_masked op = { .compare_swap = swap, .width = (uint8_t)width };
			uint8_t bytes[VB_MASKED_OPERANDS * VB_MASKED_BYTES_MAX];
			struct vb_masked back;
			size_t length;

			for (unsigned i = 0; i < vb_masked_operands(swap); i++)
				memset(op.operand[i], (int)(16 * width + i), width);
			length = vb_masked_emit(&op, bytes);
			assert_int_equal(length, vb_masked_operands(swap) * width);
			assert_int_equal(vb_masked_emit(&op, NULL), length);
			assert_true(vb_masked_parse(swap, width, bytes, length, &back));
			assert_memory_equal(&back, &op, sizeof(op));
			assert_false(vb_masked_parse(swap, width, bytes, length - 1, &back));
			assert_false(vb_masked_parse(swap, width + 64, bytes, length, &back));
		}
}

static void sizes_are_powers_of_two_up_to_32(void **state)
{
	for (uint64_t width = 0; width < 200; width++)
		assert_int_equal(vb_masked_has_width(width), width == 1 || width == 2 ||
								     width == 4 || width == 8 ||
								     width == 16 || width == 32);
	assert_false(vb_masked_has_width(1ull << 40 | 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_swap_as_the_manual_says),
		cmocka_unit_test(words_add_with_one_field_as_a_cpu_does),
		cmocka_unit_test(a_boundary_ends_a_carry),
		cmocka_unit_test(payloads_come_back_as_they_were),
		cmocka_unit_test(sizes_are_powers_of_two_up_to_32),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
