/* SPDX-License-Identifier: BSD-2-Clause */
/* Cross-channel: queues that wait for CQs, and enable the work requests of others. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cross.h"

/* --- waiting --- */

static void a_wait_ends_with_the_last_of_its_completions(void **state)
{
	struct rig rig;
	struct master master;

	(void)state;
	rig_open(&rig, &cross_plain);
	master = master_open(&rig.near);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post_recv(&rig, i, (uint32_t)(NEAR_AT + 64 * i), 64), 0);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 2, WAIT_ID, true), 0);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 1, WAIT_ID + 1, true), 0);
	far_send(&rig, FAR_AT, 8);
	stays_empty(master.cq);
	far_send(&rig, FAR_AT, 8);
	ends(master.cq, WAIT_ID, IBV_WC_SUCCESS);
	stays_empty(master.cq);
	far_send(&rig, FAR_AT, 8);
	ends(master.cq, WAIT_ID + 1, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < 3; i++)
		ends(rig.near.recv_cq, i, IBV_WC_SUCCESS);
	master_close(&master);
	rig_close(&rig);
}

static void completions_that_were_polled_count(void **state)
{
	struct rig rig;
	struct master master;

	(void)state;
	rig_open(&rig, &cross_plain);
	master = master_open(&rig.near);
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(post_recv(&rig, i, NEAR_AT, 64), 0);
	far_send(&rig, FAR_AT, 8);
	ends(rig.near.recv_cq, 0, IBV_WC_SUCCESS);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 1, WAIT_ID, true), 0);
	ends(master.cq, WAIT_ID, IBV_WC_SUCCESS);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 1, WAIT_ID + 1, true), 0);
	stays_empty(master.cq);
	far_send(&rig, FAR_AT, 8);
	ends(master.cq, WAIT_ID + 1, IBV_WC_SUCCESS);
	ends(rig.near.recv_cq, 1, IBV_WC_SUCCESS);
	master_close(&master);
	rig_close(&rig);
}

/* Without WAIT_EN_LAST counts begin at the same place; with it they begin behind the highest. */
static void counts_begin_behind_the_last_wait(void **state)
{
	struct rig rig;
	struct master master;

	(void)state;
	rig_open(&rig, &cross_plain);
	master = master_open(&rig.near);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post_recv(&rig, i, NEAR_AT, 64), 0);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 1, WAIT_ID, false), 0);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 3, WAIT_ID + 1, false), 0);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 2, WAIT_ID + 2, true), 0);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 0, WAIT_ID + 3, true), 0);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 1, WAIT_ID + 4, true), 0);
	far_send(&rig, FAR_AT, 8);
	ends(master.cq, WAIT_ID, IBV_WC_SUCCESS);
	far_send(&rig, FAR_AT, 8);
	stays_empty(master.cq);
	far_send(&rig, FAR_AT, 8);
	for (uint64_t i = 1; i < 4; i++)
		ends(master.cq, WAIT_ID + i, IBV_WC_SUCCESS);
	stays_empty(master.cq);
	far_send(&rig, FAR_AT, 8);
	ends(master.cq, WAIT_ID + 4, IBV_WC_SUCCESS);
	master_close(&master);
	rig_close(&rig);
}

static void more_completions_than_the_cq_has_room_for(void **state)
{
	struct ibv_exp_cq_attr attr = { .comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
					.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN };
	struct ibv_cq *small;
	struct rig_end other;
	struct rig rig;
	struct master master;
	struct rig_address to;
	struct ibv_wc wc[8];
	struct ibv_qp *qp;

	(void)state;
	rig_open(&rig, &cross_plain);
	master = master_open(&rig.near);
	small = ibv_create_cq(rig.near.context, 4, NULL, NULL, 0);
	assert_int_equal(ibv_exp_modify_cq(small, &attr, IBV_EXP_CQ_CAP_FLAGS), 0);
	other = rig.near;
	other.send_cq = other.recv_cq = small;
	qp = rig_create_qp(&other, &cross_plain);
	to = rig_address(&rig.near, qp);
	rig_connect(&rig.near, qp, &to);
	for (uint64_t i = 0; i < 10; i++) {
		struct ibv_exp_send_wr wr = { .wr_id = i,
					      .exp_opcode = IBV_EXP_WR_NOP,
					      .exp_send_flags = IBV_EXP_SEND_SIGNALED };

		assert_int_equal(ibv_exp_post_send(qp, &wr, NULL), 0);
	}
	assert_int_equal(post_wait(master.qp, small, 10, WAIT_ID, true), 0);
	ends(master.cq, WAIT_ID, IBV_WC_SUCCESS);
	assert_int_equal(ibv_poll_cq(small, 8, wc), 4); /* the oldest are lost */
	for (int i = 0; i < 4; i++)
		assert_int_equal(wc[i].wr_id, 6 + i);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(small), 0);
	master_close(&master);
	rig_close(&rig);
}

/* --- managed queues --- */

static void sends_wait_until_they_are_enabled(void **state)
{
	struct rig rig;
	struct master master;

	(void)state;
	rig_open(&rig, &cross_managed_send);
	master = master_open(&rig.near);
	for (uint64_t i = 0; i < 5; i++) {
		far_recv(&rig, i, (uint32_t)(FAR_AT + 8 * i), 8);
		memset(rig.near.arena + NEAR_AT + 8 * i, (int)(i + 1), 8);
		assert_int_equal(post_send(&rig, i, (uint32_t)(NEAR_AT + 8 * i), 8), 0);
	}
	stays_empty(rig.near.send_cq);
	assert_int_equal(post_enable(master.qp, rig.near.qp, true, 2, ENABLE_ID), 0);
	ends(master.cq, ENABLE_ID, IBV_WC_SUCCESS);
	ends(rig.near.send_cq, 0, IBV_WC_SUCCESS);
	ends(rig.near.send_cq, 1, IBV_WC_SUCCESS);
	stays_empty(rig.near.send_cq);
	assert_int_equal(post_enable(master.qp, rig.near.qp, true, 1, ENABLE_ID + 1), 0);
	ends(rig.near.send_cq, 2, IBV_WC_SUCCESS);
	stays_empty(rig.near.send_cq);
	assert_int_equal(post_enable(master.qp, rig.near.qp, true, 0, ENABLE_ID + 2), 0);
	ends(rig.near.send_cq, 3, IBV_WC_SUCCESS);
	ends(rig.near.send_cq, 4, IBV_WC_SUCCESS);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(rig_far(&rig, rig_received, NULL, 0), 8);
		assert_int_equal(rig.far_arena[FAR_AT + 8 * i], i + 1);
	}
	master_close(&master);
	rig_close(&rig);
}

static void receives_wait_until_they_are_enabled(void **state)
{
	const struct far_message message = { FAR_AT, 100, false };
	struct rig rig;
	struct master master;

	(void)state;
	rig_open(&rig, &cross_managed_recv);
	master = master_open(&rig.near);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post_recv(&rig, i, (uint32_t)(NEAR_AT + 128 * i), 128), 0);
	for (int i = 0; i < 3; i++)
		rig_far(&rig, far_send_now, &message, sizeof(message));
	stays_empty(rig.near.recv_cq);
	assert_int_equal(post_enable(master.qp, rig.near.qp, false, 1, ENABLE_ID), 0);
	ends(master.cq, ENABLE_ID, IBV_WC_SUCCESS);
	ends(rig.near.recv_cq, 0, IBV_WC_SUCCESS);
	stays_empty(rig.near.recv_cq);
	assert_int_equal(post_enable(master.qp, rig.near.qp, false, 0, ENABLE_ID + 1), 0);
	ends(rig.near.recv_cq, 1, IBV_WC_SUCCESS);
	ends(rig.near.recv_cq, 2, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++)
		rig_far(&rig, far_drain, NULL, 0);
	master_close(&master);
	rig_close(&rig);
}

static void held_receives_need_room(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, &cross_managed_recv);
	for (uint64_t i = 0; i < RIG_DEPTH; i++)
		assert_int_equal(post_recv(&rig, i, NEAR_AT, 8), 0);
	assert_int_equal(post_recv(&rig, RIG_DEPTH, NEAR_AT, 8), ENOMEM);
	rig_close(&rig);
}

/* The answer goes out without the program: it has the bytes that came in. */
static void a_chain_answers_by_itself(void **state)
{
	static const uint32_t lengths[] = { 1, 8, 100, 700, 5000, 40000 };
	const uint32_t count = sizeof(lengths) / sizeof(*lengths);
	struct rig rig;
	struct master master;

	(void)state;
	rig_open(&rig, &cross_managed_send);
	master = master_open(&rig.near);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(post_recv(&rig, i, NEAR_AT, lengths[i]), 0);
		far_recv(&rig, i, FAR_AT, lengths[i]);
		assert_int_equal(post_send(&rig, i, NEAR_AT, lengths[i]), 0);
		assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 1, WAIT_ID + i, true), 0);
		assert_int_equal(post_enable(master.qp, rig.near.qp, true, 1, ENABLE_ID + i), 0);
	}
	for (uint32_t i = 0; i < count; i++) {
		rig_fill(rig.far_arena, lengths[i], i + 1);
		memset(rig.far_arena + FAR_AT, 0, lengths[i]);
		far_send(&rig, 0, lengths[i]);
		assert_int_equal(rig_far(&rig, rig_received, NULL, 0), lengths[i]);
		assert_memory_equal(rig.far_arena, rig.far_arena + FAR_AT, lengths[i]);
	}
	for (uint32_t i = 0; i < count; i++) {
		ends(master.cq, WAIT_ID + i, IBV_WC_SUCCESS);
		ends(master.cq, ENABLE_ID + i, IBV_WC_SUCCESS);
		ends(rig.near.recv_cq, i, IBV_WC_SUCCESS);
		ends(rig.near.send_cq, i, IBV_WC_SUCCESS);
	}
	master_close(&master);
	rig_close(&rig);
}

/* A WAIT in the queue of the messages themselves, which may go by packets. */
static void a_queue_waits_between_its_own_sends(void **state)
{
	static const struct rig_opts cross = { .create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL,
					       .near_only = true };
	struct ibv_exp_wc wc;
	struct rig rig;

	(void)state;
	rig_open(&rig, &cross);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(post_recv(&rig, i, (uint32_t)(NEAR_AT + 64 * i), 64), 0);
		far_recv(&rig, i, (uint32_t)(FAR_AT + 64 * i), 64);
	}
	assert_int_equal(post_send(&rig, 0, 0, 64), 0);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(post_wait(rig.near.qp, rig.near.recv_cq, 1, WAIT_ID + i, true), 0);
		assert_int_equal(post_send(&rig, i + 1, (uint32_t)(NEAR_AT + 64 * i), 64), 0);
	}
	assert_int_equal(rig_far(&rig, rig_received, NULL, 0), 64);
	ends(rig.near.send_cq, 0, IBV_WC_SUCCESS);
	stays_empty(rig.near.send_cq);
	for (uint32_t i = 0; i < 2; i++) {
		rig_fill(rig.far_arena, 64, i + 1);
		far_send(&rig, 0, 64);
		assert_int_equal(rig_far(&rig, rig_received, NULL, 0), 64);
		assert_memory_equal(rig.far_arena, rig.far_arena + FAR_AT + 64 * (i + 1), 64);
		ends(rig.near.send_cq, WAIT_ID + i, IBV_WC_SUCCESS);
		ends(rig.near.send_cq, i + 1, IBV_WC_SUCCESS);
	}
	for (uint64_t i = 0; i < 2; i++)
		ends(rig.near.recv_cq, i, IBV_WC_SUCCESS);
	assert_int_equal(ibv_exp_poll_cq(rig.near.recv_cq, 1, &wc, sizeof(wc)), 0);
	rig_close(&rig);
}

/* The event comes with the message, and the poll behind it finds what a WAIT has taken. */
static void events_come_although_a_wait_was_faster(void **state)
{
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq, *same;
	struct rig_end other;
	struct rig rig;
	struct master master;
	struct rig_address self;
	struct ibv_exp_send_wr wr = { .wr_id = 1,
				      .exp_opcode = IBV_EXP_WR_NOP,
				      .exp_send_flags = IBV_EXP_SEND_SIGNALED };
	void *context;

	(void)state;
	rig_open(&rig, &cross_plain);
	master = master_open(&rig.near);
	channel = ibv_create_comp_channel(rig.near.context);
	cq = ibv_create_cq(rig.near.context, 16, NULL, channel, 0);
	assert_non_null(cq);
	other = rig.near;
	other.send_cq = other.recv_cq = cq;
	other.qp = rig_create_qp(&other, &cross_plain);
	self = rig_address(&rig.near, other.qp);
	rig_connect(&rig.near, other.qp, &self);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(post_wait(master.qp, cq, 1, WAIT_ID, true), 0);
	assert_int_equal(ibv_exp_post_send(other.qp, &wr, NULL), 0);
	ends(master.cq, WAIT_ID, IBV_WC_SUCCESS);
	assert_int_equal(ibv_get_cq_event(channel, &same, &context), 0);
	assert_ptr_equal(same, cq);
	ibv_ack_cq_events(cq, 1);
	ends(cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(other.qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	master_close(&master);
	rig_close(&rig);
}

static void tasks_are_posted_in_order(void **state)
{
	struct ibv_exp_send_wr send = { .wr_id = 5,
					.exp_opcode = IBV_EXP_WR_NOP,
					.exp_send_flags = IBV_EXP_SEND_SIGNALED };
	struct ibv_exp_send_wr enable = { .wr_id = ENABLE_ID,
					  .exp_opcode = IBV_EXP_WR_SEND_ENABLE,
					  .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST };
	struct ibv_exp_task second = { .task_type = IBV_EXP_TASK_SEND }, first = second, *bad;
	struct rig rig;
	struct master master;

	(void)state;
	rig_open(&rig, &cross_managed_send);
	master = master_open(&rig.near);
	enable.task.wqe_enable.qp = rig.near.qp;
	enable.task.wqe_enable.wqe_count = 1;
	first.item.qp = rig.near.qp;
	first.item.send_wr = &send;
	first.next = &second;
	second.item.qp = master.qp;
	second.item.send_wr = &enable;
	assert_int_equal(ibv_exp_post_task(rig.near.context, &first, NULL), 0);
	ends(rig.near.send_cq, 5, IBV_WC_SUCCESS);
	enable.task.wqe_enable.wqe_count = 2; /* one is posted */
	assert_int_equal(ibv_exp_post_task(rig.near.context, &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);
	stays_empty(rig.near.send_cq);
	master_close(&master);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_ends_with_the_last_of_its_completions),
		cmocka_unit_test(completions_that_were_polled_count),
		cmocka_unit_test(counts_begin_behind_the_last_wait),
		cmocka_unit_test(more_completions_than_the_cq_has_room_for),
		cmocka_unit_test(sends_wait_until_they_are_enabled),
		cmocka_unit_test(receives_wait_until_they_are_enabled),
		cmocka_unit_test(held_receives_need_room),
		cmocka_unit_test(a_chain_answers_by_itself),
		cmocka_unit_test(a_queue_waits_between_its_own_sends),
		cmocka_unit_test(events_come_although_a_wait_was_faster),
		cmocka_unit_test(tasks_are_posted_in_order),
	};
	int failed;

	rig_start();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rig_stop();
	return failed;
}
