/* SPDX-License-Identifier: BSD-2-Clause */
/* What rules do to the work requests of a program: fail, drop, delay. */
#include <errno.h>
#include <poll.h>

#include "ruled.h"

/* --- fail --- */

static int third_write_fails(const void *arg)
{
	starts("fail wr opcode=write nth=3 status=rem_access_err", IBV_QPT_RC);
	for (unsigned i = 0; i < 5; i++)
		child_check(duet_post(duet, IBV_WR_RDMA_WRITE, i) == 0);
	sent(0, SUCCESS);
	sent(1, SUCCESS);
	sent(2, REM_ACCESS_ERR);
	sent(3, WR_FLUSH_ERR);
	sent(4, WR_FLUSH_ERR);
	child_check(duet_state(duet->a) == IBV_QPS_ERR);
	child_check(duet_state(duet->b) == IBV_QPS_RTS);
	child_check(duet_arrived(duet, 0) && duet_arrived(duet, 1) && !duet_arrived(duet, 2));
	return 0;
}

static void a_work_request_fails_with_the_status_asked_for(void **state)
{
	assert_child_passes(third_write_fails, NULL);
}

struct wanted {
	const char *name;
	enum ibv_wc_status status;
	enum ibv_qp_type type;
};

/* Before it all is well, behind it all is flushed; the peer notices nothing. */
static int fails_with(const void *arg)
{
	const struct wanted *wanted = arg;
	const bool whole = wanted->type == IBV_QPT_RC;
	char rule[128];

	snprintf(rule, sizeof(rule), "fail wr nth=2 status=%s", wanted->name);
	starts(rule, wanted->type);
	child_check(duet_recv(duet, 0) == 0);
	child_check(duet_post_list(duet, IBV_WR_SEND, 0, 2) == 0);
	sent(0, SUCCESS);
	child_check(duet_expect(duet->send_cq, 1, wanted->status));
	sent(2, WR_FLUSH_ERR);
	child_check(duet_state(duet->a) == (whole ? IBV_QPS_ERR : IBV_QPS_SQE));
	got(0, SUCCESS);
	child_check(duet_state(duet->b) == IBV_QPS_RTS);
	return 0;
}

/* clang-format off */
#define STATUS(name) { #name, IBV_WC_##name, IBV_QPT_RC }
/* clang-format on */

static void every_status_can_be_had_and_stops_the_queue(void **state)
{
	static const struct wanted all[] = {
		STATUS(LOC_LEN_ERR),        STATUS(LOC_QP_OP_ERR),
		STATUS(LOC_EEC_OP_ERR),     STATUS(LOC_PROT_ERR),
		STATUS(WR_FLUSH_ERR),       STATUS(MW_BIND_ERR),
		STATUS(BAD_RESP_ERR),       STATUS(LOC_ACCESS_ERR),
		STATUS(REM_INV_REQ_ERR),    STATUS(REM_ACCESS_ERR),
		STATUS(REM_OP_ERR),         STATUS(RETRY_EXC_ERR),
		STATUS(RNR_RETRY_EXC_ERR),  STATUS(LOC_RDD_VIOL_ERR),
		STATUS(REM_INV_RD_REQ_ERR), STATUS(REM_ABORT_ERR),
		STATUS(INV_EECN_ERR),       STATUS(INV_EEC_STATE_ERR),
		STATUS(FATAL_ERR),          STATUS(RESP_TIMEOUT_ERR),
		STATUS(GENERAL_ERR),        STATUS(TM_ERR),
		STATUS(TM_RNDV_INCOMPLETE),
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct wanted unreliable = all[i];

		assert_child_passes(fails_with, &all[i]);
		unreliable.type = i % 2 ? IBV_QPT_UC : IBV_QPT_UD;
		assert_child_passes(fails_with, &unreliable);
	}
}

/* A list goes through one system call otherwise. */
static int one_of_a_list_fails(const void *arg)
{
	starts("fail wr opcode=write nth=5 status=retry_exc_err", IBV_QPT_RC);
	child_check(duet_post_list(duet, IBV_WR_RDMA_WRITE, 0, 7) == 0);
	for (unsigned i = 0; i < 8; i++)
		child_check(duet_expect(duet->send_cq, i,
					i < 4    ? IBV_WC_SUCCESS
					: i == 4 ? IBV_WC_RETRY_EXC_ERR
						 : IBV_WC_WR_FLUSH_ERR));
	child_check(duet_arrived(duet, 3) && !duet_arrived(duet, 4) && !duet_arrived(duet, 5));
	return 0;
}

static void rules_see_each_work_request_of_a_list(void **state)
{
	assert_child_passes(one_of_a_list_fails, NULL);
}

static int unreliable_send_fails(const void *type)
{
	starts("fail wr nth=2 status=loc_qp_op_err", *(const enum ibv_qp_type *)type);
	child_check(duet_recv(duet, 0) == 0);
	child_check(duet_post_list(duet, IBV_WR_SEND, 0, 2) == 0);
	sent(0, SUCCESS);
	sent(1, LOC_QP_OP_ERR);
	sent(2, WR_FLUSH_ERR);
	child_check(duet_state(duet->a) == IBV_QPS_SQE);
	got(0, SUCCESS);
	return 0;
}

static void on_uc_and_ud_only_the_send_queue_fails(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD };

	assert_child_passes(unreliable_send_fails, &types[0]);
	assert_child_passes(unreliable_send_fails, &types[1]);
}

static int explains(const void *arg)
{
	setenv("VERBENA_EXPLAIN", "1", 1);
	starts("delay wr by=1us qp=1; fail wr status=rem_op_err", IBV_QPT_RC);
	child_check(duet_post(duet, IBV_WR_RDMA_WRITE, 0) == 0);
	sent(0, REM_OP_ERR);
	return 0;
}

static void a_fault_says_that_it_is_one(void **state)
{
	char said[4096];

	assert_int_equal(child_run(explains, NULL, said, sizeof(said)), 0);
	assert_non_null(strstr(said, "RDMA_WRITE wr_id 0: fault rule 2 makes it fail\n"));
	assert_non_null(strstr(said, "fault rule 2 \"fail wr status=rem_op_err\" applies to its "
				     "work request number 1\n"));
}

/* --- drop --- */

static int lost_once(const void *arg)
{
	double start_ms;

	starts("drop wr nth=2", IBV_QPT_RC);
	for (unsigned i = 0; i < 3; i++)
		child_check(duet_recv(duet, i) == 0);
	start_ms = duet_now_ms();
	child_check(duet_post_list(duet, IBV_WR_SEND, 0, 2) == 0);
	for (unsigned i = 0; i < 3; i++) {
		sent(i, SUCCESS);
		got(i, SUCCESS);
		child_check(duet_arrived(duet, i));
		child_check(i < 1 || duet_now_ms() - start_ms >= 0.2);
	}
	return 0;
}

static void a_reliable_message_that_is_lost_is_repeated(void **state)
{
	assert_child_passes(lost_once, NULL);
}

static int lost_for_good(const void *arg)
{
	double start_ms;

	starts("drop wr opcode=read,atomic", IBV_QPT_RC);
	start_ms = duet_now_ms();
	child_check(duet_post(duet, IBV_WR_RDMA_WRITE, 0) == 0);
	child_check(duet_post(duet, IBV_WR_RDMA_READ, 1) == 0);
	sent(0, SUCCESS);
	sent(1, RETRY_EXC_ERR);
	child_check(duet_now_ms() - start_ms >=
		    (DUET_RETRIES + 1) * 4.096e-3 * (1 << DUET_TIMEOUT));
	child_check(duet_state(duet->a) == IBV_QPS_ERR);
	return 0;
}

static void one_that_is_lost_each_time_uses_up_its_retries(void **state)
{
	assert_child_passes(lost_for_good, NULL);
}

/* Begun is begun: SQD waits for it. */
static int held_while_draining(const void *held_by)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };
	struct ibv_qp_init_attr init;

	starts(held_by, IBV_QPT_RC);
	child_check(duet_post(duet, IBV_WR_RDMA_WRITE, 0) == 0);
	child_check(ibv_modify_qp(duet->a, &attr, IBV_QP_STATE) == 0);
	sent(0, SUCCESS);
	child_check(duet_arrived(duet, 0));
	child_check(ibv_query_qp(duet->a, &attr, IBV_QP_STATE, &init) == 0);
	child_check(attr.qp_state == IBV_QPS_SQD && !attr.sq_draining);
	return 0;
}

static void what_was_lost_or_is_late_is_finished_while_the_queue_drains(void **state)
{
	assert_child_passes(held_while_draining, "drop wr times=3");
	assert_child_passes(held_while_draining, "delay wr by=5ms");
}

static int lost_loudly(const void *arg)
{
	setenv("VERBENA_EXPLAIN", "1", 1);
	starts("drop wr", IBV_QPT_RC);
	child_check(duet_post_list(duet, IBV_WR_RDMA_WRITE, 0, 1) == 0);
	sent(0, RETRY_EXC_ERR);
	sent(1, WR_FLUSH_ERR);
	child_check(!duet_arrived(duet, 0) && !duet_arrived(duet, 1));
	return 0;
}

static void each_repetition_is_another_one_for_the_rule(void **state)
{
	char said[16384];

	assert_int_equal(child_run(lost_loudly, NULL, said, sizeof(said)), 0);
	assert_non_null(strstr(said, "applies to its work request number 3\n"));
	assert_non_null(strstr(said, "RDMA_WRITE wr_id 0: lost on its way to QP"));
	assert_null(strstr(said, "RDMA_WRITE wr_id 1: lost"));
}

static int lost_in_silence(const void *type)
{
	starts("drop wr nth=2", *(const enum ibv_qp_type *)type);
	for (unsigned i = 0; i < 3; i++)
		child_check(duet_recv(duet, i) == 0);
	child_check(duet_post_list(duet, IBV_WR_SEND, 10, 12) == 0);
	for (unsigned i = 10; i < 13; i++)
		sent(i, SUCCESS);
	got(0, SUCCESS);
	got(1, SUCCESS);
	nothing(duet->recv_cq);
	child_check(duet->to[0][duet->type == IBV_QPT_UD ? 40 : 0] == 11);
	child_check(duet->to[1][duet->type == IBV_QPT_UD ? 40 : 0] == 13);
	child_check(duet_state(duet->a) == IBV_QPS_RTS);
	return 0;
}

static void an_unreliable_message_that_is_lost_is_gone(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD };

	assert_child_passes(lost_in_silence, &types[0]);
	assert_child_passes(lost_in_silence, &types[1]);
}

/* --- delay --- */

static int late(const void *arg)
{
	double start_ms;

	starts("delay wr by=30ms nth=2", IBV_QPT_RC);
	start_ms = duet_now_ms();
	child_check(duet_post_list(duet, IBV_WR_RDMA_WRITE, 0, 2) == 0);
	sent(0, SUCCESS);
	sent(1, SUCCESS);
	child_check(duet_now_ms() - start_ms >= 30);
	sent(2, SUCCESS);
	child_check(duet_arrived(duet, 1) && duet_arrived(duet, 2));
	return 0;
}

static void a_delayed_work_request_holds_up_those_behind_it(void **state)
{
	assert_child_passes(late, NULL);
}

/* Nobody polls: the library's own thread has to get up in time. */
static int late_without_poller(const void *arg)
{
	double end_ms;

	starts("delay wr by=20ms", IBV_QPT_RC);
	end_ms = duet_now_ms() + DUET_DEADLINE_MS;
	child_check(duet_post(duet, IBV_WR_RDMA_WRITE, 5) == 0);
	child_check(!duet_arrived(duet, 5));
	while (!duet_arrived(duet, 5))
		child_check(poll(NULL, 0, 1) == 0 && duet_now_ms() < end_ms);
	sent(5, SUCCESS);
	return 0;
}

static void a_delay_ends_without_a_poller(void **state)
{
	assert_child_passes(late_without_poller, NULL);
}

static int flushed_while_late(const void *arg)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	starts("delay wr by=1000s nth=1; drop wr nth=2..", IBV_QPT_RC);
	child_check(duet_post(duet, IBV_WR_RDMA_WRITE, 0) == 0);
	child_check(ibv_modify_qp(duet->a, &attr, IBV_QP_STATE) == 0);
	sent(0, WR_FLUSH_ERR);
	return 0;
}

static void a_delayed_work_request_is_flushed_at_once(void **state)
{
	assert_child_passes(flushed_while_late, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_work_request_fails_with_the_status_asked_for),
		cmocka_unit_test(every_status_can_be_had_and_stops_the_queue),
		cmocka_unit_test(rules_see_each_work_request_of_a_list),
		cmocka_unit_test(on_uc_and_ud_only_the_send_queue_fails),
		cmocka_unit_test(a_fault_says_that_it_is_one),
		cmocka_unit_test(a_reliable_message_that_is_lost_is_repeated),
		cmocka_unit_test(one_that_is_lost_each_time_uses_up_its_retries),
		cmocka_unit_test(what_was_lost_or_is_late_is_finished_while_the_queue_drains),
		cmocka_unit_test(each_repetition_is_another_one_for_the_rule),
		cmocka_unit_test(an_unreliable_message_that_is_lost_is_gone),
		cmocka_unit_test(a_delayed_work_request_holds_up_those_behind_it),
		cmocka_unit_test(a_delay_ends_without_a_poller),
		cmocka_unit_test(a_delayed_work_request_is_flushed_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
