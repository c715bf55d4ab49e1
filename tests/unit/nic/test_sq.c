/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of send work requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "nic/sq.h"

static struct vb_sq sq;

static const struct sq_row {
	uint32_t depth, sge_max, inline_max;
} rows[] = {
	{ 1, 1, 0 },   { 1, 0, 0 },   { 3, 1, 16 },   { 16, 4, 64 },
	{ 17, 2, 33 }, { 5, 32, 60 }, { 7, 1, 1024 }, { VB_WR_MAX, VB_SGE_MAX, VB_INLINE_MAX },
};
enum { ROWS = sizeof(rows) / sizeof(*rows) };

static void open_queue(const struct sq_row *row)
{
	memset(&sq, 0, sizeof(sq));
	assert_int_equal(vb_sq_init(&sq, row->depth, row->sge_max, row->inline_max), 0);
}

static void every_request_has_room_for_its_elements_and_inline_bytes(void **state)
{
	for (int i = 0; i < ROWS; i++) {
		size_t room;

		open_queue(&rows[i]);
		room = (size_t)((char *)vb_sq_wqe(&sq, 1 & sq.mask) - (char *)vb_sq_wqe(&sq, 0));
		if (sq.mask) {
			assert_true(room >= offsetof(struct vb_wqe, sge) + rows[i].inline_max);
			assert_true(room >= offsetof(struct vb_wqe, sge) +
						    rows[i].sge_max * sizeof(struct ibv_sge));
			assert_true(room >= sizeof(struct vb_wqe));
		}
		assert_int_equal(sq.stride % 64, 0);
		assert_true(sq.stride >= sizeof(struct vb_wqe));
		assert_int_equal((uintptr_t)vb_sq_wqe(&sq, 0) % 64, 0);
		vb_sq_fini(&sq);
	}
}

static void the_ring_comes_round_to_the_same_places(void **state)
{
	for (int i = 0; i < ROWS; i++) {
		open_queue(&rows[i]);
		assert_true(sq.mask + 1 >= rows[i].depth);
		assert_int_equal(sq.mask & (sq.mask + 1), 0);
		for (uint32_t n = 0; n <= sq.mask && n < 64; n++) {
			assert_ptr_equal(vb_sq_wqe(&sq, n), vb_sq_wqe(&sq, n + sq.mask + 1));
			assert_ptr_equal(vb_sq_wqe(&sq, n), sq.slots + (size_t)n * sq.stride);
		}
		assert_ptr_equal(vb_sq_wqe(&sq, UINT32_MAX), vb_sq_wqe(&sq, sq.mask));
		vb_sq_fini(&sq);
	}
}

static void it_is_full_at_its_depth_and_not_at_the_size_of_its_ring(void **state)
{
	/* The second start lets the indexes go past 2^32. */
	static const uint32_t starts[] = { 0, UINT32_MAX - 1 };

	for (int s = 0; s < 2; s++) {
		for (int i = 0; i < ROWS - 1; i++) {
			open_queue(&rows[i]);
			sq.tail = sq.next = starts[s];
			atomic_store(&sq.retired, starts[s]);
			for (uint32_t n = 0; n < rows[i].depth; n++, sq.tail++)
				assert_false(vb_sq_full(&sq));
			assert_true(vb_sq_full(&sq));
			atomic_fetch_add(&sq.retired, 1);
			assert_false(vb_sq_full(&sq));
			sq.next = sq.tail;
			vb_sq_fini(&sq);
		}
	}
}

static void a_queue_of_depth_0_takes_nothing(void **state)
{
	open_queue(&(struct sq_row){ 0, 1, 0 });
	assert_true(vb_sq_full(&sq));
	vb_sq_fini(&sq);
}

static void post(struct vb_ah *ah)
{
	struct vb_wqe *wqe = vb_sq_wqe(&sq, sq.tail++);

	memset(wqe, 0, sizeof(*wqe));
	wqe->ah = ah;
	vb_ah_get(ah);
}

/* Four posted, one of which is executed: its reference was dropped by the executor. */
static struct vb_ah *four_datagrams(void)
{
	struct vb_ah *ah = calloc(1, sizeof(*ah));

	assert_non_null(ah);
	atomic_store(&ah->refs, 1);
	open_queue(&(struct sq_row){ 4, 1, 0 });
	for (int i = 0; i < 4; i++)
		post(ah);
	sq.next = 1;
	vb_ah_put(ah);
	assert_int_equal(atomic_load(&ah->refs), 4);
	return ah;
}

static void reset_forgets_everything_and_the_handles_of_what_was_not_executed(void **state)
{
	struct vb_ah *ah = four_datagrams();

	sq.offset = 100;
	sq.scanned = 1;
	sq.hold = VB_SQ_STUCK;
	atomic_store(&sq.done, 1);
	atomic_store(&sq.retired, 1);
	vb_sq_reset(&sq);
	assert_int_equal(atomic_load(&ah->refs), 1);
	assert_int_equal(sq.tail | sq.next | sq.offset | sq.scanned, 0);
	assert_int_equal(atomic_load(&sq.done) | atomic_load(&sq.retired), 0);
	assert_int_equal(sq.hold, VB_SQ_FLOWS);
	assert_false(vb_sq_full(&sq));
	vb_sq_fini(&sq);
	assert_int_equal(atomic_load(&ah->refs), 1);
	vb_ah_put(ah);
}

static void the_end_of_a_queue_lets_go_of_the_handles_that_were_not_executed(void **state)
{
	struct vb_ah *ah = four_datagrams();

	vb_sq_fini(&sq);
	assert_int_equal(atomic_load(&ah->refs), 1);
	vb_ah_put(ah);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_request_has_room_for_its_elements_and_inline_bytes),
		cmocka_unit_test(the_ring_comes_round_to_the_same_places),
		cmocka_unit_test(it_is_full_at_its_depth_and_not_at_the_size_of_its_ring),
		cmocka_unit_test(a_queue_of_depth_0_takes_nothing),
		cmocka_unit_test(reset_forgets_everything_and_the_handles_of_what_was_not_executed),
		cmocka_unit_test(the_end_of_a_queue_lets_go_of_the_handles_that_were_not_executed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
