/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A broadcast that goes on by itself: four ranks in a row, in one process. Each rank but the first
 * receives from the left. Its send to the right is posted beforehand, to a managed queue. A third
 * queue waits for the receive, and enables the send. The program posts all of it, starts the first
 * send of each round, and looks at the last rank only.
 *
 *   exp_chain [DEVICE]
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 1, RANKS = 4, ROUNDS = 3, TEXT = 64, DEPTH = 2 * ROUNDS };

struct rank {
	struct ibv_cq *left_cq, *right_cq, *manager_cq;
	struct ibv_qp *left;    /* receives */
	struct ibv_qp *right;   /* sends what it is told to */
	struct ibv_qp *manager; /* tells it; connected to itself */
	char text[ROUNDS][TEXT];
	struct ibv_mr *mr;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct rank ranks[RANKS];
static int gid_index = -1;
static uint16_t lid;

/* Calls that return an error number. */
static void must(const char *call, int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", call, strerror(err));
	exit(1);
}

/* Calls that return NULL and set errno. */
static void *must_have(const char *call, void *object)
{
	must(call, object ? 0 : errno);
	return object;
}

static void open_device(const char *name)
{
	struct ibv_device **list = must_have("ibv_get_device_list", ibv_get_device_list(NULL));
	struct ibv_exp_device_attr attr = { .comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS };
	struct ibv_exp_port_attr port = { 0 };

	for (int i = 0; list[i] && !context; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			context = must_have("ibv_open_device", ibv_open_device(list[i]));
	ibv_free_device_list(list);
	must("no such device", context ? 0 : ENODEV);
	must("ibv_exp_query_device", ibv_exp_query_device(context, &attr));
	must("no cross-channel requests",
	     attr.exp_device_cap_flags & IBV_EXP_DEVICE_CROSS_CHANNEL ? 0 : EOPNOTSUPP);
	must("ibv_exp_query_port", ibv_exp_query_port(context, PORT, &port));
	lid = port.port_attr.lid;
	gid_index = port.port_attr.link_layer == IBV_LINK_LAYER_ETHERNET ? 1 : -1;
	pd = must_have("ibv_alloc_pd", ibv_alloc_pd(context));
}

static struct ibv_cq *create_cq(void)
{
	struct ibv_exp_cq_init_attr attr = { .comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
					     .flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL };

	return must_have("ibv_exp_create_cq",
			 ibv_exp_create_cq(context, 2 * DEPTH, NULL, NULL, 0, &attr));
}

static struct ibv_qp *create_qp(struct ibv_cq *cq, uint32_t flags)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = pd,
		.exp_create_flags = flags,
	};

	return must_have("ibv_exp_create_qp", ibv_exp_create_qp(context, &attr));
}

static void create_rank(struct rank *rank)
{
	struct ibv_exp_reg_mr_in in = { .pd = pd,
					.addr = rank->text,
					.length = sizeof(rank->text),
					.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE };

	rank->mr = must_have("ibv_exp_reg_mr", ibv_exp_reg_mr(&in));
	rank->left_cq = create_cq();
	rank->right_cq = create_cq();
	rank->manager_cq = create_cq();
	rank->left = create_qp(rank->left_cq, 0);
	rank->right = create_qp(rank->right_cq,
				IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND);
	rank->manager = create_qp(rank->manager_cq, IBV_EXP_QP_CREATE_CROSS_CHANNEL);
}

static void connect_qp(struct ibv_qp *from, const struct ibv_qp *to)
{
	struct ibv_exp_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qp_num,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .dlid = lid, .port_num = PORT },
	};

	if (gid_index >= 0) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.hop_limit = 1;
		attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
		must("ibv_query_gid",
		     ibv_query_gid(context, PORT, gid_index, &attr.ah_attr.grh.dgid));
	}
	must("INIT", ibv_exp_modify_qp(from, &attr,
				       IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT |
					       IBV_EXP_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	must("RTR",
	     ibv_exp_modify_qp(from, &attr,
			       IBV_EXP_QP_STATE | IBV_EXP_QP_AV | IBV_EXP_QP_PATH_MTU |
				       IBV_EXP_QP_DEST_QPN | IBV_EXP_QP_RQ_PSN |
				       IBV_EXP_QP_MAX_DEST_RD_ATOMIC | IBV_EXP_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	must("RTS", ibv_exp_modify_qp(from, &attr,
				      IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT |
					      IBV_EXP_QP_RNR_RETRY | IBV_EXP_QP_SQ_PSN |
					      IBV_EXP_QP_MAX_QP_RD_ATOMIC));
}

/* What a rank does in a round: four tasks, posted by one call. */
static void post_round(struct rank *rank, unsigned round, int receives, int sends)
{
	struct ibv_sge sge = { (uintptr_t)rank->text[round], TEXT, rank->mr->lkey };
	struct ibv_recv_wr recv_wr = { .wr_id = round, .sg_list = &sge, .num_sge = 1 };
	struct ibv_exp_send_wr send_wr = {
		.wr_id = round, .sg_list = &sge, .num_sge = 1, .exp_opcode = IBV_EXP_WR_SEND
	};
	struct ibv_exp_send_wr enable_wr = { .wr_id = round,
					     .exp_opcode = IBV_EXP_WR_SEND_ENABLE,
					     .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST };
	struct ibv_exp_send_wr wait_wr = { .wr_id = round,
					   .next = &enable_wr,
					   .exp_opcode = IBV_EXP_WR_CQE_WAIT,
					   .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST };
	struct ibv_exp_task manage = { .task_type = IBV_EXP_TASK_SEND,
				       .item = { .qp = rank->manager, { .send_wr = &wait_wr } } };
	struct ibv_exp_task send = { .task_type = IBV_EXP_TASK_SEND,
				     .item = { .qp = rank->right, { .send_wr = &send_wr } },
				     .next = receives ? &manage : NULL };
	struct ibv_exp_task receive = { .task_type = IBV_EXP_TASK_RECV,
					.item = { .qp = rank->left, { .recv_wr = &recv_wr } },
					.next = sends ? &send : NULL };

	wait_wr.task.cqe_wait.cq = rank->left_cq;
	wait_wr.task.cqe_wait.cq_count = 1;
	enable_wr.task.wqe_enable.qp = rank->right;
	enable_wr.task.wqe_enable.wqe_count = 1;
	must("ibv_exp_post_task", ibv_exp_post_task(context, receives ? &receive : &send, NULL));
}

/* The first rank is enabled by hand. */
static void start_round(struct rank *rank, unsigned round)
{
	struct ibv_exp_send_wr wr = { .wr_id = round,
				      .exp_opcode = IBV_EXP_WR_SEND_ENABLE,
				      .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST };

	snprintf(rank->text[round], TEXT, "round %u from rank 0", round);
	wr.task.wqe_enable.qp = rank->right;
	wr.task.wqe_enable.wqe_count = 1;
	must("ibv_exp_post_send", ibv_exp_post_send(rank->manager, &wr, NULL));
}

static void wait_for(struct rank *rank, unsigned round)
{
	struct ibv_exp_wc wc;
	int count;

	while (!(count = ibv_exp_poll_cq(rank->left_cq, 1, &wc, sizeof(wc))))
		;
	must("ibv_exp_poll_cq", count < 0 || wc.status != IBV_WC_SUCCESS ? EIO : 0);
	printf("rank %d has: %s\n", RANKS - 1, rank->text[round]);
}

static void destroy_rank(struct rank *rank)
{
	struct ibv_qp *qps[] = { rank->manager, rank->left, rank->right };
	struct ibv_cq *cqs[] = { rank->manager_cq, rank->left_cq, rank->right_cq };

	for (int i = 0; i < 3; i++)
		must("ibv_destroy_qp", ibv_destroy_qp(qps[i]));
	for (int i = 0; i < 3; i++)
		must("ibv_destroy_cq", ibv_destroy_cq(cqs[i]));
	must("ibv_dereg_mr", ibv_dereg_mr(rank->mr));
}

int main(int argc, char **argv)
{
	open_device(argc > 1 ? argv[1] : NULL);
	for (int i = 0; i < RANKS; i++)
		create_rank(&ranks[i]);
	for (int i = 0; i < RANKS; i++) {
		struct rank *next = &ranks[(i + 1) % RANKS];

		connect_qp(ranks[i].right, next->left);
		connect_qp(next->left, ranks[i].right);
		connect_qp(ranks[i].manager, ranks[i].manager);
	}
	for (unsigned round = 0; round < ROUNDS; round++)
		for (int i = 0; i < RANKS; i++)
			post_round(&ranks[i], round, i > 0, i < RANKS - 1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		start_round(&ranks[0], round);
		wait_for(&ranks[RANKS - 1], round);
	}
	for (int i = 0; i < RANKS; i++)
		destroy_rank(&ranks[i]);
	must("ibv_dealloc_pd", ibv_dealloc_pd(pd));
	must("ibv_close_device", ibv_close_device(context));
	return 0;
}
