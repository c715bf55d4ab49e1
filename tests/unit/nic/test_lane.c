/* SPDX-License-Identifier: BSD-2-Clause */
/* Which lane a QP gets, and which numbers a lane gives out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nic/lane.h"
#include "nic/qp.h"
#include "rig.h"

enum { CQS = 4, QPS = 2 * VB_QP_PER_ROW };

static struct rig rig;
static struct vb_cq *cqs[CQS];
static struct vb_qp *qps[QPS];
static unsigned qp_count;

static int setup(void **state)
{
	const struct vb_cq_spec spec = { .cqe = 16 };

	rig_open(&rig);
	assert_int_equal(vb_async_init(&rig.ctx), 0);
	for (int i = 0; i < CQS; i++)
		assert_int_equal(vb_cq_create(&rig.ctx.verbs.context, &spec, &cqs[i]), 0);
	qp_count = 0;
	rig.nic->lanes_max = 3;
	return 0;
}

static struct vb_qp *make_qp(struct vb_cq *send_cq, struct vb_cq *recv_cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = &send_cq->ibv,
		.recv_cq = &recv_cq->ibv,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	assert_true(qp_count < QPS);
	assert_int_equal(vb_qp_create(rig.pd, &init, &qps[qp_count]), 0);
	return qps[qp_count++];
}

static void end_qp(struct vb_qp *qp)
{
	vb_qp_close(qp, IBV_QPS_RESET);
	vb_qp_withdraw(qp);
	assert_int_equal(vb_qp_destroy(qp), 0);
}

static void end_last_qp(void)
{
	end_qp(qps[--qp_count]);
}

static int teardown(void **state)
{
	while (qp_count)
		end_last_qp();
	for (int i = 0; i < CQS; i++)
		assert_int_equal(vb_cq_destroy(cqs[i]), 0);
	vb_async_close(&rig.ctx);
	vb_async_free(&rig.ctx);
	rig_close(&rig);
	return 0;
}

static unsigned lane_of(const struct vb_qp *qp)
{
	const unsigned lane = atomic_load(&qp->lane);

	assert_int_equal(vb_lane_of_qpn(rig.nic, qp->ibv.qp_num), lane);
	return lane;
}

static unsigned rows_of(unsigned lane)
{
	uint32_t rows[VB_OWN_SLOTS * VB_QP_ROWS];

	return vb_lane_rows(rig.nic, lane, rows, VB_OWN_SLOTS * VB_QP_ROWS);
}

static void the_lane_follows_the_cq_that_receives(void **state)
{
	assert_int_equal(lane_of(make_qp(cqs[0], cqs[0])), 0);
	assert_int_equal(lane_of(make_qp(cqs[1], cqs[0])), 0);
	assert_int_equal(lane_of(make_qp(cqs[1], cqs[1])), 1);
	assert_int_equal(lane_of(make_qp(cqs[0], cqs[2])), 2);
	assert_int_equal(lane_of(make_qp(cqs[1], cqs[1])), 1);
	/* Polls bring the lanes on whose QPs complete there, in either queue. */
	assert_int_equal(atomic_load(&cqs[0]->lanes), 1 << 0 | 1 << 2);
	assert_int_equal(atomic_load(&cqs[1]->lanes), 1 << 0 | 1 << 1);
	assert_int_equal(atomic_load(&cqs[2]->lanes), 1 << 2);
	assert_int_equal(atomic_load(&cqs[3]->lanes), 0);
}

static void beyond_the_limit_the_lane_with_the_fewest_qps_is_taken(void **state)
{
	make_qp(cqs[0], cqs[0]);
	make_qp(cqs[1], cqs[1]);
	make_qp(cqs[1], cqs[1]);
	make_qp(cqs[2], cqs[2]);
	make_qp(cqs[2], cqs[2]);
	assert_int_equal(lane_of(make_qp(cqs[3], cqs[3])), 0);
}

static void one_lane_is_all_if_no_more_are_allowed(void **state)
{
	rig.nic->lanes_max = 1;
	for (int i = 0; i < CQS; i++)
		assert_int_equal(lane_of(make_qp(cqs[i], cqs[i])), 0);
	assert_int_equal(rows_of(0), VB_QP_ROWS);
}

static void a_lane_takes_another_row_when_one_is_used_up(void **state)
{
	make_qp(cqs[0], cqs[0]);
	for (unsigned i = 0; i <= VB_QP_PER_ROW; i++) {
		assert_int_equal(lane_of(make_qp(cqs[1], cqs[1])), 1);
		assert_int_equal(rows_of(1), 1 + i / VB_QP_PER_ROW);
	}
	assert_int_equal(rows_of(0), VB_QP_ROWS - 2);
}

static void the_rows_come_back_with_the_last_qp(void **state)
{
	make_qp(cqs[0], cqs[0]);
	make_qp(cqs[1], cqs[1]);
	assert_int_equal(rows_of(1), 1);
	end_last_qp();
	assert_int_equal(rows_of(1), 0);
	assert_int_equal(rows_of(0), VB_QP_ROWS);
	assert_int_equal(atomic_load(&cqs[1]->lanes), 0);
	/* The CQ is free to get another lane. */
	make_qp(cqs[2], cqs[2]);
	assert_int_equal(lane_of(make_qp(cqs[1], cqs[1])), 2);
}

/* No row is left without QPs: the QP goes to the first lane, and its number says so. */
static void without_a_free_row_there_is_no_further_lane(void **state)
{
	for (unsigned i = 0; i < VB_QP_ROWS; i++)
		atomic_store(&rig.nic->row_lanes[i], i % 2 ? 2 : 0);
	for (unsigned i = 0; i < VB_QP_ROWS; i++)
		rig.nic->slots[0].rows[i].free_head++;
	make_qp(cqs[0], cqs[0]);
	rig.nic->lane_uses[2].qps = 9;
	assert_int_equal(lane_of(make_qp(cqs[1], cqs[1])), 0);
	assert_int_equal(atomic_load(&cqs[1]->lanes), 1);
	rig.nic->lane_uses[2].qps = 0;
	for (unsigned i = 0; i < VB_QP_ROWS; i++) {
		rig.nic->slots[0].rows[i].free_head--;
		atomic_store(&rig.nic->row_lanes[i], 0);
	}
}

static void a_lane_that_cannot_be_opened_is_merged_with_the_first(void **state)
{
	struct vb_qp *first = make_qp(cqs[0], cqs[0]), *other = make_qp(cqs[1], cqs[1]);

	pthread_mutex_lock(&rig.nic->lock);
	vb_lane_merge(rig.nic, 1);
	pthread_mutex_unlock(&rig.nic->lock);
	assert_int_equal(lane_of(first), 0);
	assert_int_equal(lane_of(other), 0);
	assert_int_equal(atomic_load(&cqs[1]->lanes), 1);
	assert_int_equal(lane_of(make_qp(cqs[1], cqs[1])), 0);
}

static void a_number_of_the_first_lane_is_not_used_again_soon(void **state)
{
	static bool used[VB_QP_PER_SLOT];

	for (unsigned i = 0; i < VB_QP_PER_SLOT - VB_QP_PER_ROW; i++) {
		const uint32_t index = make_qp(cqs[0], cqs[0])->ibv.qp_num % VB_QP_PER_SLOT;

		assert_false(used[index]);
		used[index] = true;
		end_last_qp();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_lane_follows_the_cq_that_receives, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			beyond_the_limit_the_lane_with_the_fewest_qps_is_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(one_lane_is_all_if_no_more_are_allowed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_lane_takes_another_row_when_one_is_used_up, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_rows_come_back_with_the_last_qp, setup,
						teardown),
		cmocka_unit_test_setup_teardown(without_a_free_row_there_is_no_further_lane, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			a_lane_that_cannot_be_opened_is_merged_with_the_first, setup, teardown),
		cmocka_unit_test_setup_teardown(a_number_of_the_first_lane_is_not_used_again_soon,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
