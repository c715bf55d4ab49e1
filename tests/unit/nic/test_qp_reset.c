/* SPDX-License-Identifier: BSD-2-Clause */
/* RESET: nothing of what happened to the QP before reaches it afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/reason.h"
#include "nic/qp.h"
#include "rig.h"

static struct rig rig;
static struct vb_cq *cq;
static struct vb_qp *qp;

static int setup(void **state)
{
	const struct vb_cq_spec spec = { .cqe = 16 };
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	(void)state;
	rig_open(&rig);
	assert_int_equal(vb_async_init(&rig.ctx), 0);
	assert_int_equal(vb_cq_create(&rig.ctx.verbs.context, &spec, &cq), 0);
	init.send_cq = init.recv_cq = &cq->ibv;
	assert_int_equal(vb_qp_create(rig.pd, &init, &qp), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	vb_qp_close(qp, IBV_QPS_RESET);
	vb_qp_withdraw(qp);
	assert_int_equal(vb_qp_destroy(qp), 0);
	assert_int_equal(vb_cq_destroy(cq), 0);
	vb_async_close(&rig.ctx);
	rig_close(&rig);
	return 0;
}

static void modify(enum ibv_qp_state to)
{
	const struct ibv_qp_attr attr = { .qp_state = to, .port_num = 1 };
	int mask = to == IBV_QPS_INIT ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS : 0;

	assert_int_equal(vb_qp_modify(qp, &attr, IBV_QP_STATE | mask), 0);
}

/* Whoever failed it has left a note, which nobody has read yet. */
static void a_failure_from_before_is_forgotten(void **state)
{
	(void)state;
	modify(IBV_QPS_INIT);
	vb_peer_attend_qp(rig.nic->self, qp->entry, VB_QP_ATTN_FAIL | (uint32_t)VB_WHY_RECV_KEY);
	assert_int_not_equal(atomic_load(&qp->lent->attention), 0);
	modify(IBV_QPS_RESET);
	assert_int_equal(atomic_load(&qp->lent->attention), 0);
	modify(IBV_QPS_INIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_failure_from_before_is_forgotten, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
