/* SPDX-License-Identifier: BSD-2-Clause */
/* A send queue begins to wait: whether the service thread is rung for it. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "nic/nic.h"
#include "nic/qp.h"

/* True: the doorbell was rung for a queue that wakes in a millisecond. */
static bool rings(uint64_t service_wake_ns, uint32_t tried_by)
{
	struct vb_nic *nic = vb_nic_get();
	struct vb_engine engine = { .nic = nic, .service_wake_ns = service_wake_ns };
	struct vb_cq *cq = calloc(1, sizeof(*cq));
	struct vb_qp *qp = calloc(1, sizeof(*qp));
	struct pollfd bell = { .fd = eventfd(0, EFD_NONBLOCK), .events = POLLIN };
	uint64_t count;
	bool rung;

	nic->self->doorbell = bell.fd;
	cq->nic = nic;
	vb_waiters_init(&cq->waiters);
	cq->waiters.tried_by = tried_by;
	qp->nic = nic;
	qp->send_cq = cq;
	qp->pend.wake_ns = vb_now_ns() + 1000000;
	vb_engine_pend(&engine, qp);
	rung = poll(&bell, 1, 0) == 1 && read(bell.fd, &count, sizeof(count)) == sizeof(count);
	vb_waiters_remove(qp);
	vb_waiters_end(cq);
	close(bell.fd);
	free(qp);
	free(cq);
	return rung;
}

static void a_thread_that_sleeps_too_long_is_rung(void **state)
{
	(void)state;
	assert_true(rings(VB_NEVER_NS, 0));
	assert_true(rings(vb_now_ns() + 1000000000, 0));
}

static void a_thread_that_is_awake_is_not_rung(void **state)
{
	(void)state;
	assert_false(rings(0, 0));
}

static void pollers_that_try_are_trusted_while_the_thread_looks_after_them(void **state)
{
	(void)state;
	assert_false(rings(0, VB_TRIED_BY_OWN));
}

/* Their last try came after the thread's last look. A program that polls no more would hang. */
static void pollers_that_tried_once_are_not_trusted_for_ever(void **state)
{
	(void)state;
	assert_true(rings(VB_NEVER_NS, VB_TRIED_BY_OWN));
	assert_true(rings(vb_now_ns() + 1000000000, VB_TRIED_BY_OTHER));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_sleeps_too_long_is_rung),
		cmocka_unit_test(a_thread_that_is_awake_is_not_rung),
		cmocka_unit_test(pollers_that_try_are_trusted_while_the_thread_looks_after_them),
		cmocka_unit_test(pollers_that_tried_once_are_not_trusted_for_ever),
	};

	return cmocka_run_group_tests_name("engine/pending", tests, NULL, NULL);
}
