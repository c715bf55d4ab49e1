/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast by verbs alone, for tests of several hosts.
 *
 *   mcast_probe listen GROUP COUNT [QPS]   prints "ready", then one line per message:
 *                                          qp <index> from <source address> number <n>
 *                                          and on InfiniBand: lid <source LID> to <MGID>
 *   mcast_probe send GROUP COUNT [step]    sends number 1 to COUNT, and ends; step: each of them
 *                                          when there is a line at the standard input
 *
 * The device is the first one, the source GID the first of the group's family, that of an
 * InfiniBand port its only one.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	QKEY = 0x01234567,
	GRH = 40,
	ROOM = 64,
	DEPTH = 1024,
	QPS_MAX = 8,
	GIDS = 64,
	MLID = 0xc042
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t *memory;
static uint16_t mlid; /* 0: RoCE */

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

static union ibv_gid gid_of(const char *text)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, 0xff } };

	if (inet_pton(AF_INET, text, &gid.raw[12]) != 1 && inet_pton(AF_INET6, text, gid.raw) != 1)
		fail(text);
	return gid;
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	size_t size = (size_t)QPS_MAX * DEPTH * (GRH + ROOM);
	struct ibv_port_attr port = { 0 };

	context = list && *list ? ibv_open_device(*list) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = pd ? ibv_create_cq(context, QPS_MAX * DEPTH, NULL, NULL, 0) : NULL;
	memory = calloc(1, size);
	mr = cq && memory ? ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!mr)
		fail("opening the device");
	ibv_free_device_list(list);
	if (ibv_query_port(context, 1, &port))
		fail("port");
	mlid = port.link_layer == IBV_LINK_LAYER_INFINIBAND ? MLID : 0;
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_UD,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	if (!qp ||
	    ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		fail("QP");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		fail("RTR");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN))
		fail("RTS");
	return qp;
}

static struct ibv_wc next_completion(void)
{
	struct ibv_wc wc;
	int count;

	while (!(count = ibv_poll_cq(cq, 1, &wc)))
		;
	if (count < 0 || wc.status)
		fail("completion");
	return wc;
}

/* ---- listening ------------------------------------------------------------------------------- */

static void post_receive(struct ibv_qp *qp, uint32_t index)
{
	uint8_t *at = memory + (size_t)index * (GRH + ROOM);
	struct ibv_sge sge = { (uintptr_t)at, GRH + ROOM, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = index, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(qp, &wr, &bad))
		fail("post_recv");
}

static void print_message(const struct ibv_wc *wc)
{
	const uint8_t *grh = memory + wc->wr_id * (GRH + ROOM);
	char source[INET6_ADDRSTRLEN], group[INET6_ADDRSTRLEN];
	uint32_t number;
	bool ipv4 = grh[20] == 0x45;

	if (!(wc->wc_flags & IBV_WC_GRH))
		fail("no GRH");
	inet_ntop(ipv4 ? AF_INET : AF_INET6, grh + (ipv4 ? 32 : 8), source, sizeof(source));
	memcpy(&number, grh + GRH, sizeof(number));
	printf("qp %d from %s number %u", (int)(wc->wr_id / DEPTH), source, number);
	if (mlid)
		printf(" lid %u to %s", wc->slid,
		       inet_ntop(AF_INET6, grh + 24, group, sizeof(group)));
	puts("");
}

static void listen_to(const union ibv_gid *group, int count, int qps)
{
	struct ibv_qp *qp[QPS_MAX];

	for (int i = 0; i < qps; i++) {
		qp[i] = make_qp();
		for (int k = 0; k < DEPTH; k++)
			post_receive(qp[i], (uint32_t)(i * DEPTH + k));
		if (ibv_attach_mcast(qp[i], group, mlid))
			fail("ibv_attach_mcast");
	}
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < count * qps; i++) {
		struct ibv_wc wc = next_completion();

		print_message(&wc);
	}
	for (int i = 0; i < qps; i++)
		if (ibv_detach_mcast(qp[i], group, mlid) || ibv_destroy_qp(qp[i]))
			fail("ibv_detach_mcast");
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Not the link-local one: the other host shows where a message is from. */
static uint8_t source_index(bool ipv4)
{
	union ibv_gid gid;
	static const union ibv_gid none;

	if (mlid)
		return 0;
	for (int i = 1; i < GIDS; i++)
		if (!ibv_query_gid(context, 1, i, &gid) && memcmp(&gid, &none, sizeof(gid)) &&
		    is_ipv4(&gid) == ipv4)
			return (uint8_t)i;
	fail("no source GID");
}

static void await_line(void)
{
	int c;

	do
		c = getchar();
	while (c != '\n' && c != EOF);
}

static void send_to(const union ibv_gid *group, int count, bool step)
{
	struct ibv_ah_attr attr = { .dlid = mlid,
				    .is_global = 1,
				    .port_num = 1,
				    .grh = { .dgid = *group,
					     .hop_limit = 1,
					     .sgid_index = source_index(is_ipv4(group)) } };
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_qp *qp = make_qp();

	if (!ah)
		fail("ibv_create_ah");
	for (int i = 1; i <= count; i++) {
		struct ibv_sge sge = { (uintptr_t)memory, ROOM, mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.ud = { ah, 0xffffff, QKEY } },
				   *bad;

		if (step)
			await_line();
		memcpy(memory, &(uint32_t){ (uint32_t)i }, sizeof(uint32_t));
		if (ibv_post_send(qp, &wr, &bad))
			fail("ibv_post_send");
		next_completion();
	}
}

int main(int argc, char **argv)
{
	union ibv_gid group;
	bool step = argc > 4 && !strcmp(argv[4], "step");
	int qps = argc > 4 && !step ? atoi(argv[4]) : 1;

	if (argc < 4 || qps < 1 || qps > QPS_MAX) {
		fprintf(stderr, "usage: %s listen|send GROUP COUNT [QPS|step]\n", argv[0]);
		return 2;
	}
	group = gid_of(argv[2]);
	open_device();
	if (!strcmp(argv[1], "listen"))
		listen_to(&group, atoi(argv[3]), qps);
	else
		send_to(&group, atoi(argv[3]), step);
	return 0;
}
