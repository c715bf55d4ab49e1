/* SPDX-License-Identifier: BSD-2-Clause */
#include "cross.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

enum { QUIET_NS = 20000000 };

const struct rig_opts cross_plain = { .cq_flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL };
const struct rig_opts cross_managed_send = {
	.create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND,
	.near_only = true,
};
const struct rig_opts cross_managed_recv = {
	.create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_RECV,
	.near_only = true,
};

struct master master_open(struct rig_end *end)
{
	static const struct rig_opts cross = { .create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL };
	struct rig_end other = *end;
	struct rig_address self;
	struct master master;

	other.send_cq = other.recv_cq = master.cq = ibv_create_cq(end->context, 512, NULL, NULL, 0);
	assert_non_null(master.cq);
	master.qp = rig_create_qp(&other, &cross);
	self = rig_address(end, master.qp);
	rig_connect(end, master.qp, &self);
	return master;
}

void master_close(struct master *master)
{
	assert_int_equal(ibv_destroy_qp(master->qp), 0);
	assert_int_equal(ibv_destroy_cq(master->cq), 0);
}

int post_wait(struct ibv_qp *qp, struct ibv_cq *cq, int count, uint64_t wr_id, bool last)
{
	struct ibv_exp_send_wr wr = {
		.wr_id = wr_id,
		.exp_opcode = IBV_EXP_WR_CQE_WAIT,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED | (last ? IBV_EXP_SEND_WAIT_EN_LAST : 0),
	};

	wr.task.cqe_wait.cq = cq;
	wr.task.cqe_wait.cq_count = count;
	return ibv_exp_post_send(qp, &wr, NULL);
}

int post_enable(struct ibv_qp *qp, struct ibv_qp *target, bool sends, int count, uint64_t wr_id)
{
	struct ibv_exp_send_wr wr = {
		.wr_id = wr_id,
		.exp_opcode = sends ? IBV_EXP_WR_SEND_ENABLE : IBV_EXP_WR_RECV_ENABLE,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_WAIT_EN_LAST,
	};

	wr.task.wqe_enable.qp = target;
	wr.task.wqe_enable.wqe_count = count;
	return ibv_exp_post_send(qp, &wr, NULL);
}

void ends(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_exp_wc wc = rig_wait(cq);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

void stays_empty(struct ibv_cq *cq)
{
	struct timespec now, end;
	struct ibv_wc wc;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += QUIET_NS;
	do {
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec == end.tv_sec ? now.tv_nsec < end.tv_nsec : now.tv_sec < end.tv_sec);
}

/* --- messages --- */

int post_send(struct rig *rig, uint64_t wr_id, uint32_t at, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)rig->near.arena + at, length, rig->near.mr->lkey };
	struct ibv_exp_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.exp_opcode = IBV_EXP_WR_SEND,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
	};

	return ibv_exp_post_send(rig->near.qp, &wr, NULL);
}

int post_recv(struct rig *rig, uint64_t wr_id, uint32_t at, uint32_t length)
{
	struct rig_receive receive = { .wr_id = wr_id, .addr = at, .length = length };

	return (int)rig_post_recv(&rig->near, &receive);
}

void far_recv(struct rig *rig, uint64_t wr_id, uint32_t at, uint32_t length)
{
	struct rig_receive receive = { .wr_id = wr_id, .addr = at, .length = length };

	assert_int_equal(rig_far(rig, rig_post_recv, &receive, sizeof(receive)), 0);
}

uint64_t far_send_now(struct rig_end *end, const void *argument)
{
	const struct far_message *message = argument;
	struct ibv_sge sge = { (uintptr_t)end->arena + message->at, message->length,
			       end->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = 7,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };

	RIG_EQ(ibv_post_send(end->qp, &wr, &bad), 0);
	if (message->waits)
		RIG_EQ(rig_wait(end->send_cq).status, IBV_WC_SUCCESS);
	return 0;
}

void far_send(struct rig *rig, uint32_t at, uint32_t length)
{
	const struct far_message message = { at, length, true };

	rig_far(rig, far_send_now, &message, sizeof(message));
}

uint64_t far_drain(struct rig_end *end, const void *unused)
{
	(void)unused;
	RIG_EQ(rig_wait(end->send_cq).status, IBV_WC_SUCCESS);
	return 0;
}
