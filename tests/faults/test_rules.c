/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules about the device, how they are counted and told of, and which are none. */
#include <errno.h>
#include <poll.h>

#include "ruled.h"

/* --- the device --- */

static int device_fails(const void *arg)
{
	struct ibv_async_event event;
	struct pollfd fd = { .events = POLLIN };

	starts("fatal device after=2", IBV_QPT_RC);
	for (unsigned i = 0; i < 4; i++)
		child_check(duet_recv(duet, i) == 0);
	/* Over the wire, what has no answer yet is flushed as well. */
	child_check(duet_post_list(duet, IBV_WR_SEND, 0, 1) == 0);
	sent(0, SUCCESS);
	sent(1, SUCCESS);
	child_check(duet_post_list(duet, IBV_WR_SEND, 2, 3) == 0);
	sent(2, WR_FLUSH_ERR);
	sent(3, WR_FLUSH_ERR);
	fd.fd = duet->context->async_fd;
	child_check(poll(&fd, 1, DUET_DEADLINE_MS) == 1);
	child_check(ibv_get_async_event(duet->context, &event) == 0);
	child_check(event.event_type == IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
	child_check(poll(&fd, 1, 0) == 0);
	got(0, SUCCESS);
	got(1, SUCCESS);
	got(2, WR_FLUSH_ERR);
	got(3, WR_FLUSH_ERR);
	child_check(duet_await_state(duet->a, IBV_QPS_ERR));
	child_check(duet_await_state(duet->b, IBV_QPS_ERR));
	return 0;
}

static void a_fatal_device_ends_every_queue_pair_with_one_event(void **state)
{
	assert_child_passes(device_fails, NULL);
}

static int device_fails_and_explains(const void *path)
{
	setenv("VERBENA_EXPLAIN", "1", 1);
	setenv("VERBENA_PATH", path, 1);
	starts("fatal device after=1", IBV_QPT_RC);
	child_check(duet_post_list(duet, IBV_WR_RDMA_WRITE, 0, 1) == 0);
	child_check(duet_await_state(duet->a, IBV_QPS_ERR));
	child_check(duet_await_state(duet->b, IBV_QPS_ERR));
	return 0;
}

static void a_fatal_device_says_that_a_rule_made_it_so(void **state)
{
	static const char *const paths[] = { "", "sim" };
	char said[4096];

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		const char *line = said;

		assert_int_equal(child_run(device_fails_and_explains, paths[i], said, sizeof(said)),
				 0);
		for (int qps = 0; qps < 2; qps++) {
			line = strstr(line, "has failed with its device: a fault rule\n");
			assert_non_null(line);
			line++;
		}
		assert_null(strstr(said, "refused a request"));
	}
}

/* --- silence --- */

static int waits_for_an_answer(const void *arg)
{
	setenv("VERBENA_EXPLAIN", "1", 1);
	setenv("VERBENA_PATH", "sim", 1);
	starts("drop packet", IBV_QPT_RC);
	child_check(duet_post(duet, IBV_WR_RDMA_WRITE, 0) == 0);
	sent(0, RETRY_EXC_ERR);
	return 0;
}

/* Longer than (retry_cnt + 1) * timeout, which is less than 10 ms. */
static void a_peer_without_an_answer_is_told_of_with_the_time_that_was_waited(void **state)
{
	char said[8192];

	assert_int_equal(child_run(waits_for_an_answer, NULL, said, sizeof(said)), 0);
	assert_non_null(strstr(said, " in 200 ms: "));
}

/* --- counting --- */

enum { DATAGRAMS = 20 };

struct counted {
	const char *path, *rules;
	uint32_t rate_kbps; /* 0: as they come */
	unsigned applied;
};

static int sends_datagrams(const void *arg)
{
	const struct counted *counted = arg;
	struct ibv_qp_rate_limit_attr rate = { counted->rate_kbps, DUET_SLOT_BYTES,
					       DUET_SLOT_BYTES };

	setenv("VERBENA_EXPLAIN", "1", 1);
	setenv("VERBENA_PATH", counted->path, 1);
	starts(counted->rules, IBV_QPT_UD);
	child_check(!counted->rate_kbps || ibv_modify_qp_rate_limit(duet->a, &rate) == 0);
	for (unsigned i = 0; i < DATAGRAMS; i++)
		child_check(duet_recv(duet, i) == 0);
	child_check(duet_post_list(duet, IBV_WR_SEND, 0, DATAGRAMS - 1) == 0);
	for (unsigned i = 0; i < DATAGRAMS; i++)
		sent(i, SUCCESS);
	for (unsigned i = 0; i < DATAGRAMS; i++)
		got(i, SUCCESS);
	return 0;
}

static unsigned occurrences(const char *text, const char *of)
{
	unsigned count = 0;

	while ((text = strstr(text, of))) {
		text += strlen(of);
		count++;
	}
	return count;
}

/* Packets that go through memory: UDP may lose some. */
static void each_datagram_is_counted_once_and_on_its_path(void **state)
{
	static const struct counted rows[] = {
		{ "auto", "delay wr by=1ns", 0, DATAGRAMS },
		{ "sim", "delay wr by=1ns", 0, DATAGRAMS },
		{ "slot", "delay wr by=1ns", 0, DATAGRAMS },
		{ "auto", "delay wr path=local by=1ns", 0, DATAGRAMS },
		{ "sim", "delay wr path=local by=1ns", 0, 0 },
		{ "auto", "delay wr path=wire by=1ns", 0, 0 },
		{ "sim", "delay wr path=wire by=1ns", 0, DATAGRAMS },
		{ "slot", "delay wr path=wire by=1ns", 0, DATAGRAMS },
		/* They wait for their turn, and are tried again. */
		{ "sim", "delay wr by=1ns", 4000, DATAGRAMS },
		{ "sim", "delay wr by=1ns after=10", 4000, DATAGRAMS - 10 },
	};
	char said[16384];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (child_run(sends_datagrams, &rows[i], said, sizeof(said)))
			fail_msg("%s, \"%s\"", rows[i].path, rows[i].rules);
		assert_int_equal(occurrences(said, "fault rule 1"), rows[i].applied);
	}
}

static int too_many_late(const void *arg)
{
	setenv("VERBENA_EXPLAIN", "1", 1);
	setenv("VERBENA_PATH", "wire", 1);
	starts("delay packet by=1000s", IBV_QPT_UD);
	for (unsigned round = 0; round <= 65536 / DUET_SLOTS; round++) {
		child_check(duet_post_list(duet, IBV_WR_SEND, 0, DUET_SLOTS - 1) == 0);
		for (unsigned i = 0; i < DUET_SLOTS; i++)
			sent(i, SUCCESS);
	}
	return 0;
}

static void more_packets_than_can_be_late_are_lost_and_that_is_said(void **state)
{
	enum { SIZE = 32 << 20 };
	char *said = malloc(SIZE);

	assert_int_equal(child_run(too_many_late, NULL, said, SIZE), 0);
	assert_int_equal(occurrences(said, "hold back more than 65536 packets that go out, or more "
					   "than 256 MiB: further packets are lost\n"),
			 1);
	free(said);
}

/* A delay is for one work request, not for what a later connection posts. */
static int reset_while_late(const void *arg)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	starts("delay wr by=1000s nth=1; fail wr nth=2 status=rem_op_err", IBV_QPT_UD);
	child_check(duet_recv(duet, 0) == 0);
	child_check(duet_post(duet, IBV_WR_SEND, 0) == 0);
	child_check(ibv_modify_qp(duet->a, &attr, IBV_QP_STATE) == 0);
	child_check(duet_renew(duet, duet->a, duet->b->qp_num) == 0);
	child_check(duet_post(duet, IBV_WR_SEND, 1) == 0);
	sent(1, REM_OP_ERR);
	return 0;
}

static void a_reset_forgets_what_was_delayed(void **state)
{
	assert_child_passes(reset_while_late, NULL);
}

/* --- the rules themselves --- */

static int cannot_open(const void *arg)
{
	child_check(!start("drop wr nth=x", IBV_QPT_RC));
	child_check(errno == EINVAL);
	return 0;
}

static void a_bad_rule_keeps_the_device_closed_and_says_why(void **state)
{
	char said[1024];

	assert_int_equal(child_run(cannot_open, NULL, said, sizeof(said)), 0);
	assert_non_null(strstr(said, "]: VERBENA_FAULTS: \"drop wr nth=x\": \"nth=x\" is neither a "
				     "number from 1 nor a range"));
}

static int other_queue_pair(const void *arg)
{
	const char *path = getenv("VERBENA_PATH");
	bool packets = path && *path && strcmp(path, "auto") != 0;

	starts(packets ? "fail wr qp=0xfffffe status=rem_op_err; drop packet qp=0xfffffe"
		       : "fail wr qp=0xfffffe status=rem_op_err; drop packet",
	       IBV_QPT_RC);
	for (unsigned i = 0; i < 4; i++)
		child_check(duet_recv(duet, i) == 0);
	child_check(duet_post_list(duet, IBV_WR_SEND, 0, 3) == 0);
	for (unsigned i = 0; i < 4; i++) {
		sent(i, SUCCESS);
		got(i, SUCCESS);
	}
	return 0;
}

static void who_is_not_meant_is_not_touched(void **state)
{
	assert_child_passes(other_queue_pair, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fatal_device_ends_every_queue_pair_with_one_event),
		cmocka_unit_test(a_fatal_device_says_that_a_rule_made_it_so),
		cmocka_unit_test(a_peer_without_an_answer_is_told_of_with_the_time_that_was_waited),
		cmocka_unit_test(each_datagram_is_counted_once_and_on_its_path),
		cmocka_unit_test(more_packets_than_can_be_late_are_lost_and_that_is_said),
		cmocka_unit_test(a_reset_forgets_what_was_delayed),
		cmocka_unit_test(a_bad_rule_keeps_the_device_closed_and_says_why),
		cmocka_unit_test(who_is_not_meant_is_not_touched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
