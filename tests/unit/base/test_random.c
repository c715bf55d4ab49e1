/* SPDX-License-Identifier: BSD-2-Clause */
/* The secret permutation that makes keys, and the kernel's bits it is made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const uint64_t seeds[] = { 0, 1, 0x800000, 0xffffffffffff, 0x0123456789abcdef, UINT64_MAX };

static void every_number_comes_back_from_its_image(void **state)
{
	struct vb_permutation p;

	for (size_t s = 0; s < COUNT(seeds); s++) {
		/* All numbers for one seed; the others at a step that is prime to 2^24. */
		uint32_t step = seeds[s] == 0x0123456789abcdef ? 1 : 257;

		vb_permutation_init(&p, seeds[s]);
		for (uint32_t x = 0; x <= VB_MASK24; x += step) {
			uint32_t image = vb_permute24(&p, x);

			/* Within 24 bits and undone: hence no two numbers share an image. */
			if (image > VB_MASK24 || vb_unpermute24(&p, image) != x)
				fail_msg("seed %zu: %06x gives %08x", s, x, image);
		}
	}
}

static void every_number_is_the_image_of_what_it_is_undone_to(void **state)
{
	struct vb_permutation p;

	for (size_t s = 0; s < COUNT(seeds); s++) {
		vb_permutation_init(&p, seeds[s]);
		for (uint32_t x = 0; x <= VB_MASK24; x += 101)
			if (vb_permute24(&p, vb_unpermute24(&p, x)) != x)
				fail_msg("seed %zu: %06x is no image", s, x);
	}
}

static unsigned agreements(const struct vb_permutation *a, const struct vb_permutation *b)
{
	unsigned same = 0;

	for (uint32_t x = 0; x < 4096; x++)
		same += vb_permute24(a, x) == vb_permute24(b, x);
	return same;
}

static void other_seeds_make_other_permutations(void **state)
{
	struct vb_permutation a, b;

	for (size_t s = 1; s < COUNT(seeds); s++) {
		vb_permutation_init(&a, seeds[s - 1]);
		vb_permutation_init(&b, seeds[s]);
		assert_in_range(agreements(&a, &b), 0, 16);
	}
}

static void the_same_seed_makes_the_same_permutation(void **state)
{
	struct vb_permutation a, b;

	vb_permutation_init(&a, 0x5eed);
	vb_permutation_init(&b, 0x5eed);
	assert_int_equal(agreements(&a, &b), 4096);
}

static void random_bits_are_set_and_clear_in_every_place(void **state)
{
	uint64_t set = 0, clear = 0, before = vb_random64();

	for (int i = 0; i < 128; i++) {
		uint64_t value = vb_random64();

		assert_int_not_equal(value, before);
		set |= value;
		clear |= ~value;
		before = value;
	}
	assert_int_equal(set, UINT64_MAX);
	assert_int_equal(clear, UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_comes_back_from_its_image),
		cmocka_unit_test(every_number_is_the_image_of_what_it_is_undone_to),
		cmocka_unit_test(other_seeds_make_other_permutations),
		cmocka_unit_test(the_same_seed_makes_the_same_permutation),
		cmocka_unit_test(random_bits_are_set_and_clear_in_every_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
