/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions that go while another thread looks through them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rig.h"

enum { LENGTH = 8192, ROUNDS = 60, REGIONS = 500 };

static struct rig rig;
static _Atomic bool over;

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

/* A region with a mapping of its own, as that of a dma-buf. */
static struct vb_mr *mapped(void)
{
	void *at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vb_mr *mr = calloc(1, sizeof(*mr));
	const struct vb_mr_spec spec = { .addr = (uintptr_t)at, .length = LENGTH };

	assert_true(at != MAP_FAILED && mr);
	mr->mapping = at;
	mr->mapping_length = LENGTH;
	assert_int_equal(vb_mr_create(mr, rig.pd, &spec), 0);
	return mr;
}

static void what_a_mapping_covers(void **state)
{
	struct vb_mr *mr = mapped();
	uint64_t at = mr->addr;

	assert_true(vb_mr_mapping_covers(rig.nic, at, LENGTH));
	assert_true(vb_mr_mapping_covers(rig.nic, at + LENGTH - 1, 1));
	assert_false(vb_mr_mapping_covers(rig.nic, at + 1, LENGTH));
	assert_false(vb_mr_mapping_covers(rig.nic, at - 1, 1));
	assert_false(vb_mr_mapping_covers(rig.nic, at + 1, UINT64_MAX));
	assert_int_equal(vb_mr_deregister(mr), 0);
	assert_false(vb_mr_mapping_covers(rig.nic, at, 1));
}

static void *look(void *arg)
{
	while (!atomic_load(&over))
		vb_mr_mapping_covers(rig.nic, 4096, 1);
	return NULL;
}

static void regions_that_are_looked_at_stay_until_then(void **state)
{
	static struct vb_mr *mrs[REGIONS];
	pthread_t thread;

	atomic_store(&over, false);
	assert_int_equal(pthread_create(&thread, NULL, look, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		for (int n = 0; n < REGIONS; n++)
			mrs[n] = mapped();
		for (int n = 0; n < REGIONS; n++)
			assert_int_equal(vb_mr_deregister(mrs[n]), 0);
	}
	atomic_store(&over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_mapping_covers),
		cmocka_unit_test(regions_that_are_looked_at_stay_until_then),
	};

	return cmocka_run_group_tests(tests, open_rig, close_rig);
}
