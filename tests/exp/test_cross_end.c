/* SPDX-License-Identifier: BSD-2-Clause */
/* Cross-channel: requests that cannot be posted, and the end of queues and of what they name. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cross.h"

/* --- what cannot be posted --- */

static void requests_that_are_refused(void **state)
{
	struct rig rig;
	struct rig_end other;
	struct master master;
	struct ibv_context *foreign;
	struct ibv_cq *cq;

	(void)state;
	rig_open(&rig, &cross_managed_send);
	other = rig.near;
	other.qp = rig_create_qp(&other, &cross_plain);
	master = master_open(&rig.near);
	/* Not a cross-channel QP, not a managed queue, not the managed queue of the QP. */
	assert_int_equal(post_wait(other.qp, rig.near.recv_cq, 1, 0, true), EINVAL);
	assert_int_equal(post_enable(master.qp, other.qp, true, 0, 0), EINVAL);
	assert_int_equal(post_enable(master.qp, rig.near.qp, false, 0, 0), EINVAL);
	/* More than were posted; the failed request has moved nothing. */
	assert_int_equal(post_send(&rig, 0, NEAR_AT, 8), 0);
	assert_int_equal(post_enable(master.qp, rig.near.qp, true, 2, 0), EINVAL);
	assert_int_equal(post_enable(master.qp, rig.near.qp, true, -1, 0), EINVAL);
	far_recv(&rig, 0, FAR_AT, 8);
	assert_int_equal(post_enable(master.qp, rig.near.qp, true, 1, ENABLE_ID), 0);
	ends(rig.near.send_cq, 0, IBV_WC_SUCCESS);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, -1, 0, true), EINVAL);
	assert_int_equal(post_wait(master.qp, NULL, 1, 0, true), EINVAL);
	foreign = ibv_open_device(rig.near.context->device);
	cq = ibv_create_cq(foreign, 4, NULL, NULL, 0);
	assert_int_equal(post_wait(master.qp, cq, 1, 0, true), EINVAL);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_close_device(foreign), 0);
	assert_int_equal(ibv_destroy_qp(other.qp), 0);
	master_close(&master);
	rig_close(&rig);
}

/* --- the end of queues --- */

static void to_state(struct ibv_qp *qp, enum ibv_qp_state next)
{
	struct ibv_qp_attr attr = { .qp_state = next };

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static void all_is_flushed_enabled_or_not(void **state)
{
	static const struct rig_opts both = { .create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL |
							      IBV_EXP_QP_CREATE_MANAGED_SEND |
							      IBV_EXP_QP_CREATE_MANAGED_RECV,
					      .near_only = true };
	struct rig rig;
	struct master master;

	(void)state;
	rig_open(&rig, &both);
	master = master_open(&rig.near);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(post_send(&rig, i, NEAR_AT, 8), 0);
		assert_int_equal(post_recv(&rig, i, NEAR_AT, 8), 0);
	}
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 100, WAIT_ID, true), 0);
	assert_int_equal(post_enable(master.qp, rig.near.qp, true, 1, ENABLE_ID), 0);
	stays_empty(master.cq);
	to_state(master.qp, IBV_QPS_ERR);
	ends(master.cq, WAIT_ID, IBV_WC_WR_FLUSH_ERR);
	ends(master.cq, ENABLE_ID, IBV_WC_WR_FLUSH_ERR);
	to_state(rig.near.qp, IBV_QPS_ERR);
	for (uint64_t i = 0; i < 3; i++) {
		ends(rig.near.send_cq, i, IBV_WC_WR_FLUSH_ERR);
		ends(rig.near.recv_cq, i, IBV_WC_WR_FLUSH_ERR);
	}
	assert_int_equal(post_send(&rig, 3, NEAR_AT, 8), 0); /* in ERR, too */
	assert_int_equal(post_recv(&rig, 3, NEAR_AT, 8), 0);
	ends(rig.near.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	ends(rig.near.recv_cq, 3, IBV_WC_WR_FLUSH_ERR);
	master_close(&master);
	rig_close(&rig);
}

static void a_reset_queue_begins_anew(void **state)
{
	struct rig rig;
	struct master master;
	struct rig_address near;

	(void)state;
	rig_open(&rig, &cross_managed_send);
	master = master_open(&rig.near);
	assert_int_equal(post_send(&rig, 0, NEAR_AT, 8), 0);
	assert_int_equal(post_send(&rig, 1, NEAR_AT, 8), 0);
	to_state(rig.near.qp, IBV_QPS_RESET);
	near = rig_address(&rig.near, rig.near.qp);
	rig_connect(&rig.near, rig.near.qp, &near); /* to itself */
	assert_int_equal(post_recv(&rig, 9, NEAR_AT + 64, 8), 0);
	assert_int_equal(post_send(&rig, 2, NEAR_AT, 8), 0);
	stays_empty(rig.near.send_cq);
	assert_int_equal(post_enable(master.qp, rig.near.qp, true, 1, ENABLE_ID), 0);
	ends(rig.near.send_cq, 2, IBV_WC_SUCCESS);
	stays_empty(rig.near.send_cq);
	master_close(&master);
	rig_close(&rig);
}

/* The request fails with its QP, as one that cannot be executed. */
static void a_wait_for_a_destroyed_cq_fails(void **state)
{
	struct rig rig;
	struct master master;
	struct ibv_cq *cq;

	(void)state;
	rig_open(&rig, &cross_plain);
	master = master_open(&rig.near);
	cq = ibv_create_cq(rig.near.context, 4, NULL, NULL, 0);
	assert_int_equal(post_wait(master.qp, cq, 1, WAIT_ID, true), 0);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 1, WAIT_ID + 1, true), 0);
	stays_empty(master.cq);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	ends(master.cq, WAIT_ID, IBV_WC_LOC_QP_OP_ERR);
	ends(master.cq, WAIT_ID + 1, IBV_WC_WR_FLUSH_ERR);
	master_close(&master);
	rig_close(&rig);
}

static void enabling_a_destroyed_qp_fails(void **state)
{
	struct rig_end other;
	struct rig rig;
	struct master master;

	(void)state;
	rig_open(&rig, &cross_plain);
	master = master_open(&rig.near);
	other = rig.near;
	other.qp = rig_create_qp(&other, &cross_managed_send);
	assert_int_equal(post_recv(&rig, 0, NEAR_AT, 8), 0);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 1, WAIT_ID, true), 0);
	assert_int_equal(post_enable(master.qp, other.qp, true, 0, ENABLE_ID), 0);
	assert_int_equal(ibv_destroy_qp(other.qp), 0);
	far_send(&rig, FAR_AT, 8);
	ends(master.cq, WAIT_ID, IBV_WC_SUCCESS);
	ends(master.cq, ENABLE_ID, IBV_WC_LOC_QP_OP_ERR);
	master_close(&master);
	rig_close(&rig);
}

/* Completions of a QP that is reset are gone, those of others stay. */
static void a_reset_takes_its_completions_along(void **state)
{
	struct rig rig;
	struct master master;
	struct ibv_wc wc;

	(void)state;
	rig_open(&rig, &cross_plain);
	master = master_open(&rig.near);
	assert_int_equal(post_recv(&rig, 0, NEAR_AT, 8), 0);
	far_send(&rig, FAR_AT, 8);
	assert_int_equal(post_wait(master.qp, rig.near.recv_cq, 1, WAIT_ID, true), 0);
	ends(master.cq, WAIT_ID, IBV_WC_SUCCESS);
	to_state(rig.near.qp, IBV_QPS_RESET);
	assert_int_equal(ibv_poll_cq(rig.near.recv_cq, 1, &wc), 0);
	master_close(&master);
	rig_close(&rig);
}

/* Requests that stay in the process, on a QP whose messages have an address each. */
static void a_datagram_qp_waits_and_enables(void **state)
{
	struct ibv_exp_qp_init_attr init = {
		.cap = { .max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };
	struct ibv_exp_send_wr nop = { .wr_id = 1,
				       .exp_opcode = IBV_EXP_WR_NOP,
				       .exp_send_flags = IBV_EXP_SEND_SIGNALED };
	struct rig rig;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	(void)state;
	rig_open(&rig, &cross_managed_send);
	cq = ibv_create_cq(rig.near.context, 16, NULL, NULL, 0);
	init.pd = rig.near.pd;
	init.send_cq = init.recv_cq = cq;
	qp = ibv_exp_create_qp(rig.near.context, &init);
	assert_non_null(qp);
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	to_state(qp, IBV_QPS_RTR);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	assert_int_equal(post_recv(&rig, 0, NEAR_AT, 8), 0);
	far_recv(&rig, 0, FAR_AT, 8);
	assert_int_equal(post_send(&rig, 2, NEAR_AT, 8), 0);
	assert_int_equal(ibv_exp_post_send(qp, &nop, NULL), 0);
	assert_int_equal(post_wait(qp, rig.near.recv_cq, 1, WAIT_ID, true), 0);
	assert_int_equal(post_enable(qp, rig.near.qp, true, 1, ENABLE_ID), 0);
	ends(cq, 1, IBV_WC_SUCCESS);
	stays_empty(cq);
	far_send(&rig, 0, 8);
	ends(cq, WAIT_ID, IBV_WC_SUCCESS);
	ends(cq, ENABLE_ID, IBV_WC_SUCCESS);
	ends(rig.near.send_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	rig_close(&rig);
}

static void the_device_says_so(void **state)
{
	struct ibv_exp_device_attr device = { .comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS };
	struct rig rig;

	(void)state;
	rig_open(&rig, NULL);
	assert_int_equal(ibv_exp_query_device(rig.near.context, &device), 0);
	assert_true(device.exp_device_cap_flags & IBV_EXP_DEVICE_CROSS_CHANNEL);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_that_are_refused),
		cmocka_unit_test(all_is_flushed_enabled_or_not),
		cmocka_unit_test(a_reset_queue_begins_anew),
		cmocka_unit_test(a_wait_for_a_destroyed_cq_fails),
		cmocka_unit_test(enabling_a_destroyed_qp_fails),
		cmocka_unit_test(a_reset_takes_its_completions_along),
		cmocka_unit_test(a_datagram_qp_waits_and_enables),
		cmocka_unit_test(the_device_says_so),
	};
	int failed;

	rig_start();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rig_stop();
	return failed;
}
