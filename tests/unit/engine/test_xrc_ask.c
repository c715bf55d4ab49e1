/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening a QP of another process, whose part is played by a thread that holds a slot:
 *
 *   this process: handle ── open, modify, query ──> slot S: says what the test wants
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/attach/attach_gate.h"
#include "engine/xrc/share.h"
#include "shm/slot.h"

enum { PATIENCE_MS = 20000, INDEX = 7 }; /* each call alone may wait 10 s */

static struct vb_context ctx;
static struct vb_xrcd *xrcd;
static struct vb_xrc_handle *handle;
static int listener, connection = -1;
static uint32_t slot;

/* --- the other process --- */

struct say {
	struct vb_xrc_answer answer;
	size_t size;
};

static sem_t listening;

/*
 * The next connection that this process makes, or -1. Others of the host may look at each slot
 * meanwhile: they are sent away.
 */
static int accept_own(int patience_ms)
{
	struct pollfd poller = { .fd = listener, .events = POLLIN };
	struct ucred cred;

	while (poll(&poller, 1, patience_ms) == 1) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue; /* gone again */
		if (!vb_attach_credentials(fd, &cred) && cred.pid == getpid())
			return fd;
		close(fd);
	}
	return -1;
}

static void *answer_one(void *arg)
{
	const struct say *say = arg;
	struct vb_xrc_request request;

	sem_post(&listening);
	connection = accept_own(PATIENCE_MS);
	assert_true(connection >= 0);
	assert_int_equal(recv(connection, &request, sizeof(request), 0), sizeof(request));
	assert_int_equal(request.magic, VB_XRC_SHARE_MAGIC);
	assert_int_equal(send(connection, &say->answer, say->size, MSG_NOSIGNAL), say->size);
	return NULL;
}

/* A machine with much to do starts a new thread after seconds, and a call waits for ten. */
static int open_told(const struct say *say)
{
	pthread_t thread;
	int err;

	assert_int_equal(pthread_create(&thread, NULL, answer_one, (void *)say), 0);
	assert_int_equal(sem_wait(&listening), 0);
	err = vb_xrc_ask_open(handle);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return err;
}

static void hang_up(void)
{
	close(connection);
	connection = -1;
}

/* --- this one --- */

static int set_up(void **state)
{
	struct vb_slot_claim claim;

	assert_non_null(vb_nic_get());
	assert_int_equal(vb_async_init(&ctx), 0);
	assert_int_equal(fcntl(ctx.verbs.context.async_fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(vb_xrcd_open(&ctx.verbs.context, -1, O_CREAT, &xrcd), 0);
	assert_int_equal(vb_slot_claim(&claim, false), 0);
	listener = claim.listener;
	slot = claim.slot;
	handle = vb_xrc_handle_make(xrcd, NULL, slot << VB_QP_INDEX_BITS | INDEX);
	assert_non_null(handle);
	return 0;
}

static int tear_down(void **state)
{
	if (handle->session >= 0)
		vb_xrc_ask_close(handle);
	vb_xrc_handle_free(handle);
	if (connection >= 0)
		hang_up();
	close(listener);
	assert_int_equal(vb_xrcd_close(xrcd), 0);
	vb_async_close(&ctx);
	vb_async_free(&ctx);
	return 0;
}

static struct ibv_async_event event_next(void)
{
	uint64_t end_ns = vb_now_ns() + PATIENCE_MS * 1000000ull;
	struct ibv_async_event event;
	int err;

	while ((err = vb_async_take(&ctx.verbs.context, &event)) == -EAGAIN && vb_now_ns() < end_ns)
		usleep(100);
	assert_int_equal(err, 0);
	handle->qp.ibv.events_completed++;
	return event;
}

static void what_is_refused_there_is_refused_here(void **state)
{
	const struct say say = { { .error = EPERM }, sizeof(say.answer) };

	assert_int_equal(open_told(&say), -EPERM);
	assert_int_equal(handle->session, -1);
}

/* Not a question that is never answered. */
static void a_process_of_another_user_is_not_waited_for(void **state)
{
	struct vb_xrc_answer answer;
	uint64_t begin_ns = vb_now_ns();
	int status;
	pid_t child;

	if (geteuid()) {
		print_message("# SKIPPED: only root can be other users\n");
		skip();
	}
	child = fork();
	if (!child)
		_exit(setuid(64321) ||
		      vb_xrc_ask(handle, VB_XRC_ASK_QUERY, NULL, 0, &answer) != -EPERM);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(vb_now_ns() - begin_ns < PATIENCE_MS * 1000000ull);
}

/* Neither is taken for a descriptor, an error or a state. */
static void an_answer_that_cannot_be_is_refused(void **state)
{
	static const struct say says[] = {
		{ { .error = -1 }, sizeof(struct vb_xrc_answer) },
		{ { .error = INT32_MIN }, sizeof(struct vb_xrc_answer) },
		{ { .error = 1 << 20 }, sizeof(struct vb_xrc_answer) },
		{ { .state = 77 }, sizeof(struct vb_xrc_answer) },
		{ { .state = IBV_QPS_RTR }, sizeof(struct vb_xrc_answer) - 1 },
	};

	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
		assert_int_equal(open_told(&says[i]), -EINVAL);
		assert_int_equal(handle->session, -1);
		hang_up();
	}
}

static void events_of_the_qp_are_raised(void **state)
{
	const struct say say = { { .state = IBV_QPS_RTR }, sizeof(say.answer) };
	const struct vb_xrc_event event = { .type = IBV_EVENT_QP_LAST_WQE_REACHED };
	struct ibv_async_event raised;

	assert_int_equal(open_told(&say), 0);
	assert_int_equal(handle->qp.ibv.state, IBV_QPS_RTR);
	assert_int_equal(send(connection, &event, sizeof(event), 0), sizeof(event));
	raised = event_next();
	assert_int_equal(raised.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(raised.element.qp, &handle->qp.ibv);
}

/* Acknowledging it would treat the handle as a CQ. */
static void an_event_that_is_none_of_a_qp_ends_the_connection(void **state)
{
	const struct say say = { { .state = IBV_QPS_RTR }, sizeof(say.answer) };
	const struct vb_xrc_event event = { .type = IBV_EVENT_CQ_ERR };

	assert_int_equal(open_told(&say), 0);
	assert_int_equal(send(connection, &event, sizeof(event), 0), sizeof(event));
	assert_int_equal(event_next().event_type, IBV_EVENT_QP_FATAL);
	assert_int_equal(handle->qp.ibv.state, IBV_QPS_ERR);
}

/* Whoever has its slot now, and a QP of that number, is not asked. */
static void nobody_else_is_taken_for_a_process_that_ended(void **state)
{
	const struct say say = { { .state = IBV_QPS_RTR }, sizeof(say.answer) };
	const struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct vb_xrc_answer answer;

	assert_int_equal(open_told(&say), 0);
	hang_up();
	assert_int_equal(event_next().event_type, IBV_EVENT_QP_FATAL);
	assert_int_equal(vb_xrc_ask(handle, VB_XRC_ASK_MODIFY, &attr, IBV_QP_STATE, &answer),
			 -EINVAL);
	assert_int_equal(accept_own(0), -1);
}

/* A process that is stopped listens, and does not answer. */
static void calls_together_wait_once_for_one_that_is_silent(void **state)
{
	const struct say say = { { .state = IBV_QPS_RTR }, sizeof(say.answer) };
	struct vb_xrc_answer answer;
	uint64_t began;

	assert_int_equal(open_told(&say), 0);
	assert_int_equal(vb_xrc_ask(handle, VB_XRC_ASK_QUERY, NULL, 0, &answer), -ETIMEDOUT);
	began = vb_now_ns();
	for (int i = 0; i < 5; i++)
		assert_int_equal(vb_xrc_ask(handle, VB_XRC_ASK_QUERY, NULL, 0, &answer),
				 -ETIMEDOUT);
	assert_in_range(vb_now_ns() - began, 0, PATIENCE_MS * 1000000ull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_refused_there_is_refused_here, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_process_of_another_user_is_not_waited_for, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(an_answer_that_cannot_be_is_refused, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(events_of_the_qp_are_raised, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_event_that_is_none_of_a_qp_ends_the_connection,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_else_is_taken_for_a_process_that_ended,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(calls_together_wait_once_for_one_that_is_silent,
						set_up, tear_down),
	};

	sem_init(&listening, 0, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
