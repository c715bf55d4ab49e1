/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys as numbers, and the keys of registered memory as a peer looks them up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nic/mw.h"
#include "rig.h"
#include "shm/key.h"

static const uint64_t seeds[] = { 0, 1, 0x0123456789abcdef, UINT64_MAX };
enum { SEEDS = sizeof(seeds) / sizeof(*seeds) };

static void a_key_decodes_to_its_index_and_kind(void **state)
{
	struct vb_permutation p;

	for (int s = 0; s < SEEDS; s++) {
		vb_permutation_init(&p, seeds[s]);
		for (uint32_t index = 0; index < VB_KEY_MAX; index += 1021) {
			uint32_t lkey = vb_key_encode(&p, index, false, (uint8_t)index);
			uint32_t rkey = vb_key_encode(&p, index, true, (uint8_t)index), back;
			bool rkey_only;

			assert_true(vb_key_decode(&p, lkey, &rkey_only, &back));
			assert_int_equal(back, index);
			assert_false(rkey_only);
			assert_true(vb_key_decode(&p, rkey, &rkey_only, &back));
			assert_int_equal(back, index);
			assert_true(rkey_only);
			assert_int_not_equal(lkey >> 8, rkey >> 8);
		}
	}
}

static void the_last_index_is_good_and_the_one_behind_it_is_not(void **state)
{
	struct vb_permutation p;
	uint32_t back;
	bool only;

	vb_permutation_init(&p, seeds[2]);
	for (int rkey = 0; rkey < 2; rkey++) {
		assert_true(vb_key_decode(&p, vb_key_encode(&p, VB_KEY_MAX - 1, rkey, 0), &only,
					  &back));
		assert_int_equal(back, VB_KEY_MAX - 1);
		assert_false(
			vb_key_decode(&p, vb_key_encode(&p, VB_KEY_MAX, rkey, 0), &only, &back));
	}
}

static void a_kind_of_key_serves_what_its_entry_has_it_for(void **state)
{
	assert_true(vb_key_serves(VB_KEY_VALID, false, false));
	assert_true(vb_key_serves(VB_KEY_VALID, true, true));
	assert_false(vb_key_serves(VB_KEY_VALID, false, true));
	assert_false(vb_key_serves(VB_KEY_VALID, true, false));
	assert_true(vb_key_serves(VB_KEY_VALID | VB_KEY_EQUAL, false, false));
	assert_true(vb_key_serves(VB_KEY_VALID | VB_KEY_EQUAL, false, true));
	assert_false(vb_key_serves(VB_KEY_VALID | VB_KEY_EQUAL, true, true));
	assert_false(vb_key_serves(VB_KEY_VALID | VB_KEY_EQUAL, true, false));
}

static void only_the_tag_of_its_kind_matches_and_only_while_valid(void **state)
{
	static const struct {
		uint32_t word;
		uint8_t tag;
		bool rkey, matches;
	} rows[] = {
		{ VB_KEY_VALID | 0x1234, 0x34, false, true },
		{ VB_KEY_VALID | 0x1234, 0x12, true, true },
		{ VB_KEY_VALID | 0x1234, 0x12, false, false },
		{ VB_KEY_VALID | 0x1234, 0x34, true, false },
		{ VB_KEY_VALID | 0x1234, 0x35, false, false },
		{ 0x1234, 0x34, false, false },
		{ 0x1234, 0x12, true, false },
		{ VB_KEY_VALID, 0, false, true },
		{ 0, 0, false, false },
		{ 0, 0, true, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_int_equal(
			vb_key_matches(rows[i].word, 0xabcdef00u | rows[i].tag, rows[i].rkey),
			rows[i].matches);
}

/* --- with a NIC --- */

static struct rig rig;
static char memory[8192];

static int open_equal(void **state)
{
	rig_open(&rig);
	rig.nic->distinct_keys = false;
	return 0;
}

static int open_distinct(void **state)
{
	rig_open(&rig);
	rig.nic->distinct_keys = true;
	return 0;
}

static int close_rig(void **state)
{
	rig_close(&rig);
	return 0;
}

static void a_peer_finds_a_region_by_its_keys_as_the_kind_they_are(void **state)
{
	struct vb_mr *mr = rig_register(rig.pd, memory + 100, 1000);
	const struct vb_key_entry *entry = vb_peer_key(rig.nic->self, mr->ibv.rkey, true);

	assert_non_null(entry);
	assert_ptr_equal(vb_peer_key(rig.nic->self, mr->ibv.lkey, false), entry);
	assert_int_equal(entry->pd, rig.pd->id);
	assert_int_equal(entry->addr, (uintptr_t)memory + 100);
	assert_int_equal(entry->length, 1000);
	assert_ptr_equal(vb_peer_key(rig.nic->self, mr->ibv.lkey, true),
			 rig.nic->distinct_keys ? NULL : entry);
	assert_ptr_equal(vb_peer_key(rig.nic->self, mr->ibv.rkey, false),
			 rig.nic->distinct_keys ? NULL : entry);
	assert_int_equal(vb_mr_deregister(mr), 0);
}

/* The key that would be its rkey if it were distinct, whatever the tag. */
static void a_region_with_equal_keys_has_no_other(void **state)
{
	struct vb_mr *mr = rig_register(rig.pd, memory, 1000);

	assert_int_equal(mr->ibv.lkey, mr->ibv.rkey);
	for (unsigned tag = 0; tag < 256; tag++) {
		uint32_t key =
			vb_key_encode(&rig.nic->seg.head->keys, mr->index, true, (uint8_t)tag);

		assert_null(vb_peer_key(rig.nic->self, key, true));
		assert_null(vb_peer_key(rig.nic->self, key, false));
	}
	assert_int_equal(vb_mr_deregister(mr), 0);
}

static void a_window_has_an_rkey_and_no_lkey(void **state)
{
	struct vb_mr *mr = rig_register(rig.pd, memory, 1000);
	struct vb_mw *mw;
	struct vb_mw_bind bind = { .lkey = mr->ibv.lkey, .addr = (uintptr_t)memory, .length = 8 };

	assert_int_equal(vb_mw_alloc(rig.pd, IBV_MW_TYPE_1, &mw), 0);
	mr->access |= IBV_ACCESS_MW_BIND;
	bind.mw = mw;
	bind.rkey = mw->ibv.rkey;
	assert_true(vb_mw_bind(&bind, rig.pd, 0));
	assert_ptr_equal(vb_peer_key(rig.nic->self, mw->ibv.rkey, true), mw->entry);
	for (unsigned tag = 0; tag < 256; tag++) {
		uint32_t key =
			vb_key_encode(&rig.nic->seg.head->keys, mw->index, false, (uint8_t)tag);

		assert_null(vb_peer_key(rig.nic->self, key, true));
	}
	assert_null(vb_peer_key(rig.nic->self, mw->ibv.rkey, false));
	assert_null(vb_mr_by_lkey(rig.nic, mw->ibv.rkey));
	assert_int_equal(vb_mw_dealloc(mw), 0);
	assert_int_equal(vb_mr_deregister(mr), 0);
}

static void no_other_tag_opens_a_region(void **state)
{
	struct vb_mr *mr = rig_register(rig.pd, memory, sizeof(memory));

	for (uint32_t other = 1; other < 256; other++) {
		assert_null(vb_peer_key(rig.nic->self, mr->ibv.rkey ^ other, true));
		assert_null(vb_peer_key(rig.nic->self, mr->ibv.lkey ^ other, false));
	}
	assert_int_equal(vb_mr_deregister(mr), 0);
}

static void keys_of_a_region_that_is_gone_open_nothing(void **state)
{
	struct vb_mr *mr = rig_register(rig.pd, memory, sizeof(memory));
	uint32_t lkey = mr->ibv.lkey, rkey = mr->ibv.rkey;

	assert_int_equal(vb_mr_deregister(mr), 0);
	assert_null(vb_peer_key(rig.nic->self, lkey, false));
	assert_null(vb_peer_key(rig.nic->self, rkey, true));
}

static void when_an_index_comes_round_again_its_keys_are_new(void **state)
{
	struct vb_mr *mr = rig_register(rig.pd, memory, sizeof(memory));
	uint32_t index = mr->index, lkey = mr->ibv.lkey, rkey = mr->ibv.rkey;
	int round = 0;

	do {
		assert_int_equal(vb_mr_deregister(mr), 0);
		mr = rig_register(rig.pd, memory, sizeof(memory));
		assert_int_not_equal(mr->ibv.lkey, lkey);
		assert_int_not_equal(mr->ibv.rkey, rkey);
	} while (mr->index != index && ++round < 2 * VB_KEY_PAGE);
	assert_int_equal(mr->index, index);
	assert_null(vb_peer_key(rig.nic->self, lkey, false));
	assert_null(vb_peer_key(rig.nic->self, rkey, true));
	assert_int_equal(vb_mr_deregister(mr), 0);
}

static void keys_of_many_regions_all_differ(void **state)
{
	enum { MANY = 2 * VB_KEY_PAGE + 10 };
	static struct vb_mr *mrs[MANY];

	for (int i = 0; i < MANY; i++)
		mrs[i] = rig_register(rig.pd, memory, sizeof(memory));
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(mrs[i]->ibv.lkey != mrs[i]->ibv.rkey, rig.nic->distinct_keys);
		for (int j = 0; j < i; j++) {
			assert_int_not_equal(mrs[i]->ibv.lkey, mrs[j]->ibv.lkey);
			assert_int_not_equal(mrs[i]->ibv.rkey, mrs[j]->ibv.rkey);
			assert_int_not_equal(mrs[i]->ibv.rkey, mrs[j]->ibv.lkey);
		}
	}
	for (int i = 0; i < MANY; i++)
		assert_int_equal(vb_mr_deregister(mrs[i]), 0);
}

#define EQUAL(name)    cmocka_unit_test_setup_teardown(name, open_equal, close_rig)
#define DISTINCT(name) cmocka_unit_test_setup_teardown(name, open_distinct, close_rig)
#define BOTH(name)     EQUAL(name), DISTINCT(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_decodes_to_its_index_and_kind),
		cmocka_unit_test(the_last_index_is_good_and_the_one_behind_it_is_not),
		cmocka_unit_test(a_kind_of_key_serves_what_its_entry_has_it_for),
		cmocka_unit_test(only_the_tag_of_its_kind_matches_and_only_while_valid),
		EQUAL(a_region_with_equal_keys_has_no_other),
		BOTH(a_window_has_an_rkey_and_no_lkey),
		BOTH(a_peer_finds_a_region_by_its_keys_as_the_kind_they_are),
		BOTH(no_other_tag_opens_a_region),
		BOTH(keys_of_a_region_that_is_gone_open_nothing),
		BOTH(when_an_index_comes_round_again_its_keys_are_new),
		BOTH(keys_of_many_regions_all_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
