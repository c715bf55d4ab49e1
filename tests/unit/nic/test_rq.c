/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive queues: posting, polling in order, stragglers, growing, resetting, flushing. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rq_rig.h"

static int open_single(void **state)
{
	rq_open(5, false);
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

/* --- posting --- */

static void a_posted_cell_says_what_a_sender_must_know(void **state)
{
	struct ibv_sge list[] = {
		{ (uintptr_t)memory, 10, mr->ibv.lkey },
		{ (uintptr_t)memory + 100, 0, mr->ibv.lkey },
		{ (uintptr_t)memory + 200, 30, mr->ibv.lkey },
	};

	assert_int_equal(post_list(7, list, 3), 0);
	assert_int_equal(word_of(0), vb_cell_word(0, 0, VB_CELL_KEYS_OK, VB_CELL_POSTED));
	assert_int_equal(sender_cell(0)->posted_length, 40);
	assert_int_equal(sender_sges(0)->count, 3);
	assert_memory_equal(sender_sges(0)->sge, list, sizeof(list));
	assert_int_equal(post_list(8, NULL, 0), 0);
	assert_int_equal(word_of(1), vb_cell_word(1, 0, VB_CELL_KEYS_OK, VB_CELL_POSTED));
	assert_int_equal(sender_cell(1)->posted_length, 0);
	assert_int_equal(sender_sges(1)->count, 0);
}

static void addresses_of_a_region_become_those_of_the_process(void **state)
{
	struct vb_mr_spec spec = { .addr = (uintptr_t)memory + 64,
				   .length = 128,
				   .iova = 0x10000,
				   .access = IBV_ACCESS_LOCAL_WRITE };
	struct ibv_sge sge = { 0x10010, 16, 0 };
	struct vb_mr *other;

	assert_int_equal(vb_mr_register(rig.pd, &spec, &other), 0);
	sge.lkey = other->ibv.lkey;
	assert_int_equal(post_list(0, &sge, 1), 0);
	assert_int_equal(sender_sges(0)->sge[0].addr, (uintptr_t)memory + 64 + 16);
	assert_int_equal(vb_mr_deregister(other), 0);
}

static void nobody_vouches_for_keys_that_do_not_fit(void **state)
{
	struct vb_pd *other_pd;
	struct vb_mr *foreign, *readable;
	struct vb_mr_spec read_only = { .addr = (uintptr_t)memory, .length = 64 };

	assert_int_equal(vb_pd_alloc(&rig.ctx.verbs.context, &other_pd), 0);
	assert_int_equal(vb_mr_register(rig.pd, &read_only, &readable), 0);
	foreign = rig_register(other_pd, memory, sizeof(memory));
	{
		const uint64_t start = (uintptr_t)memory, end = start + sizeof(memory);
		const struct {
			struct ibv_sge sge;
			uint8_t flags;
		} rows[] = {
			{ { start, 8, mr->ibv.lkey }, VB_CELL_KEYS_OK },
			{ { end - 8, 8, mr->ibv.lkey }, VB_CELL_KEYS_OK },
			{ { start, 0, 0xdead }, VB_CELL_KEYS_OK },
			{ { start, 8, mr->ibv.lkey ^ 0x100 }, 0 },
			{ { start, 8, mr->ibv.lkey ^ 1 }, 0 },
			{ { end - 8, 9, mr->ibv.lkey }, 0 },
			{ { start - 1, 8, mr->ibv.lkey }, 0 },
			{ { start, 8, foreign->ibv.lkey }, 0 },
			{ { start, 8, readable->ibv.lkey }, 0 },
		};

		for (uint32_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
			struct ibv_sge sge = rows[i].sge;

			assert_int_equal(post_list(i, &sge, 1), 0);
			assert_int_equal(vb_cell_flags(word_of(i)), rows[i].flags);
			finish(i);
			assert_polls(i);
		}
	}
	assert_int_equal(vb_mr_deregister(foreign), 0);
	assert_int_equal(vb_mr_deregister(readable), 0);
	assert_int_equal(vb_pd_dealloc(other_pd), 0);
}

static void too_many_elements_are_refused_and_nothing_is_posted(void **state)
{
	struct ibv_sge list[5] = { 0 };

	assert_int_equal(post_list(1, list, 5), -EINVAL);
	assert_int_equal(post_list(1, list, -1), -EINVAL);
	assert_true(vb_rq_empty(&rq));
	assert_int_equal(post_list(1, list, 4), 0);
	assert_false(vb_rq_empty(&rq));
}

static void it_is_full_at_its_depth_and_a_poll_makes_room(void **state)
{
	post_ids(0, rq.depth);
	assert_int_equal(post(99), -ENOMEM);
	finish(0);
	assert_int_equal(post(99), -ENOMEM); /* completed is not yet polled */
	assert_polls(0, NOTHING);
	post_ids(99, 1);
	assert_int_equal(post(100), -ENOMEM);
}

static void a_sender_that_waits_is_found_once(void **state)
{
	assert_false(vb_rq_take_waiting(&rq));
	atomic_store(&sender_lent()->waiting, 1);
	assert_true(vb_rq_take_waiting(&rq));
	assert_false(vb_rq_take_waiting(&rq));
}

/* --- one sender --- */

static void one_sender_completes_in_the_order_of_posting(void **state)
{
	post_ids(10, 3);
	assert_polls(NOTHING);
	finish(0);
	assert_polls(10, NOTHING);
	finish(1);
	finish(2);
	assert_polls(11, 12, NOTHING);
	assert_true(vb_rq_empty(&rq));
}

static void nothing_overtakes_in_a_queue_with_one_sender(void **state)
{
	post_ids(0, 3);
	finish(1);
	assert_polls(NOTHING);
	finish(0);
	assert_polls(0, 1, NOTHING);
}

static void a_completion_of_the_last_round_is_not_one_of_this(void **state)
{
	uint32_t cells = rq.mask + 1;

	post_ids(0, 1);
	finish(0);
	assert_polls(0);
	for (uint32_t i = 1; i < cells; i++) {
		post_ids(i, 1);
		finish(i);
		assert_polls(i);
	}
	/* Its cell still says DONE, for the index that it had. */
	assert_int_equal(vb_cell_state(word_of(cells)), VB_CELL_DONE);
	assert_polls(NOTHING);
}

static void start_at(uint32_t index)
{
	rq.tail = index;
	atomic_store(&rq.head, index);
	atomic_store(&rq.shared->tail, index);
	atomic_store(&rq.lent->head, index);
}

static void indexes_go_on_beyond_32_bits(void **state)
{
	start_at(UINT32_MAX - 5);
	for (uint32_t i = UINT32_MAX - 5; i != 20; i++) {
		post_ids(i, 1);
		finish(i);
		assert_polls(i, NOTHING);
	}
	assert_true(vb_rq_empty(&rq));
}

/* --- many senders --- */

static void a_taken_cell_is_skipped(void **state)
{
	post_ids(0, 3);
	take(0, 1);
	take(1, 2);
	finish(1);
	assert_polls(1, NOTHING);
	take(2, 2);
	finish(2);
	assert_polls(2, NOTHING);
	finish(0);
	assert_polls(0, NOTHING);
	assert_true(vb_rq_empty(&rq));
}

static void assert_flushes(uint64_t id, enum vb_cell_state state)
{
	uint32_t index;

	assert_true(vb_rq_flush_next(&rq, &index));
	assert_int_equal(vb_rq_twin(&rq, index)->wr_id, id);
	assert_cell(index, state);
	if (rq.many)
		vb_rq_consume(&rq, NULL, index);
	else
		vb_rq_consume_head(&rq);
}

/* Nobody of ours writes it like this: it completes nothing, its own receive included. */
static void a_completion_under_another_index_is_none(void **state)
{
	post_ids(0, 3);
	atomic_store(&sender_cell(0)->word, vb_cell_word(2, 0, 0, VB_CELL_DONE));
	finish(1);
	assert_polls(1, NOTHING);
	assert_int_equal(vb_rq_held(&rq), 2);
	assert_flushes(0, VB_CELL_FLUSHED);
	assert_flushes(2, VB_CELL_FLUSHED);
	assert_int_equal(vb_rq_held(&rq), 0);
}

/* Senders pass over it, and so does the owner: what comes behind it completes. */
static void a_damaged_cell_does_not_stop_the_queue(void **state)
{
	post_ids(0, 4);
	atomic_store(&sender_cell(0)->word, vb_cell_word(77, 0, 0, VB_CELL_POSTED));
	atomic_store(&sender_cell(1)->word, UINT64_MAX);
	take(2, 1);
	finish(2);
	assert_polls(2, NOTHING);
	take(3, 1);
	atomic_store(&sender_cell(3)->word, 0);
	assert_polls(NOTHING);
	assert_int_equal(vb_rq_held(&rq), 3);
	post_ids(4, 1);
	take(4, 1);
	finish(4);
	assert_polls(4, NOTHING);
}

static void what_is_not_posted_is_not_consumed(void **state)
{
	post_ids(0, 1);
	vb_rq_consume(&rq, NULL, 5);
	vb_rq_consume(&rq, NULL, 2 * (rq.mask + 1));
	assert_int_equal(vb_rq_held(&rq), 1);
	finish(0);
	assert_polls(0, NOTHING);
}

/* Where a wire that takes over from the local path goes on. */
static void the_next_message_takes_the_first_receive_that_is_not_done(void **state)
{
	assert_int_equal(vb_rq_next_free(&rq), 0);
	post_ids(0, 3);
	assert_int_equal(vb_rq_next_free(&rq), 0);
	finish(0);
	finish(1);
	assert_int_equal(vb_rq_next_free(&rq), 2);
	assert_polls(0, 1);
	finish(2);
	assert_int_equal(vb_rq_next_free(&rq), 3);
}

static void the_oldest_completion_comes_first(void **state)
{
	post_ids(0, 4);
	for (uint32_t i = 0; i < 4; i++)
		take(i, 1);
	finish(3);
	finish(1);
	assert_polls(1);
	finish(0);
	assert_polls(0, 3, NOTHING);
	finish(2);
	assert_polls(2, NOTHING);
}

static void taken_receives_count_as_posted(void **state)
{
	post_ids(0, 4);
	for (uint32_t i = 0; i < 4; i++)
		take(i, 1);
	assert_int_equal(post(9), -ENOMEM);
	finish(2);
	assert_polls(2);
	post_ids(9, 1);
	assert_int_equal(post(10), -ENOMEM);
}

/*
 * One sender took the first receive and stops; the others go through the ring many times.
 */
static void goes_round_past_a_stopped_sender(void)
{
	uint32_t index;

	post_ids(0, 1);
	take(0, 9);
	for (uint32_t id = 1; id < 200; id++) {
		post_ids(id, 1);
		index = rq.tail - 1;
		take(index, 1);
		finish(index);
		assert_polls(id, NOTHING);
		assert_cell(0, VB_CELL_TAKEN);
	}
}

static void a_stopped_sender_does_not_hold_up_posting_and_polling(void **state)
{
	goes_round_past_a_stopped_sender();
	/* All but the receive that he holds can be posted. */
	post_ids(200, rq.depth - 1);
	assert_int_equal(post(210), -ENOMEM);
	finish_with(0, "late", 4);
	assert_polls(0, NOTHING);
	assert_memory_equal(memory, "late", 4);
	post_ids(210, 1);
}

static void stragglers_come_before_what_was_posted_later(void **state)
{
	uint32_t index;

	goes_round_past_a_stopped_sender();
	post_ids(300, 1);
	index = rq.tail - 1;
	take(index, 1);
	finish(index);
	finish(0);
	assert_polls(0, 300, NOTHING);
	assert_true(vb_rq_empty(&rq));
}

static void many_stragglers_each_complete_once(void **state)
{
	uint32_t index;

	post_ids(0, 3);
	for (uint32_t i = 0; i < 3; i++)
		take(i, (uint16_t)(i + 1));
	for (uint32_t id = 3; id < 100; id++) {
		post_ids(id, 1);
		index = rq.tail - 1;
		take(index, 9);
		finish(index);
		assert_polls(id, NOTHING);
	}
	finish(2);
	assert_polls(2, NOTHING);
	finish(0);
	finish(1);
	assert_int_equal(poll_one() + poll_one(), 1);
	assert_polls(NOTHING);
	assert_true(vb_rq_empty(&rq));
}

/* --- growing --- */

static void growing_keeps_what_is_posted_taken_and_done(void **state)
{
	uint32_t version = atomic_load(&sender_queue()->version);

	post_ids(0, 4);
	take(0, 1);
	take(1, 2);
	take(2, 1);
	finish_with(2, "ride", 4);
	assert_int_equal(vb_rq_grow(&rq, 100), 0);
	assert_int_equal(atomic_load(&sender_queue()->version), version + 2);
	assert_true(sender_queue()->mask + 1 >= 200);
	assert_cell(0, VB_CELL_TAKEN);
	assert_int_equal(vb_cell_claimant(word_of(1)), 2);
	assert_cell(3, VB_CELL_POSTED);
	assert_int_equal(vb_cell_flags(word_of(3)), VB_CELL_KEYS_OK);
	assert_int_equal(sender_cell(3)->posted_length, RECEIVE_SIZE);
	assert_int_equal(sender_sges(3)->sge[0].addr, (uintptr_t)&memory[3 * RECEIVE_SIZE]);
	assert_polls(2, NOTHING);
	assert_memory_equal(&memory[2 * RECEIVE_SIZE], "ride", 4);
	finish(0);
	finish(1);
	assert_polls(0, 1, NOTHING);
	post_ids(4, 99);
	assert_int_equal(post(200), -ENOMEM);
}

static void growing_keeps_stragglers(void **state)
{
	goes_round_past_a_stopped_sender();
	assert_int_equal(vb_rq_grow(&rq, 50), 0);
	assert_cell(0, VB_CELL_TAKEN);
	post_ids(300, 49);
	assert_int_equal(post(400), -ENOMEM);
	finish(0);
	assert_polls(0, NOTHING);
}

static void growing_is_refused_while_somebody_stays_inside(void **state)
{
	struct vb_thread *stopped = rig_thread(rig.nic);
	uint32_t version = atomic_load(&sender_queue()->version);

	post_ids(0, 4);
	vb_hazard_enter(stopped, rig.nic->seg.head->slot);
	assert_int_equal(vb_rq_grow(&rq, 100), -EBUSY);
	assert_int_equal(atomic_load(&sender_queue()->version) % 2, version % 2);
	rig_thread_end(stopped);
	assert_int_equal(post(9), -ENOMEM);
	take(0, 1);
	finish(0);
	assert_polls(0, NOTHING);
}

/* --- resetting and flushing --- */

static void assert_as_new(void)
{
	assert_true(vb_rq_empty(&rq));
	assert_polls(NOTHING);
	for (uint32_t i = 0; i <= rq.mask; i++)
		assert_int_not_equal(vb_cell_state(word_of(i)), VB_CELL_POSTED);
	post_ids(50, rq.depth);
	assert_int_equal(post(60), -ENOMEM);
	if (rq.many)
		take(0, 1);
	finish(0);
	assert_polls(50, NOTHING);
}

static void reset_forgets_what_is_posted_and_what_is_done(void **state)
{
	post_ids(0, 3);
	if (rq.many)
		take(0, 1);
	finish(0);
	atomic_store(&sender_lent()->waiting, 1);
	assert_int_equal(vb_rq_reset(&rq), 0);
	assert_false(vb_rq_take_waiting(&rq));
	assert_as_new();
}

static void reset_forgets_stragglers(void **state)
{
	goes_round_past_a_stopped_sender();
	assert_int_equal(vb_rq_reset(&rq), 0);
	assert_as_new();
}

static void a_sender_that_did_not_notice_a_reset_writes_into_the_old_ring(void **state)
{
	struct vb_thread *late = rig_thread(rig.nic);
	struct vb_cell *old = sender_cell(0);

	post_ids(0, 1);
	vb_hazard_enter(late, rig.nic->seg.head->slot);
	assert_int_equal(vb_rq_reset(&rq), 0);
	assert_ptr_not_equal(sender_cell(0), old);
	assert_int_equal(atomic_load(&old->word),
			 vb_cell_word(0, 0, VB_CELL_KEYS_OK, VB_CELL_POSTED));
	post_ids(70, 1);
	atomic_store(&old->word, vb_cell_word(0, 0, 0, VB_CELL_DONE));
	assert_polls(NOTHING);
	rig_thread_end(late);
	if (rq.many)
		take(0, 1);
	finish(0);
	assert_polls(70, NOTHING);
}

/* Once a bug in rq.c, vb_rq_reset: tail 0 is taken for a queue that never had a post. */
static void reset_forgets_also_where_the_index_is_0_again(void **state)
{
	start_at(UINT32_MAX - 1);
	post_ids(0, 2);
	assert_int_equal(rq.tail, 0);
	assert_int_equal(vb_rq_reset(&rq), 0);
	assert_true(vb_rq_empty(&rq));
}

static void a_flush_completes_the_rest_in_order_and_keeps_what_was_done(void **state)
{
	uint32_t index;

	post_ids(0, 4);
	if (rq.many)
		take(0, 1);
	finish(0);
	assert_flushes(0, VB_CELL_DONE);
	for (uint64_t id = 1; id < 4; id++)
		assert_flushes(id, VB_CELL_FLUSHED);
	assert_false(vb_rq_flush_next(&rq, &index));
	assert_true(vb_rq_empty(&rq));
}

static void a_flush_ends_what_the_dead_had_taken(void **state)
{
	uint32_t index;

	goes_round_past_a_stopped_sender();
	post_ids(300, 2);
	take(rq.tail - 2, 3);
	assert_flushes(0, VB_CELL_FLUSHED);
	assert_flushes(300, VB_CELL_FLUSHED);
	assert_flushes(301, VB_CELL_FLUSHED);
	assert_false(vb_rq_flush_next(&rq, &index));
	assert_true(vb_rq_empty(&rq));
}

/* clang-format off */
#define ONE(name)                                                           \
	{                                                                   \
#name " (one sender)", name, open_single, close_queue, NULL \
	}
#define MANY(name)                                                          \
	{                                                                   \
#name " (many senders)", name, open_many, close_queue, NULL \
	}
/* clang-format on */

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(a_posted_cell_says_what_a_sender_must_know),
		MANY(a_posted_cell_says_what_a_sender_must_know),
		ONE(addresses_of_a_region_become_those_of_the_process),
		ONE(nobody_vouches_for_keys_that_do_not_fit),
		ONE(too_many_elements_are_refused_and_nothing_is_posted),
		MANY(too_many_elements_are_refused_and_nothing_is_posted),
		ONE(it_is_full_at_its_depth_and_a_poll_makes_room),
		MANY(it_is_full_at_its_depth_and_a_poll_makes_room),
		ONE(a_sender_that_waits_is_found_once),
		ONE(one_sender_completes_in_the_order_of_posting),
		ONE(nothing_overtakes_in_a_queue_with_one_sender),
		ONE(a_completion_of_the_last_round_is_not_one_of_this),
		ONE(indexes_go_on_beyond_32_bits),
		MANY(indexes_go_on_beyond_32_bits),
		MANY(a_taken_cell_is_skipped),
		MANY(a_completion_under_another_index_is_none),
		MANY(a_damaged_cell_does_not_stop_the_queue),
		MANY(what_is_not_posted_is_not_consumed),
		ONE(the_next_message_takes_the_first_receive_that_is_not_done),
		MANY(the_oldest_completion_comes_first),
		MANY(taken_receives_count_as_posted),
		MANY(a_stopped_sender_does_not_hold_up_posting_and_polling),
		MANY(stragglers_come_before_what_was_posted_later),
		MANY(many_stragglers_each_complete_once),
		MANY(growing_keeps_what_is_posted_taken_and_done),
		MANY(growing_keeps_stragglers),
		MANY(growing_is_refused_while_somebody_stays_inside),
		ONE(reset_forgets_what_is_posted_and_what_is_done),
		MANY(reset_forgets_what_is_posted_and_what_is_done),
		MANY(reset_forgets_stragglers),
		ONE(a_sender_that_did_not_notice_a_reset_writes_into_the_old_ring),
		MANY(a_sender_that_did_not_notice_a_reset_writes_into_the_old_ring),
		ONE(reset_forgets_also_where_the_index_is_0_again),
		ONE(a_flush_completes_the_rest_in_order_and_keeps_what_was_done),
		MANY(a_flush_completes_the_rest_in_order_and_keeps_what_was_done),
		MANY(a_flush_ends_what_the_dead_had_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
