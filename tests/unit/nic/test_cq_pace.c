/* SPDX-License-Identifier: BSD-2-Clause */
/* A poller that has caught up with a stream waits a moment, and for no stream else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nic/qp.h"

enum { QUICK = 100 };

struct rig {
	struct vb_cq cq;
	struct vb_cq_shared shared;
	struct vb_cq_queue *queues[1];
	struct vb_qp qp;
};
static struct rig *rig;

static int begin(void **state)
{
	(void)state;
	rig = aligned_alloc(64, (sizeof(*rig) + 63) & ~63ul);
	if (!rig)
		return -1;
	memset(rig, 0, sizeof(*rig));
	rig->cq.shared = &rig->shared;
	rig->cq.queues = rig->queues;
	rig->cq.queue_count = 1;
	rig->cq.pace = (struct vb_pace){ .quick = QUICK, .needed = VB_PACE_NEEDED };
	rig->queues[0] = &rig->qp.receives;
	rig->qp.receives.kind = VB_CQ_RECEIVES;
	rig->qp.receives.qp = &rig->qp;
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(rig);
	return 0;
}

static void a_poller_of_a_stream_waits_and_tells_its_senders(void **state)
{
	(void)state;
	assert_true(vb_pace_wait(&rig->cq));
	vb_pace_waited(&rig->cq, true);
	assert_int_equal(rig->cq.pace.quick, QUICK);
	assert_true(atomic_load(&rig->shared.caught_up));
}

static void a_poller_whose_qp_sends_does_not_wait(void **state)
{
	(void)state;
	assert_true(vb_pace_wait(&rig->cq));
	atomic_fetch_add(&rig->qp.sq.done, 1);
	assert_false(vb_pace_wait(&rig->cq));
	assert_int_equal(rig->cq.pace.quick, 0);
	assert_false(atomic_load(&rig->shared.caught_up));
	assert_true(vb_pace_wait(&rig->cq)); /* it sent nothing since */
}

static void only_receives_of_one_sender_are_waited_for(void **state)
{
	(void)state;
	rig->qp.receives.kind = VB_CQ_ARRIVALS;
	assert_false(vb_pace_wait(&rig->cq));
	rig->qp.receives.kind = VB_CQ_RECEIVES;
	rig->cq.queue_count = 0; /* the queue was detached */
	assert_false(vb_pace_wait(&rig->cq));
}

static void waits_in_vain_become_rare(void **state)
{
	(void)state;
	for (int i = 0; i < 40; i++) {
		assert_true(vb_pace_wait(&rig->cq));
		vb_pace_waited(&rig->cq, false);
		assert_int_equal(rig->cq.pace.quick, 0);
		assert_false(atomic_load(&rig->shared.caught_up));
	}
	assert_int_equal(rig->cq.pace.needed, VB_PACE_NEEDED_MAX);
	for (int i = 0; i < 40; i++)
		vb_pace_waited(&rig->cq, true);
	assert_int_equal(rig->cq.pace.needed, VB_PACE_NEEDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_poller_of_a_stream_waits_and_tells_its_senders,
						begin, end),
		cmocka_unit_test_setup_teardown(a_poller_whose_qp_sends_does_not_wait, begin, end),
		cmocka_unit_test_setup_teardown(only_receives_of_one_sender_are_waited_for, begin,
						end),
		cmocka_unit_test_setup_teardown(waits_in_vain_become_rare, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
