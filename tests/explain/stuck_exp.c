/* SPDX-License-Identifier: BSD-2-Clause */
/* A cross-channel QP that waits for a CQ, and a managed one: `stuck_exp`. It waits for a kill. */
#include <infiniband/verbs_exp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void must(int condition, const char *call)
{
	if (condition)
		return;
	perror(call);
	exit(1);
}

static struct ibv_qp *create_qp(uint32_t flags)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = pd,
		.exp_create_flags = flags,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ibv_exp_create_qp(context, &init);

	must(qp != NULL, "ibv_exp_create_qp");
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	     "INIT");
	attr.qp_state = IBV_QPS_RTR;
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
	return qp;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_exp_send_wr nop = { .wr_id = 1, .exp_opcode = IBV_EXP_WR_NOP };
	struct ibv_exp_send_wr wait = { .wr_id = 2, .exp_opcode = IBV_EXP_WR_CQE_WAIT };

	must(list && *list, "ibv_get_device_list");
	context = ibv_open_device(*list);
	must(context != NULL, "ibv_open_device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	must(pd && cq, "ibv_create_cq");
	must(!ibv_exp_post_send(create_qp(IBV_EXP_QP_CREATE_MANAGED_SEND), &nop, NULL), "NOP");
	wait.task.cqe_wait.cq = cq;
	wait.task.cqe_wait.cq_count = 3;
	must(!ibv_exp_post_send(create_qp(IBV_EXP_QP_CREATE_CROSS_CHANNEL), &wait, NULL),
	     "CQE_WAIT");
	printf("ready\n");
	fflush(stdout);
	while (1)
		pause();
}
