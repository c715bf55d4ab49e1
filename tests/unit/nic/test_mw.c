/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: one thread binds, another takes the region or the window away. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "nic/mw.h"
#include "rig.h"
#include "shm/key.h"

enum { LENGTH = 4096, ROUNDS = 20000, QPN = 0x5000 };

static struct rig rig;
static uint8_t memory[LENGTH] __attribute__((aligned(4096)));

static int open_rig(void **state)
{
	rig_open(&rig);
	return 0;
}

static int close_rig(void **state)
{
	rig_close(&rig);
	return 0;
}

static struct vb_mr *region(void)
{
	struct vb_mr_spec spec = { .addr = (uintptr_t)memory,
				   .length = LENGTH,
				   .iova = (uintptr_t)memory,
				   .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND };
	struct vb_mr *mr;

	assert_int_equal(vb_mr_register(rig.pd, &spec, &mr), 0);
	return mr;
}

static struct vb_mw *window(enum ibv_mw_type type)
{
	struct vb_mw *mw;

	assert_int_equal(vb_mw_alloc(rig.pd, type, &mw), 0);
	return mw;
}

static struct vb_mw_bind bind_of(struct vb_mw *mw, uint32_t lkey, uint64_t length)
{
	return (struct vb_mw_bind){ .mw = mw,
				    .lkey = lkey,
				    .rkey = ibv_inc_rkey(mw->ibv.rkey),
				    .addr = (uintptr_t)memory,
				    .length = length,
				    .access = IBV_ACCESS_REMOTE_WRITE };
}

static bool is_open(const struct vb_mw *mw)
{
	return atomic_load(&mw->entry->word) & VB_KEY_VALID;
}

/* It may have been queued: its memory is still that of a window, and it does nothing. */
static void a_window_that_is_gone_is_not_bound(void **state)
{
	struct vb_mr *mr = region();
	struct vb_mw *mw = window(IBV_MW_TYPE_2), *next;
	struct vb_mw_bind bind = bind_of(mw, mr->ibv.lkey, LENGTH);

	assert_int_equal(vb_mw_dealloc(mw), 0);
	assert_false(vb_mw_bind(&bind, rig.pd, QPN));
	next = window(IBV_MW_TYPE_2); /* whichever memory it has */
	assert_false(vb_mw_bind(&bind, rig.pd, QPN));
	assert_false(is_open(next));
	assert_int_equal(vb_mw_dealloc(next), 0);
	assert_int_equal(vb_mr_deregister(mr), 0);
}

static void as_many_windows_as_the_device_says(void **state)
{
	static struct vb_mw *mws[VB_MW_MAX];
	struct vb_mw *more;

	for (int i = 0; i < VB_MW_MAX; i++)
		mws[i] = window(IBV_MW_TYPE_1);
	assert_int_equal(vb_mw_alloc(rig.pd, IBV_MW_TYPE_1, &more), -ENOMEM);
	assert_int_equal(vb_mw_dealloc(mws[7]), 0);
	mws[7] = window(IBV_MW_TYPE_2);
	for (int i = 0; i < VB_MW_MAX; i++)
		assert_int_equal(vb_mw_dealloc(mws[i]), 0);
}

/* --- two threads --- */

static struct vb_mw *shared;
static _Atomic uint32_t lkey;
static _Atomic bool over;

static void *bind_and_unbind(void *arg)
{
	while (!atomic_load(&over)) {
		struct vb_mw_bind bind = bind_of(shared, atomic_load(&lkey), LENGTH);

		vb_mw_bind(&bind, rig.pd, QPN);
		bind.length = 0;
		vb_mw_bind(&bind, rig.pd, QPN);
	}
	return NULL;
}

/* A region that is gone has no window open to it; one that has one is EBUSY. */
static void a_region_does_not_go_while_it_is_bound(void **state)
{
	pthread_t thread;

	shared = window(IBV_MW_TYPE_1);
	atomic_store(&over, false);
	assert_int_equal(pthread_create(&thread, NULL, bind_and_unbind, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct vb_mr *mr = region();
		uint32_t key = mr->ibv.lkey;
		int err;

		atomic_store(&lkey, key);
		while (atomic_load(&shared->bound_lkey) != key)
			vb_cpu_relax(); /* the other thread is at it from here on */
		while ((err = vb_mr_deregister(mr)) == -EBUSY)
			;
		assert_int_equal(err, 0);
		assert_false(is_open(shared) && atomic_load(&shared->bound_lkey) == key);
	}
	atomic_store(&over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(vb_mw_dealloc(shared), 0);
}

static _Atomic(struct vb_mw *) offered;

static void *bind_what_is_offered(void *arg)
{
	while (!atomic_load(&over)) {
		struct vb_mw_bind bind = { .mw = atomic_load(&offered),
					   .lkey = atomic_load(&lkey) };

		if (!bind.mw)
			continue;
		bind = bind_of(bind.mw, bind.lkey, LENGTH);
		vb_mw_bind(&bind, rig.pd, QPN);
	}
	return NULL;
}

static void a_window_that_goes_is_closed(void **state)
{
	struct vb_mr *mr = region();
	pthread_t thread;

	atomic_store(&lkey, mr->ibv.lkey);
	atomic_store(&over, false);
	assert_int_equal(pthread_create(&thread, NULL, bind_what_is_offered, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct vb_mw *mw = window(IBV_MW_TYPE_1);
		const struct vb_key_entry *entry = mw->entry;

		atomic_store(&offered, mw);
		assert_int_equal(vb_mw_dealloc(mw), 0);
		assert_false(atomic_load(&entry->word) & VB_KEY_VALID);
	}
	atomic_store(&over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(vb_mr_deregister(mr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_that_is_gone_is_not_bound),
		cmocka_unit_test(as_many_windows_as_the_device_says),
		cmocka_unit_test(a_region_does_not_go_while_it_is_bound),
		cmocka_unit_test(a_window_that_goes_is_closed),
	};

	return cmocka_run_group_tests(tests, open_rig, close_rig);
}
