/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that others may send to.
 *
 *   target PEER     prints the numbers of its QPs, and after a line of input what came:
 *
 *   pair QPN        an RC QP, connected to another one of this process
 *   datagram QPN    a UD QP, Q_Key 0x01234567
 *   remote QPN      an RC QP, connected to QP 0x4242 at PEER, an IPv4 address
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QKEY = 0x01234567, GRH = 40, ROOM = 128, DEPTH = 16, GID_INDEX = 1, MESSAGES = 10 };
enum { SENDER, RECEIVER, DATAGRAM, REMOTE, QPS };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *send_cq, *cqs[QPS];
static struct ibv_qp *qps[QPS];
static struct ibv_mr *mr;
static uint8_t memory[QPS][GRH + ROOM];

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = list && *list ? ibv_open_device(*list) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	send_cq = pd ? ibv_create_cq(context, DEPTH, NULL, NULL, 0) : NULL;
	mr = send_cq ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!mr)
		fail("opening the device");
	ibv_free_device_list(list);
}

static void make_qp(int index, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = { .qp_type = type,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	cqs[index] = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	init.send_cq = send_cq;
	init.recv_cq = cqs[index];
	qps[index] = cqs[index] ? ibv_create_qp(pd, &init) : NULL;
	if (!qps[index] ||
	    ibv_modify_qp(qps[index], &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
		fail("QP");
}

static void post_receives(int index)
{
	struct ibv_sge sge = { (uintptr_t)memory[index], GRH + ROOM, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	for (int i = 0; i < MESSAGES; i++)
		if (ibv_post_recv(qps[index], &wr, &bad))
			fail("post_recv");
}

static void connect_qp(int index, const union ibv_gid *to, uint32_t qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = *to, .sgid_index = GID_INDEX, .hop_limit = 64 } },
		.timeout = 10,
		.retry_cnt = 2,
		.rnr_retry = 2,
		.max_rd_atomic = 1,
	};

	if (ibv_modify_qp(qps[index], &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("RTR");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qps[index], &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("RTS");
}

static void start_datagrams(int index)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	if (ibv_modify_qp(qps[index], &attr, IBV_QP_STATE))
		fail("RTR");
}

/* Of the pair, after all that was said to it: is it still one? */
static const char *try_pair(void)
{
	struct ibv_sge sge = { (uintptr_t)memory[SENDER], ROOM, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	memset(memory[SENDER], 0x5a, ROOM);
	if (ibv_post_send(qps[SENDER], &wr, &bad))
		fail("post_send");
	while (!ibv_poll_cq(send_cq, 1, &wc))
		;
	if (wc.status)
		return ibv_wc_status_str(wc.status);
	while (!ibv_poll_cq(cqs[RECEIVER], 1, &wc))
		;
	return wc.status || memcmp(memory[SENDER], memory[RECEIVER], ROOM) ? "damaged" : "whole";
}

static int count_received(int index)
{
	struct ibv_wc wc[MESSAGES];

	return ibv_poll_cq(cqs[index], MESSAGES, wc);
}

int main(int argc, char **argv)
{
	union ibv_gid own, peer = { .raw = { [10] = 0xff, 0xff } };
	char byte;

	if (argc != 2 || inet_pton(AF_INET, argv[1], &peer.raw[12]) != 1)
		fail("usage: target PEER");
	open_device();
	if (ibv_query_gid(context, 1, GID_INDEX, &own))
		fail("GID");
	for (int i = 0; i < QPS; i++) {
		make_qp(i, i == DATAGRAM ? IBV_QPT_UD : IBV_QPT_RC);
		post_receives(i);
	}
	connect_qp(SENDER, &own, qps[RECEIVER]->qp_num);
	connect_qp(RECEIVER, &own, qps[SENDER]->qp_num);
	connect_qp(REMOTE, &peer, 0x4242);
	start_datagrams(DATAGRAM);
	printf("pair 0x%06x\ndatagram 0x%06x\nremote 0x%06x\nready\n", qps[SENDER]->qp_num,
	       qps[DATAGRAM]->qp_num, qps[REMOTE]->qp_num);
	fflush(stdout);
	if (read(STDIN_FILENO, &byte, 1) < 0)
		fail("input");
	printf("pair is %s\n", try_pair());
	printf("datagrams %d\n", count_received(DATAGRAM));
	printf("from remote %d\n", count_received(REMOTE));
	return 0;
}
