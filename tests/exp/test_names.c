/* SPDX-License-Identifier: BSD-2-Clause */
/* Experimental names of what today's verbs have as well. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

static struct ibv_exp_send_wr send_of(struct rig *rig, struct ibv_sge *sge, uint64_t wr_id)
{
	*sge = (struct ibv_sge){ (uintptr_t)rig->near.arena, 100, rig->near.mr->lkey };
	return (struct ibv_exp_send_wr){
		.wr_id = wr_id,
		.sg_list = sge,
		.num_sge = 1,
		.exp_opcode = IBV_EXP_WR_SEND,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
	};
}

static void completions_carry_times_that_the_clock_knows(void **state)
{
	const struct rig_opts stamped = { .cq_flags = IBV_EXP_CQ_TIMESTAMP };
	struct rig_receive receive = { .wr_id = 5, .addr = 64, .length = 200 };
	struct ibv_exp_values before = { 0 }, after = { 0 };
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_exp_wc wc;
	struct ibv_sge sge;
	struct rig rig;

	rig_open(&rig, &stamped);
	assert_int_equal(rig_far(&rig, rig_post_recv, &receive, sizeof(receive)), 0);
	assert_int_equal(ibv_exp_query_values(rig.near.context, IBV_EXP_VALUES_HW_CLOCK, &before),
			 0);
	wr = send_of(&rig, &sge, 3);
	assert_int_equal(ibv_exp_post_send(rig.near.qp, &wr, &bad), 0);
	wc = rig_sent(&rig, 3, IBV_WC_SUCCESS);
	assert_int_equal(wc.exp_opcode, IBV_EXP_WC_SEND);
	assert_true(wc.exp_wc_flags & IBV_EXP_WC_WITH_TIMESTAMP);
	assert_int_equal(ibv_exp_query_values(rig.near.context, IBV_EXP_VALUES_HW_CLOCK, &after),
			 0);
	assert_true(wc.timestamp >= before.hwclock && wc.timestamp <= after.hwclock);
	assert_int_equal(rig_far(&rig, rig_received, NULL, 0), 100);
	rig_close(&rig);
}

/* More than one call of ibv_poll_cq is needed for that many. */
static void a_poll_brings_many_completions_of_any_size(void **state)
{
	enum { COUNT = 40, SHORT = offsetof(struct ibv_exp_wc, timestamp) };
	uint8_t room[COUNT * SHORT];
	struct rig rig;
	int got = 0;

	rig_open(&rig, NULL);
	for (uint64_t i = 0; i < COUNT; i++) {
		struct rig_receive receive = { .wr_id = i, .addr = 4096, .length = 200 };

		rig_far(&rig, rig_post_recv, &receive, sizeof(receive));
	}
	for (uint64_t i = 0; i < COUNT; i++) {
		struct ibv_sge sge;
		struct ibv_exp_send_wr *bad, wr = send_of(&rig, &sge, i);

		assert_int_equal(ibv_exp_post_send(rig.near.qp, &wr, &bad), 0);
	}
	while (got < COUNT) {
		int more =
			ibv_exp_poll_cq(rig.near.send_cq, COUNT - got,
					(struct ibv_exp_wc *)(void *)(room + got * SHORT), SHORT);

		RIG_TRUE(more >= 0);
		got += more;
	}
	for (uint64_t i = 0; i < COUNT; i++) {
		uint64_t wr_id;

		memcpy(&wr_id, room + i * SHORT, sizeof(wr_id));
		assert_int_equal(wr_id, i);
	}
	rig_close(&rig);
}

static void tasks_post_to_several_queues(void **state)
{
	struct rig rig;
	struct ibv_sge sge, to;
	struct ibv_exp_send_wr wr;
	struct ibv_recv_wr receive = { .wr_id = 11, .sg_list = &to, .num_sge = 1 };
	struct rig_receive far = { .wr_id = 5, .addr = 64, .length = 200 };
	struct ibv_exp_task tasks[3] = { 0 }, *bad;

	rig_open(&rig, NULL);
	rig_far(&rig, rig_post_recv, &far, sizeof(far));
	to = (struct ibv_sge){ (uintptr_t)rig.near.arena + 4096, 64, rig.near.mr->lkey };
	wr = send_of(&rig, &sge, 3);
	tasks[0].task_type = IBV_EXP_TASK_RECV;
	tasks[0].item.recv_wr = &receive;
	tasks[1].item.send_wr = &wr;
	tasks[0].item.qp = tasks[1].item.qp = tasks[2].item.qp = rig.near.qp;
	tasks[0].next = &tasks[1];
	assert_int_equal(ibv_exp_post_task(rig.near.context, tasks, &bad), 0);
	rig_sent(&rig, 3, IBV_WC_SUCCESS);
	assert_int_equal(rig_far(&rig, rig_received, NULL, 0), 100);
	tasks[1].next = &tasks[2];
	tasks[2].comp_mask = 1;
	tasks[1].task_type = IBV_EXP_TASK_RECV;
	tasks[1].item.recv_wr = &receive;
	assert_int_equal(ibv_exp_post_task(rig.near.context, &tasks[1], &bad), EINVAL);
	assert_ptr_equal(bad, &tasks[2]);
	rig_close(&rig);
}

static uint64_t bind_window(struct rig_end *end, const void *unused)
{
	struct ibv_exp_mw_bind bind = {
		.qp = end->qp,
		.mw = ibv_alloc_mw(end->pd, IBV_MW_TYPE_1),
		.wr_id = 21,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
	};

	(void)unused;
	RIG_TRUE(bind.mw);
	end->extra =
		ibv_reg_mr(end->pd, end->arena, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	RIG_TRUE(end->extra);
	bind.bind_info.mr = end->extra;
	bind.bind_info.addr = (uintptr_t)end->arena + 1024;
	bind.bind_info.length = 64;
	bind.bind_info.exp_mw_access_flags = IBV_EXP_ACCESS_PHYSICAL_ADDR;
	RIG_EQ(ibv_exp_bind_mw(&bind), EOPNOTSUPP);
	bind.bind_info.exp_mw_access_flags = IBV_EXP_ACCESS_REMOTE_WRITE;
	RIG_EQ(ibv_exp_bind_mw(&bind), 0);
	RIG_EQ(rig_wait(end->send_cq).exp_opcode, IBV_EXP_WC_BIND_MW);
	*(struct ibv_mw **)(void *)(end->arena + 8192) = bind.mw;
	return bind.mw->rkey;
}

static uint64_t free_window(struct rig_end *end, const void *unused)
{
	(void)unused;
	RIG_EQ(ibv_dealloc_mw(*(struct ibv_mw **)(void *)(end->arena + 8192)), 0);
	RIG_EQ(ibv_dereg_mr(end->extra), 0);
	return 0;
}

static void a_window_opens_a_part_of_a_region(void **state)
{
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_sge sge;
	struct rig rig;

	rig_open(&rig, NULL);
	wr = send_of(&rig, &sge, 3);
	rig_fill(rig.near.arena, 64, 1);
	sge.length = 64;
	wr.exp_opcode = IBV_EXP_WR_RDMA_WRITE;
	wr.wr.rdma.rkey = (uint32_t)rig_far(&rig, bind_window, NULL, 0);
	wr.wr.rdma.remote_addr = (uintptr_t)rig.far_arena + 1024;
	assert_int_equal(ibv_exp_post_send(rig.near.qp, &wr, &bad), 0);
	rig_sent(&rig, 3, IBV_WC_SUCCESS);
	assert_memory_equal(rig.far_arena + 1024, rig.near.arena, 64);
	rig_far(&rig, free_window, NULL, 0);
	rig_close(&rig);
}

static void calls_refuse_what_the_device_does_not_have(void **state)
{
	struct ibv_exp_cq_init_attr cq = { .comp_mask = IBV_EXP_CQ_INIT_ATTR_RESERVED1 };
	struct ibv_exp_cq_attr moderation = { .moderation = { 4, 100 } };
	struct ibv_exp_reg_mr_in in = { 0 };
	struct ibv_exp_gid_attr gid = { 0 };
	struct ibv_exp_port_attr port = { .comp_mask = 2 };
	struct ibv_exp_prefetch_attr prefetch = { 0 };
	struct ibv_mr *mr;
	struct rig rig;

	rig_open(&rig, NULL);
	assert_null(ibv_exp_create_cq(rig.near.context, 4, NULL, NULL, 0, &cq));
	assert_int_equal(errno, EINVAL);
	cq = (struct ibv_exp_cq_init_attr){ .comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
					    .flags = IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME };
	assert_null(ibv_exp_create_cq(rig.near.context, 4, NULL, NULL, 0, &cq));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_exp_modify_cq(rig.near.send_cq, &moderation, IBV_EXP_CQ_MODERATION),
			 0);
	assert_int_equal(ibv_exp_modify_cq(rig.near.send_cq, &moderation, 1 << 5), EINVAL);
	in.pd = rig.near.pd;
	in.addr = rig.near.arena;
	in.length = 64;
	in.exp_access = IBV_EXP_ACCESS_ALLOCATE_MR;
	assert_null(ibv_exp_reg_mr(&in));
	assert_int_equal(errno, EOPNOTSUPP);
	if (rig.near.gid_index >= 0) {
		assert_int_equal(ibv_exp_query_gid_attr(rig.near.context, 1, 1, &gid), 0);
		assert_int_equal(gid.type, IBV_EXP_ROCE_V2_GID_TYPE);
	}
	assert_int_equal(ibv_exp_query_port(rig.near.context, 1, &port), EINVAL);
	in.length = 8192;
	in.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_ON_DEMAND;
	mr = ibv_exp_reg_mr(&in);
	assert_non_null(mr);
	prefetch.addr = rig.near.arena;
	prefetch.length = 4096;
	assert_int_equal(ibv_exp_prefetch_mr(mr, &prefetch), 0);
	prefetch.comp_mask = 1;
	assert_int_equal(ibv_exp_prefetch_mr(mr, &prefetch), EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	rig_close(&rig);
}

/* Queues without a limit, and sums in the NIC. */
static void parts_of_cross_channel_are_refused(void **state)
{
	static const uint32_t flags[] = { IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW,
					  IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW };
	struct ibv_exp_cq_attr cq_attr = { .comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS };
	struct ibv_exp_send_wr *bad = NULL, wr = { .exp_opcode = IBV_EXP_WR_SEND,
						   .exp_send_flags = IBV_EXP_SEND_WITH_CALC };
	struct rig rig;

	rig_open(&rig, NULL);
	for (int i = 0; i < 2; i++) {
		struct ibv_exp_qp_init_attr attr = {
			.send_cq = rig.near.send_cq,
			.recv_cq = rig.near.recv_cq,
			.cap = { .max_send_wr = 1, .max_send_sge = 1 },
			.qp_type = IBV_QPT_RC,
			.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
			.pd = rig.near.pd,
			.exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | flags[i],
		};

		assert_null(ibv_exp_create_qp(rig.near.context, &attr));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	assert_int_equal(ibv_exp_post_send(rig.near.qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	/* No CQ looks for overruns again. */
	assert_int_equal(ibv_exp_modify_cq(rig.near.send_cq, &cq_attr, IBV_EXP_CQ_CAP_FLAGS),
			 EOPNOTSUPP);
	cq_attr.cq_cap_flags = 1 << 5;
	assert_int_equal(ibv_exp_modify_cq(rig.near.send_cq, &cq_attr, IBV_EXP_CQ_CAP_FLAGS),
			 EINVAL);
	rig_close(&rig);
}

static void resource_domains_are_hints(void **state)
{
	struct ibv_exp_res_domain_init_attr attr = {
		.comp_mask = IBV_EXP_RES_DOMAIN_THREAD_MODEL,
		.thread_model = IBV_EXP_THREAD_SINGLE,
	};
	struct ibv_exp_cq_init_attr cq_attr = { .comp_mask = IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN };
	struct ibv_exp_res_domain *domain;
	struct ibv_cq *cq;
	struct rig rig;

	rig_open(&rig, NULL);
	domain = cq_attr.res_domain = ibv_exp_create_res_domain(rig.near.context, &attr);
	assert_non_null(domain);
	cq = ibv_exp_create_cq(rig.near.context, 4, NULL, NULL, 0, &cq_attr);
	assert_non_null(cq);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_exp_destroy_res_domain(rig.near.context, domain, NULL), 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(completions_carry_times_that_the_clock_knows),
		cmocka_unit_test(a_poll_brings_many_completions_of_any_size),
		cmocka_unit_test(tasks_post_to_several_queues),
		cmocka_unit_test(a_window_opens_a_part_of_a_region),
		cmocka_unit_test(calls_refuse_what_the_device_does_not_have),
		cmocka_unit_test(parts_of_cross_channel_are_refused),
		cmocka_unit_test(resource_domains_are_hints),
	};
	int failed;

	rig_start();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rig_stop();
	return failed;
}
