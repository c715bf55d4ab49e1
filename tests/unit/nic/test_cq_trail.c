/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trail of a CQ with many queues: completions come in the order of their numbers, where the
 * trail leads, where it has holes, and where it was overwritten. With few queues there is no trail,
 * but the next number. The test plays the threads that complete: each takes a number, shows its
 * completion and writes its entry, in steps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nic/cq.h"
#include "nic/qp.h"
#include "rig.h"

enum { QUEUES = 20, FEW = 6, DEPTH = 256, CQE = 64, NONE = -1 };

static struct rig rig;
static struct vb_cq *cq;
static struct vb_qp *qps[QUEUES];

static void queue_attach(int i)
{
	struct vb_qp *qp = calloc(1, sizeof(*qp));

	assert_non_null(qp);
	qps[i] = qp;
	qp->nic = rig.nic;
	qp->send_cq = cq;
	qp->ibv.qp_num = (uint32_t)i;
	assert_int_equal(vb_sq_init(&qp->sq, DEPTH, 1, 0), 0);
	qp->sends = (struct vb_cq_queue){
		.kind = VB_CQ_SENDS, .sq = &qp->sq, .qp = qp, .depth = DEPTH
	};
	pthread_mutex_lock(&rig.nic->lock);
	assert_int_equal(vb_cq_attach(cq, &qp->sends), 0);
	pthread_mutex_unlock(&rig.nic->lock);
}

static void queue_detach(int i)
{
	pthread_mutex_lock(&rig.nic->lock);
	vb_cq_detach(&qps[i]->sends);
	pthread_mutex_unlock(&rig.nic->lock);
	vb_sq_fini(&qps[i]->sq);
	free(qps[i]);
	qps[i] = NULL;
}

static int open_cq(void **state)
{
	struct vb_cq_spec spec = { .cqe = CQE, .ignore_overrun = true };

	rig_open(&rig);
	assert_int_equal(vb_async_init(&rig.ctx), 0);
	assert_int_equal(vb_cq_create(&rig.ctx.verbs.context, &spec, &cq), 0);
	return 0;
}

static int open_all(void **state)
{
	open_cq(state);
	for (int i = 0; i < QUEUES; i++)
		queue_attach(i);
	return 0;
}

static int open_few(void **state)
{
	open_cq(state);
	for (int i = 0; i < FEW; i++)
		queue_attach(i);
	return 0;
}

static int close_all(void **state)
{
	for (int i = 0; i < QUEUES; i++)
		if (qps[i])
			queue_detach(i);
	assert_int_equal(vb_cq_destroy(cq), 0);
	vb_async_close(&rig.ctx);
	vb_async_free(&rig.ctx);
	rig_close(&rig);
	return 0;
}

/* --- a thread that completes, step by step --- */

static uint64_t take_number(void)
{
	return vb_cq_stamp(cq->shared, vb_cq_own_asks(cq));
}

static void show(int i, uint64_t wr_id, uint64_t stamp)
{
	struct vb_sq *sq = &qps[i]->sq;
	struct vb_wqe *wqe = vb_sq_wqe(sq, sq->tail);

	wqe->wr_id = wr_id;
	wqe->status = IBV_WC_SUCCESS;
	wqe->signaled = true;
	sq->stamps[sq->tail & sq->mask] = stamp;
	sq->next = ++sq->tail;
	atomic_store(&sq->done, sq->next);
}

static void tell(int i, uint64_t stamp)
{
	vb_cq_trail_mark(cq, stamp, qps[i]->sends.bit);
	vb_cq_notify(cq, qps[i]->sends.bit, false);
}

static void complete(int i, uint64_t wr_id)
{
	uint64_t number = take_number();

	show(i, wr_id, number);
	tell(i, number);
}

static int poll_one(void)
{
	struct ibv_wc wc;
	int got = vb_cq_poll(cq, 1, &wc);

	assert_true(got >= 0);
	return got ? (int)wc.wr_id : NONE;
}

static void expect(int first, int count)
{
	for (int i = first; i < first + count; i++)
		assert_int_equal(poll_one(), i);
}

/* The trail leads again: nothing waits, and a completion comes without a look at the queues. */
static void expect_trail(void)
{
	assert_int_equal(poll_one(), NONE);
	assert_true(vb_cq_trail_at_end(cq));
	complete(3, 7777);
	assert_int_equal(cq->number_next, take_number() - 1);
	vb_cq_void_number(cq->shared, VB_CQ_NUMBERS);
	assert_int_equal(poll_one(), 7777);
	assert_int_equal(poll_one(), NONE);
}

/* --- */

static void completions_come_in_the_order_of_their_numbers(void **state)
{
	struct ibv_wc wc[40];

	for (int i = 0; i < 40; i++)
		complete(i * 7 % QUEUES, (uint64_t)i);
	expect(0, 10);
	assert_int_equal(vb_cq_poll(cq, 40, wc), 30);
	for (int i = 0; i < 30; i++)
		assert_int_equal(wc[i].wr_id, i + 10);
	expect_trail();
}

static void a_hole_holds_up_nothing_and_is_filled_later(void **state)
{
	uint64_t number;

	complete(1, 0);
	number = take_number(); /* and the thread is stopped */
	complete(2, 1);
	complete(4, 2);
	expect(0, 3);
	assert_int_equal(poll_one(), NONE);
	assert_false(vb_cq_trail_at_end(cq));
	complete(5, 3);
	expect(3, 1);
	show(6, 4, number);
	tell(6, number);
	complete(7, 5);
	expect(4, 2);
	expect_trail();
}

/* The completion that was seen first has the higher number, because the other came late. */
static void a_completion_without_its_entry_is_found(void **state)
{
	uint64_t number = take_number();

	show(1, 0, number);
	vb_cq_notify(cq, qps[1]->sends.bit, false); /* and the thread is stopped */
	complete(2, 1);
	expect(0, 2);
	vb_cq_trail_mark(cq, number, qps[1]->sends.bit);
	expect_trail();
}

static void a_thread_that_died_before_its_ready_bit_loses_nothing(void **state)
{
	expect_trail();
	show(1, 0, take_number());
	vb_cq_look_again(cq);
	expect(0, 1);
	expect_trail();
}

static void void_numbers_are_passed(void **state)
{
	complete(1, 0);
	take_number();
	vb_cq_void_number(cq->shared, VB_CQ_NUMBERS);
	complete(2, 1);
	expect(0, 2);
	expect_trail();
}

static void more_completions_than_entries_keep_their_order(void **state)
{
	assert_int_equal(cq->trail_mask + 1, CQE);
	for (int i = 0; i < 3 * CQE; i++)
		complete(i * 3 % QUEUES, (uint64_t)i);
	expect(0, 3 * CQE);
	expect_trail();
}

static void a_queue_that_leaves_takes_its_numbers_along(void **state)
{
	for (int i = 0; i < QUEUES; i++)
		complete(i, (uint64_t)i);
	queue_detach(0);
	queue_detach(5);
	expect(1, 4);
	expect(6, QUEUES - 6);
	expect_trail();
	queue_attach(5); /* with the bit of the queue that left */
	complete(5, 99);
	assert_int_equal(poll_one(), 99);
	expect_trail();
}

static void a_wrong_entry_is_not_believed(void **state)
{
	uint64_t number = take_number();

	vb_cq_trail_mark(cq, number, qps[9]->sends.bit); /* a queue without a completion */
	assert_int_equal(poll_one(), NONE);
	show(1, 0, number);
	tell(1, number);
	expect(0, 1);
	number = take_number();
	show(1, 1, number);
	vb_trail_mark(cq->trail, cq->trail_mask, number, 4000); /* no queue at all */
	vb_cq_notify(cq, qps[1]->sends.bit, false);
	expect(1, 1);
	expect_trail();
}

/* A thread had looked at the CQ's asks before the second queue was attached. */
static void completions_without_a_number_come_first(void **state)
{
	for (int i = 0; i < QUEUES; i++)
		queue_attach(i);
	complete(3, 1);
	show(0, 0, 0);
	vb_cq_notify(cq, qps[0]->sends.bit, false);
	expect(0, 2);
	show(0, 2, 0);
	vb_cq_notify(cq, qps[0]->sends.bit, false);
	assert_false(vb_cq_trail_at_end(cq));
	complete(3, 3);
	expect(2, 2);
	expect_trail();
}

/* Few queues have numbers and no trail. */
static void the_trail_begins_when_many_queues_are_there(void **state)
{
	for (int i = 0; i < 4; i++)
		queue_attach(i);
	for (int i = 0; i < 8; i++)
		complete(i % 4, (uint64_t)i);
	expect(0, 5);
	assert_false(vb_cq_has_trail(cq));
	for (int i = 4; i < QUEUES; i++)
		queue_attach(i);
	assert_true(vb_cq_has_trail(cq));
	complete(12, 8);
	complete(1, 9);
	expect(5, 5);
	expect_trail();
}

/* --- few queues --- */

/* The next number is known, and right. */
static void expect_next_number(void)
{
	assert_int_equal(poll_one(), NONE);
	assert_int_equal(cq->number_next, atomic_load(&cq->shared->number) + 1);
	complete(3, 7777);
	complete(1, 7778);
	assert_int_equal(poll_one(), 7777);
	assert_int_equal(poll_one(), 7778);
	assert_int_equal(cq->number_next, atomic_load(&cq->shared->number) + 1);
}

static void few_queues_complete_number_by_number(void **state)
{
	struct ibv_wc wc[40];

	expect_next_number();
	for (int i = 0; i < 40; i++)
		complete(i * i % FEW, (uint64_t)i);
	expect(0, 10);
	assert_int_equal(vb_cq_poll(cq, 40, wc), 30);
	for (int i = 0; i < 30; i++)
		assert_int_equal(wc[i].wr_id, i + 10);
	expect_next_number();
}

/* The number of the late completion is lower, and it is visible before the other begins. */
static void a_late_completion_comes_before_its_effect(void **state)
{
	uint64_t number;

	complete(1, 0);
	number = take_number(); /* and the thread is stopped */
	complete(2, 1);
	complete(4, 2);
	expect(0, 3);
	assert_int_equal(cq->number_next, 0);
	show(5, 3, number);
	complete(2, 4);
	expect(3, 2);
	expect_next_number();
}

static void the_next_number_is_known_when_the_late_one_was_polled(void **state)
{
	uint64_t number = take_number();

	complete(2, 0);
	expect(0, 1);
	assert_int_equal(poll_one(), NONE);
	assert_int_equal(cq->number_next, 0);
	show(0, 1, number);
	expect(1, 1);
	assert_int_equal(cq->number_next, number + 2);
	expect_next_number();
}

/* A void number above all that were polled does not stand for the late one below. */
static void a_void_number_hides_no_late_completion(void **state)
{
	uint64_t number = take_number();

	complete(2, 0);
	expect(0, 1);
	take_number();
	vb_cq_void_number(cq->shared, VB_CQ_NUMBERS);
	assert_int_equal(poll_one(), NONE);
	assert_int_equal(cq->number_next, 0);
	show(0, 1, number);
	complete(2, 2);
	expect(1, 2);
	expect_next_number();
}

static void few_queues_pass_void_numbers(void **state)
{
	complete(1, 0);
	take_number();
	vb_cq_void_number(cq->shared, VB_CQ_NUMBERS);
	complete(2, 1);
	complete(0, 2);
	expect(0, 3);
	expect_next_number();
}

static void few_queues_lose_one_with_its_numbers(void **state)
{
	for (int i = 0; i < FEW; i++)
		complete(i, (uint64_t)i);
	expect(0, 1);
	queue_detach(4);
	expect(1, 3);
	expect(5, 1);
	expect_next_number();
}

static void few_queues_have_completions_without_a_number_first(void **state)
{
	for (int i = 0; i < FEW; i++)
		queue_attach(i);
	complete(3, 1);
	show(0, 0, 0);
	expect(0, 2);
	complete(3, 3);
	complete(2, 4);
	show(0, 2, 0);
	expect(2, 3);
	expect_next_number();
}

#define AMONG_ALL(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)
#define AMONG_FEW(test) cmocka_unit_test_setup_teardown(test, open_few, close_all)
#define FROM_NONE(test) cmocka_unit_test_setup_teardown(test, open_cq, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		AMONG_ALL(completions_come_in_the_order_of_their_numbers),
		AMONG_ALL(a_hole_holds_up_nothing_and_is_filled_later),
		AMONG_ALL(a_completion_without_its_entry_is_found),
		AMONG_ALL(a_thread_that_died_before_its_ready_bit_loses_nothing),
		AMONG_ALL(void_numbers_are_passed),
		AMONG_ALL(more_completions_than_entries_keep_their_order),
		AMONG_ALL(a_queue_that_leaves_takes_its_numbers_along),
		AMONG_ALL(a_wrong_entry_is_not_believed),
		FROM_NONE(completions_without_a_number_come_first),
		FROM_NONE(the_trail_begins_when_many_queues_are_there),
		AMONG_FEW(few_queues_complete_number_by_number),
		AMONG_FEW(a_late_completion_comes_before_its_effect),
		AMONG_FEW(the_next_number_is_known_when_the_late_one_was_polled),
		AMONG_FEW(a_void_number_hides_no_late_completion),
		AMONG_FEW(few_queues_pass_void_numbers),
		AMONG_FEW(few_queues_lose_one_with_its_numbers),
		FROM_NONE(few_queues_have_completions_without_a_number_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
