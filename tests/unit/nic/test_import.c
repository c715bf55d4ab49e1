/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What other processes have written into the file behind cmd_fd: the test writes it in their place.
 * And two threads that let go of an imported PD.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "nic/dm.h"
#include "rig.h"

enum { BYTES = 4096, ROUNDS = 5000, ELSEWHERE = 100 };

static struct rig rig;
static int cmd_fd;

static int open_rig(void **state)
{
	struct vb_device *const *table;

	assert_true(vb_device_table(&table) > 0);
	memset(&rig, 0, sizeof(rig));
	rig.nic = vb_nic_get();
	assert_non_null(rig.nic);
	assert_int_equal(vb_export_create(table[0], &rig.ctx.export, &cmd_fd), 0);
	assert_int_equal(vb_pd_alloc(&rig.ctx.verbs.context, &rig.pd), 0);
	return 0;
}

static int close_rig(void **state)
{
	rig_close(&rig);
	assert_int_equal(atomic_load(&rig.ctx.objects), 0);
	vb_export_put(rig.ctx.export);
	close(cmd_fd);
	return 0;
}

static struct vb_dm *dm_alloc(void)
{
	const struct ibv_alloc_dm_attr attr = { .length = BYTES };
	struct vb_dm *dm;

	assert_int_equal(vb_dm_alloc(&rig.ctx.verbs.context, &attr, &dm), 0);
	return dm;
}

/* --- device memory --- */

static void a_buffer_that_cannot_be_is_not_imported(void **state)
{
	static const struct vb_export_dm entries[] = {
		{ 7, VB_DM_BYTES_MAX, 1 },
		{ 7, 0, VB_DM_BYTES_MAX + 1ull },
		{ 7, UINT64_MAX, 2 },
		{ 0, 0, BYTES },
	};
	struct vb_export_dm *entry = &rig.ctx.export->head->dms[VB_DM_MAX - 1];
	struct vb_dm *dm;

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		*entry = entries[i];
		assert_int_equal(vb_dm_import(&rig.ctx.verbs.context, VB_DM_MAX - 1, &dm), -ENOENT);
	}
	*entry = (struct vb_export_dm){ 0 };
}

/* By whoever imported it: then the bytes may be somebody else's. */
static void a_buffer_that_was_freed_is_not_touched(void **state)
{
	struct vb_dm *dm = dm_alloc(), *other, *next;

	assert_int_equal(vb_dm_import(&rig.ctx.verbs.context, dm->ibv.handle, &other), 0);
	assert_ptr_equal(vb_dm_range(dm, 4, 8), dm->bytes + 4);
	assert_int_equal(vb_dm_free(other), 0);
	assert_null(vb_dm_range(dm, 4, 8));
	next = dm_alloc(); /* in its place */
	assert_ptr_equal(next->bytes, dm->bytes);
	assert_null(vb_dm_range(dm, 4, 8));
	vb_dm_unimport(dm);
	assert_int_equal(vb_dm_free(next), 0);
}

/* A region in it keeps its place and its length, whatever address the caller guesses. */
static void a_region_of_it_does_not_grow(void **state)
{
	struct vb_dm *dm = dm_alloc();
	struct vb_mr_spec spec = { .addr = (uintptr_t)dm->bytes,
				   .length = BYTES,
				   .access = IBV_ACCESS_ZERO_BASED };
	struct vb_mr *mr = calloc(1, sizeof(*mr));

	assert_non_null(mr);
	mr->dm = dm->ibv.handle + 1;
	vb_dm_use(dm->export, dm->ibv.handle, 1);
	assert_int_equal(vb_mr_create(mr, rig.pd, &spec), 0);
	spec.length = VB_DM_BYTES_MAX * 2ull;
	assert_int_equal(vb_mr_reregister(mr, &spec, NULL), -EINVAL);
	assert_int_equal(mr->length, BYTES);
	assert_int_equal(vb_dm_free(dm), -EBUSY);
	assert_int_equal(vb_mr_deregister(mr), 0);
	assert_int_equal(vb_dm_free(dm), 0);
}

/* --- regions --- */

static int import_record(const struct vb_export_mr *record)
{
	struct vb_mr *mr;
	int err;

	rig.ctx.export->records[ELSEWHERE] = *record;
	err = vb_mr_import(rig.pd, ELSEWHERE, &mr);
	rig.ctx.export->records[ELSEWHERE] = (struct vb_export_mr){ 0 };
	return err;
}

static void a_region_that_cannot_be_is_not_imported(void **state)
{
	const pid_t pid = getppid();
	const struct vb_export_mr outside_dm = { .pid = (uint32_t)pid,
						 .pd = rig.pd->ibv.handle,
						 .dm = 1,
						 .addr = VB_DM_BYTES_MAX - 8,
						 .length = 16 };
	const struct vb_export_mr no_dm = {
		.pid = (uint32_t)pid, .pd = rig.pd->ibv.handle, .dm = VB_DM_MAX + 1, .length = 16
	};
	const struct vb_export_mr wraps = { .pid = (uint32_t)pid,
					    .pd = rig.pd->ibv.handle,
					    .addr = UINT64_MAX - 4095,
					    .length = 1 << 20 };
	const struct vb_export_mr other_pd = { .pid = (uint32_t)pid,
					       .pd = rig.pd->ibv.handle + 1,
					       .length = 16 };

	assert_int_equal(import_record(&outside_dm), -EINVAL);
	assert_int_equal(import_record(&no_dm), -EINVAL);
	assert_int_equal(import_record(&wraps), -EOPNOTSUPP);
	assert_int_equal(import_record(&other_pd), -EINVAL);
	assert_int_equal(import_record(&(struct vb_export_mr){ 0 }), -ENOENT);
}

/* --- a holder of the lock that dies --- */

static void the_lock_of_a_process_that_died_is_taken_over(void **state)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		vb_export_lock_file(rig.ctx.export);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(vb_dm_free(dm_alloc()), 0);
}

/* --- PDs --- */

static _Atomic(struct vb_pd *) used;
static _Atomic bool over;

/* An importer, which the owner must not wait for with each call. */
static void the_lock_of_a_process_that_is_stopped_is_taken_over(void **state)
{
	enum { CALLS = 50, SOON_S = 30 };
	static char memory[BYTES];
	uint64_t began = vb_now_ns();
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		vb_export_lock_file(rig.ctx.export);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
	for (int i = 0; i < CALLS; i++)
		assert_int_equal(vb_mr_deregister(rig_register(rig.pd, memory, BYTES)), 0);
	assert_in_range(vb_now_ns() - began, 0, SOON_S * 1000000000ull);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void *release_what_is_used(void *arg)
{
	while (!atomic_load(&over)) {
		struct vb_pd *pd = atomic_exchange(&used, NULL);

		if (pd)
			vb_pd_release(pd, rig.nic);
		else
			sched_yield();
	}
	return NULL;
}

/* It goes once, with whichever of the two is later. */
static void an_imported_pd_and_its_last_object_go_at_once(void **state)
{
	pthread_t thread;

	atomic_store(&over, false);
	assert_int_equal(pthread_create(&thread, NULL, release_what_is_used, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct vb_pd *pd;

		assert_int_equal(vb_pd_import(&rig.ctx.verbs.context, rig.pd->ibv.handle, &pd), 0);
		atomic_fetch_add(&pd->users, 1);
		atomic_store(&used, pd);
		vb_pd_unimport(pd);
		while (atomic_load(&rig.ctx.objects) != 1)
			sched_yield();
	}
	atomic_store(&over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A mutex of the C library would follow pointers that lie in these bytes. */
static void whatever_is_written_over_the_lock_it_can_be_had_again(void **state)
{
	struct vb_export_head *head = rig.ctx.export->head;

	vb_export_lock_file(rig.ctx.export);
	atomic_store(&head->lock, 0x5a5a5a5b);
	vb_export_unlock_file(rig.ctx.export);
	assert_int_equal(atomic_load(&head->lock), 0x5a5a5a5b); /* not ours to open */
	vb_export_lock_file(rig.ctx.export);
	assert_int_not_equal(atomic_load(&head->lock), 0x5a5a5a5b);
	vb_export_unlock_file(rig.ctx.export);
	assert_int_equal(atomic_load(&head->lock), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_buffer_that_cannot_be_is_not_imported),
		cmocka_unit_test(a_buffer_that_was_freed_is_not_touched),
		cmocka_unit_test(a_region_of_it_does_not_grow),
		cmocka_unit_test(a_region_that_cannot_be_is_not_imported),
		cmocka_unit_test(the_lock_of_a_process_that_died_is_taken_over),
		cmocka_unit_test(the_lock_of_a_process_that_is_stopped_is_taken_over),
		cmocka_unit_test(whatever_is_written_over_the_lock_it_can_be_had_again),
		cmocka_unit_test(an_imported_pd_and_its_last_object_go_at_once),
	};

	return cmocka_run_group_tests(tests, open_rig, close_rig);
}
