/* SPDX-License-Identifier: BSD-2-Clause */
/* The adversary's decisions, and copies in shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/adversary.h"
#include "base/shards.h"

static void a_seed_is_a_number(void **state)
{
	static const char *const wrong[] = { "",    "x",   "-1",
					     "+1",  " 1",  "1 ",
					     "0x1", "1.5", "18446744073709551616" };
	uint64_t seed;

	(void)state;
	assert_true(vb_adversary_parse("0", &seed) && seed == 0);
	assert_true(vb_adversary_parse("18446744073709551615", &seed) && seed == UINT64_MAX);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_false(vb_adversary_parse(wrong[i], &seed));
}

/* The decisions of a seed about an object, as bits. */
static uint64_t decisions(uint64_t seed, enum vb_deed deed, uint64_t object, uint64_t from)
{
	uint64_t all = 0, bits;

	vb_adversary_set(true, seed);
	for (unsigned i = 0; i < 64; i++)
		all |= (uint64_t)vb_adversary_draws(deed, object, from + i, &bits) << i;
	vb_adversary_set(false, 0);
	return all;
}

static void a_seed_decides_the_same_again(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++)
		assert_int_equal(decisions(seed, VB_DEED_SEND_LATE, 1, 0),
				 decisions(seed, VB_DEED_SEND_LATE, 1, 0));
}

static void seeds_deeds_and_objects_decide_apart(void **state)
{
	const uint64_t one = decisions(1, VB_DEED_QUIET_LATE, 1, 0);

	(void)state;
	assert_int_not_equal(one, decisions(2, VB_DEED_QUIET_LATE, 1, 0));
	assert_int_not_equal(one, decisions(1, VB_DEED_SEND_LATE, 1, 0));
	assert_int_not_equal(one, decisions(1, VB_DEED_QUIET_LATE, 2, 0));
}

/* Each deed is done by some of the first seeds, and none by all of them at every occasion. */
static void every_deed_is_done(void **state)
{
	(void)state;
	for (unsigned deed = 0; deed < VB_DEED_COUNT; deed++) {
		unsigned often = 0;

		for (uint64_t seed = 1; seed <= 20; seed++)
			for (uint64_t from = 0; from < 256; from += 64)
				often += (unsigned)__builtin_popcountll(
					decisions(seed, (enum vb_deed)deed, 1, from));
		assert_in_range(often, 20, 20 * 256 - 20);
	}
}

static void deeds_become_rare(void **state)
{
	unsigned early = 0, late = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		early += (unsigned)__builtin_popcountll(decisions(seed, VB_DEED_SEND_LATE, 1, 0));
		late += (unsigned)__builtin_popcountll(
			decisions(seed, VB_DEED_SEND_LATE, 1, 100000));
	}
	assert_in_range(late * 8, 0, early);
}

static void times_have_an_end(void **state)
{
	uint64_t bits = 1, longest = 0;

	(void)state;
	for (unsigned i = 0; i < 10000; i++, bits = vb_adversary_more(bits)) {
		const uint64_t ns = vb_adversary_time_ns(bits, 1000000);

		longest = ns > longest ? ns : longest;
	}
	assert_in_range(longest, 900000, 1000000);
}

static void without_it_a_copy_is_whole(void **state)
{
	struct vb_shards shards;

	(void)state;
	vb_adversary_set(false, 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_false(vb_shards_begin(&shards, VB_DEED_WRITE_SHARDS, 0, 4096));
}

/* Copies length bytes to an address that begins at offset of a word, shard by shard. */
static bool copy(size_t length, size_t offset)
{
	uint8_t copied[300] = { 0 };
	struct vb_shards shards;
	struct vb_shard shard;

	if (!vb_shards_begin(&shards, VB_DEED_WRITE_SHARDS, offset, length))
		return false;
	while (vb_shards_next(&shards, &shard)) {
		assert_true(shard.length && shard.at + shard.length <= length);
		assert_true(!shard.at || (offset + shard.at) % 8 == 0);
		for (size_t i = 0; i < shard.length; i++)
			copied[shard.at + i]++;
	}
	for (size_t i = 0; i < length; i++)
		assert_int_equal(copied[i], 1);
	return true;
}

static void shards_have_each_byte_once_and_words_whole(void **state)
{
	unsigned cut = 0;

	(void)state;
	vb_adversary_set(true, 3);
	for (size_t length = 1; length < sizeof((uint8_t[300]){ 0 }); length += 7)
		for (size_t offset = 0; offset < 8; offset += 3)
			cut += copy(length, offset);
	vb_adversary_set(false, 0);
	assert_in_range(cut, 5, 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_seed_is_a_number),
		cmocka_unit_test(a_seed_decides_the_same_again),
		cmocka_unit_test(seeds_deeds_and_objects_decide_apart),
		cmocka_unit_test(every_deed_is_done),
		cmocka_unit_test(deeds_become_rare),
		cmocka_unit_test(times_have_an_end),
		cmocka_unit_test(without_it_a_copy_is_whole),
		cmocka_unit_test(shards_have_each_byte_once_and_words_whole),
	};

	return cmocka_run_group_tests_name("base/adversary", tests, NULL, NULL);
}
