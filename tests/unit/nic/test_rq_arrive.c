/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives on their way to a poll: cells that are being filled, receives at the head, the shelf. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rq_rig.h"

static int open_single(void **state)
{
	rq_open(4, false);
	return 0;
}

static int open_many(void **state)
{
	rq_open(4, true);
	return 0;
}

static int close_queue(void **state)
{
	rq_close();
	return 0;
}

static bool is_quiet(void)
{
	const struct vb_cell *cell;
	uint64_t word;

	return vb_rq_quiet_at(&rq, &cell, &word);
}

/* Its sender completes it soon, and needs the line. A later cell that is taken ends the wait. */
static void the_cell_that_was_taken_last_is_left_alone(void **state)
{
	post_ids(0, 3);
	take(0, 1);
	assert_true(is_quiet());
	assert_polls(NOTHING);
	assert_int_equal(rq.taken_count, 0);
	take(1, 2);
	assert_false(is_quiet());
	finish(1);
	assert_polls(1, NOTHING);
	finish(0);
	assert_polls(0, NOTHING);
	take(2, 1); /* the last one that is posted */
	assert_true(is_quiet());
	finish(2);
	assert_false(is_quiet());
	assert_polls(2, NOTHING);
}

static int64_t poll_at_head(void)
{
	int64_t id = NOTHING;

	vb_spin_lock(rq.consumer_lock);
	if (vb_rq_arrived_at_head(&rq)) {
		id = (int64_t)vb_rq_twin(&rq, vb_rq_head(&rq))->wr_id;
		vb_rq_consume_arrived(&rq);
	}
	vb_spin_unlock(rq.consumer_lock);
	return id;
}

static void receives_at_the_head_need_no_list(void **state)
{
	post_ids(0, 4);
	for (uint32_t i = 0; i < 4; i++)
		take(i, 1);
	finish(0);
	finish(2);
	assert_int_equal(poll_at_head(), 0);
	assert_int_equal(poll_at_head(), NOTHING);
	assert_polls(2, NOTHING);
	finish(3);
	assert_int_equal(poll_at_head(), NOTHING); /* an older one is still taken */
	finish(1);
	assert_polls(1, 3, NOTHING);
	assert_true(vb_rq_empty(&rq));
	post_ids(4, rq.depth);
	assert_int_equal(post(99), -ENOMEM);
}

/* A message in the shelf, whose place is told by the cell. */
static void shelve(uint32_t index, uint8_t place, uint32_t length)
{
	struct vb_cell *cell = sender_cell(index);

	memset(rq.shelf + place * (size_t)VB_SHELF_PLACE, 'a' + place, length);
	cell->byte_length = length;
	cell->where = VB_PAYLOAD_SHELF;
	cell->place = 1 + place;
	atomic_store(&cell->word, vb_cell_word(index, 0, 0, VB_CELL_DONE));
}

static void shelf_make(void)
{
	pthread_mutex_lock(&rig.nic->lock);
	vb_rq_shelf_make(&rq);
	pthread_mutex_unlock(&rig.nic->lock);
}

static void payload_in_the_shelf_goes_to_the_receive(void **state)
{
	post_ids(0, 3);
	/* A damaged cell: there is no shelf. */
	assert_false(vb_rq_scatter(&rq, sender_cell(0), 0, VB_PAYLOAD_SHELF, 8));
	shelf_make();
	assert_non_null(rq.shelf);
	assert_int_equal(sender_queue()->shelf, rq.shelf_offset);
	shelve(0, VB_SHELF_PLACES - 1, RECEIVE_SIZE);
	assert_true(vb_rq_scatter(&rq, sender_cell(0), 0, VB_PAYLOAD_SHELF, RECEIVE_SIZE));
	assert_int_equal(memory[RECEIVE_SIZE - 1], 'a' + VB_SHELF_PLACES - 1);
	vb_rq_shelf_leave(&rq, sender_cell(0));
	assert_int_equal(sender_queue()->shelf_left, 1);
	finish(1);
	vb_rq_shelf_leave(&rq, sender_cell(1)); /* was not there */
	assert_int_equal(sender_queue()->shelf_left, 1);
}

static void a_shelf_is_for_one_sender(void **state)
{
	shelf_make();
	assert_null(rq.shelf);
	assert_int_equal(sender_queue()->shelf, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_cell_that_was_taken_last_is_left_alone,
						open_many, close_queue),
		cmocka_unit_test_setup_teardown(receives_at_the_head_need_no_list, open_many,
						close_queue),
		cmocka_unit_test_setup_teardown(payload_in_the_shelf_goes_to_the_receive,
						open_single, close_queue),
		cmocka_unit_test_setup_teardown(a_shelf_is_for_one_sender, open_many, close_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
