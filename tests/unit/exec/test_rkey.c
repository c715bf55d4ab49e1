/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a remote key allows, and why it does not, where keys are equal and where they are distinct.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../nic/rig.h"
#include "exec/rkey.h"
#include "nic/mw.h"
#include "shm/key.h"

enum { LENGTH = 4096, QPN = 0x5000 };

static struct rig rig;
static char memory[LENGTH];
static struct vb_key_cache cache;

static int open_equal(void **state)
{
	rig_open(&rig);
	rig.nic->distinct_keys = false;
	cache = (struct vb_key_cache){ 0 };
	return 0;
}

static int open_distinct(void **state)
{
	open_equal(state);
	rig.nic->distinct_keys = true;
	return 0;
}

static int close_rig(void **state)
{
	rig_close(&rig);
	return 0;
}

static struct vb_mr *region(unsigned access)
{
	const struct vb_mr_spec spec = { (uintptr_t)memory, LENGTH, (uintptr_t)memory, access };
	struct vb_mr *mr;

	assert_int_equal(vb_mr_register(rig.pd, &spec, &mr), 0);
	return mr;
}

static enum vb_reason check(uint32_t rkey, unsigned access)
{
	uint64_t address;

	return vb_rkey_check(rig.nic->self, &cache, rig.pd->id, QPN, rkey, (uintptr_t)memory, 8,
			     access, &address);
}

/* Twice: by the table, and by what was remembered. */
static void gives(enum vb_reason reason, uint32_t rkey, unsigned access)
{
	assert_int_equal(check(rkey, access), reason);
	assert_int_equal(check(rkey, access), reason);
}

enum { READ = IBV_ACCESS_REMOTE_READ, WRITE = IBV_ACCESS_REMOTE_WRITE };

static void an_lkey_is_an_rkey_where_keys_are_equal(void **state)
{
	struct vb_mr *mr = region(READ);

	gives(VB_OK, mr->ibv.rkey, READ);
	gives(VB_OK, mr->ibv.lkey, READ);
	gives(VB_WHY_RKEY_RIGHT, mr->ibv.lkey, WRITE);
	assert_int_equal(vb_mr_deregister(mr), 0);
}

static void an_lkey_is_told_from_an_rkey_where_they_are_distinct(void **state)
{
	struct vb_mr *mr = region(READ);
	uint32_t lkey = mr->ibv.lkey;

	gives(VB_OK, mr->ibv.rkey, READ);
	gives(VB_WHY_RKEY_IS_LKEY, lkey, READ);
	gives(VB_WHY_RKEY_UNKNOWN, lkey ^ 1, READ);
	assert_int_equal(vb_mr_deregister(mr), 0);
	gives(VB_WHY_RKEY_UNKNOWN, lkey, READ);
}

static void a_region_without_remote_rights_is_closed_to_all_its_keys(void **state)
{
	struct vb_mr *mr = region(IBV_ACCESS_LOCAL_WRITE);

	gives(VB_WHY_RKEY_RIGHT, mr->ibv.rkey, READ);
	gives(VB_WHY_RKEY_RIGHT, mr->ibv.rkey, WRITE);
	gives(rig.nic->distinct_keys ? VB_WHY_RKEY_IS_LKEY : VB_WHY_RKEY_RIGHT, mr->ibv.lkey, READ);
	assert_int_equal(vb_mr_deregister(mr), 0);
}

static void a_null_region_has_no_rkey(void **state)
{
	struct vb_mr *mr;

	assert_int_equal(vb_mr_alloc_null(rig.pd, &mr), 0);
	assert_int_equal(mr->ibv.rkey, 0);
	gives(VB_WHY_RKEY_IS_LKEY, mr->ibv.lkey, WRITE);
	assert_int_equal(vb_mr_deregister(mr), 0);
}

/* Its keys were another NIC's. */
static void an_imported_region_has_the_keys_of_the_original(void **state)
{
	static const struct {
		uint32_t lkey, rkey;
		enum vb_reason as_rkey;
	} rows[] = {
		{ 0x12345678, 0x12345678, VB_OK },
		{ 0x12345678, 0x9abcde78, VB_WHY_RKEY_IS_LKEY }, /* the same tag */
		{ 0x12345678, 0x9abcdeff, VB_WHY_RKEY_IS_LKEY },
	};
	const struct vb_mr_spec spec = { (uintptr_t)memory, LENGTH, (uintptr_t)memory, READ };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct vb_mr *mr = calloc(1, sizeof(*mr));

		assert_non_null(mr);
		mr->foreign = true;
		mr->ibv.lkey = rows[i].lkey;
		mr->ibv.rkey = rows[i].rkey;
		assert_int_equal(vb_mr_create(mr, rig.pd, &spec), 0);
		gives(VB_OK, rows[i].rkey, READ);
		gives(rows[i].as_rkey, rows[i].lkey, READ);
		assert_ptr_equal(vb_mr_by_lkey(rig.nic, rows[i].lkey), mr);
		assert_int_equal(vb_mr_deregister(mr), 0);
		gives(VB_WHY_RKEY_UNKNOWN, rows[i].rkey, READ);
	}
}

/* The index of a region comes round as a window's, with the same tag: the old key is none of it. */
static void a_remembered_key_of_a_region_opens_no_window(void **state)
{
	struct vb_mr *mr = region(READ), *base;
	uint32_t index = mr->index, key = mr->ibv.rkey;
	struct vb_mw_bind bind = { .addr = (uintptr_t)memory, .length = 64, .access = READ };
	struct vb_mw *mw;

	gives(VB_OK, key, READ);
	base = region(IBV_ACCESS_MW_BIND);
	assert_int_equal(vb_mr_deregister(mr), 0);
	for (;;) {
		assert_int_equal(vb_mw_alloc(rig.pd, IBV_MW_TYPE_1, &mw), 0);
		if (mw->index == index)
			break;
		assert_int_equal(vb_mw_dealloc(mw), 0);
	}
	bind.mw = mw;
	bind.lkey = base->ibv.lkey;
	bind.rkey = vb_mw_rkey(mw, key);
	assert_true(vb_mw_bind(&bind, rig.pd, QPN));
	gives(VB_WHY_RKEY_UNKNOWN, key, READ);
	gives(VB_OK, bind.rkey, READ);
	assert_int_equal(vb_mw_dealloc(mw), 0);
	assert_int_equal(vb_mr_deregister(base), 0);
}

#define EQUAL(name)    cmocka_unit_test_setup_teardown(name, open_equal, close_rig)
#define DISTINCT(name) cmocka_unit_test_setup_teardown(name, open_distinct, close_rig)
#define BOTH(name)     EQUAL(name), DISTINCT(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EQUAL(an_lkey_is_an_rkey_where_keys_are_equal),
		DISTINCT(an_lkey_is_told_from_an_rkey_where_they_are_distinct),
		BOTH(a_region_without_remote_rights_is_closed_to_all_its_keys),
		BOTH(a_null_region_has_no_rkey),
		BOTH(an_imported_region_has_the_keys_of_the_original),
		EQUAL(a_remembered_key_of_a_region_opens_no_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
