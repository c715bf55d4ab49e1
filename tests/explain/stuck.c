/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that do not go on, each for another reason; `stuck SITUATION`. They wait for a kill. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

static struct rig rig;
static struct rig_plan plan;

static _Noreturn void stay(void)
{
	printf("ready\n");
	fflush(stdout);
	while (1)
		pause();
}

static void open_one(void)
{
	rig_open(&rig, &plan);
}

static void no_receive(void)
{
	open_one();
	rig_post(&rig, IBV_WR_SEND, 2, rig_sge(&rig.near, 8));
}

/* A fault rule keeps the packets from leaving: nothing is sent to that address. */
static void dead_host(void)
{
	struct rig_far far = { .qpn = 0x123456 };

	plan.timeout = 20;
	plan.retry_cnt = 7;
	rig_side_open(&rig.near, &plan);
	far.gid.raw[10] = far.gid.raw[11] = 0xff;
	inet_pton(AF_INET, "198.51.100.7", &far.gid.raw[12]);
	rig_connect(&rig.near, &plan, &far, true);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 2, rig_sge(&rig.near, 8));
}

static void full_cq(void)
{
	plan.max_send_wr = 40;
	open_one();
	for (int i = 0; i < 37; i++)
		rig_post(&rig, IBV_WR_RDMA_WRITE, 2, rig_sge(&rig.near, 8));
}

static void no_ack(void)
{
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	void *arg;

	open_one();
	context = rig.near.context;
	channel = ibv_create_comp_channel(context);
	ibv_destroy_qp(rig.near.qp);
	ibv_destroy_cq(rig.near.cq);
	rig.near.cq = ibv_create_cq(context, 16, NULL, channel, 0);
	rig.near.qp =
		ibv_create_qp(rig.near.pd, &(struct ibv_qp_init_attr){ .send_cq = rig.near.cq,
								       .recv_cq = rig.near.cq,
								       .cap = { 4, 4, 1, 1, 0 },
								       .qp_type = IBV_QPT_RC });
	rig.far = (struct rig_far){ rig.near.qp->qp_num, rig.near.mr->rkey,
				    (uintptr_t)rig.near.buffer, rig.near.gid };
	plan.rq_psn = plan.sq_psn;
	rig_connect(&rig.near, &plan, &rig.far, true);
	ibv_req_notify_cq(rig.near.cq, 0);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 2, rig_sge(&rig.near, 8));
	if (ibv_get_cq_event(channel, &cq, &arg))
		rig_fail("ibv_get_cq_event");
	ibv_destroy_qp(rig.near.qp);
	printf("ready\n");
	fflush(stdout);
	ibv_destroy_cq(rig.near.cq);
}

static void in_sqd(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };

	open_one();
	if (ibv_modify_qp(rig.near.qp, &attr, IBV_QP_STATE))
		rig_fail("SQD");
	rig_post(&rig, IBV_WR_RDMA_WRITE, 2, rig_sge(&rig.near, 8));
}

static void in_sqe(void)
{
	struct rig_side *near = &rig.near;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = { .wr_id = 2,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };

	plan.type = IBV_QPT_UD;
	rig_side_open(near, &plan);
	ibv_modify_qp(near->qp, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	attr.qp_state = IBV_QPS_RTR;
	ibv_modify_qp(near->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(near->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN))
		rig_fail("ibv_modify_qp");
	to.grh.dgid = near->gid;
	to.grh.sgid_index = near->gid_index;
	sge = rig_sge(near, 8);
	sge.lkey ^= 0x3c00;
	wr.wr.ud.ah = ibv_create_ah(near->pd, &to);
	wr.wr.ud.remote_qpn = near->qp->qp_num;
	if (ibv_post_send(near->qp, &wr, &bad))
		rig_fail("ibv_post_send");
	rig_wait(near);
}

static void serve_stopped(struct rig *at)
{
	rig_tell(at);
	raise(SIGSTOP);
	pause();
}

static void peer_stopped(void)
{
	plan.timeout = 0;
	rig_open_two(&rig, &plan, serve_stopped);
	rig_await(&rig);
	rig_post(&rig, IBV_WR_SEND, 2, rig_sge(&rig.near, 8));
}

/* With a fault rule that loses all packets. */
static void all_lost(void)
{
	plan.timeout = 0;
	open_one();
	rig_post(&rig, IBV_WR_RDMA_WRITE, 2, rig_sge(&rig.near, RIG_BYTES));
}

static void no_retry(void)
{
	plan.rnr_retry = 0;
	open_one();
	rig_post(&rig, IBV_WR_SEND, 2, rig_sge(&rig.near, 8));
	rig_wait(&rig.near);
}

static void serve_deadlock(struct rig *at)
{
	struct ibv_sge sge = rig_sge(&at->far_side, 8);
	struct ibv_send_wr *bad,
		wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	if (ibv_post_send(at->far_side.qp, &wr, &bad))
		rig_fail("ibv_post_send");
	rig_tell(at);
	pause();
}

static void each_other(void)
{
	rig_open_two(&rig, &plan, serve_deadlock);
	rig_await(&rig);
	rig_post(&rig, IBV_WR_SEND, 2, rig_sge(&rig.near, 8));
}

static void not_back(void)
{
	plan.timeout = 0;
	plan.far_state = IBV_QPS_INIT;
	open_one();
	rig_post(&rig, IBV_WR_SEND, 2, rig_sge(&rig.near, 8));
}

static void nothing(void)
{
	open_one();
}

/* Healthy. */
static void busy(void)
{
	open_one();
	printf("ready\n");
	fflush(stdout);
	while (1) {
		rig_recv(&rig.far_side, 1, (uintptr_t)rig.far_side.buffer, 64,
			 rig.far_side.mr->lkey);
		rig_post(&rig, IBV_WR_SEND, 2, rig_sge(&rig.near, 8));
		rig_wait(&rig.near);
		rig_wait(&rig.far_side);
	}
}

/* Healthy, too: the CQ always holds eight completions, and no poll finds it empty. */
static void deep(void)
{
	struct ibv_wc wc;

	open_one();
	for (int i = 0; i < 8; i++)
		rig_post(&rig, IBV_WR_RDMA_WRITE, 2, rig_sge(&rig.near, 8));
	printf("ready\n");
	fflush(stdout);
	while (1) {
		rig_post(&rig, IBV_WR_RDMA_WRITE, 2, rig_sge(&rig.near, 8));
		while (!ibv_poll_cq(rig.near.cq, 1, &wc))
			;
	}
}

static const struct {
	const char *name;
	void (*begin)(void);
} situations[] = {
	{ "no-receive", no_receive },
	{ "dead-host", dead_host },
	{ "full-cq", full_cq },
	{ "no-ack", no_ack },
	{ "sqd", in_sqd },
	{ "sqe", in_sqe },
	{ "stopped", peer_stopped },
	{ "lost", all_lost },
	{ "rnr-retry-0", no_retry },
	{ "deadlock", each_other },
	{ "not-back", not_back },
	{ "nothing", nothing },
	{ "busy", busy },
	{ "deep", deep },
};

int main(int argc, char **argv)
{
	plan = rig_plan();
	plan.rnr_retry = 7;
	plan.timeout = 0; /* the machine may be busy */
	for (size_t i = 0; argc == 2 && i < sizeof(situations) / sizeof(*situations); i++)
		if (!strcmp(argv[1], situations[i].name)) {
			situations[i].begin();
			stay();
		}
	return 2;
}
