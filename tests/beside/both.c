/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One program, two devices: messages between two QPs of each, turn by turn, out of one buffer that
 * is registered with both.
 *
 *	both DEVICE GID-INDEX DEVICE GID-INDEX [ROUNDS]
 *
 * Exit status 0: every byte of every message arrived, and each device ended clean.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 4096, PORT = 1 };

struct side {
	const char *name;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
};

static char buffer[2 * SIZE]; /* the message, and where it arrives */

static bool complain(const char *what, const struct side *side)
{
	fprintf(stderr, "both: %s: %s: %s\n", side->name, what, strerror(errno));
	return false;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	errno = ENODEV;
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return context;
}

/* --- QPs --- */

static bool make_qp(struct side *side, struct ibv_qp **qp)
{
	struct ibv_qp_init_attr init = { .send_cq = side->cq,
					 .recv_cq = side->cq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = PORT,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	*qp = ibv_create_qp(side->pd, &init);
	if (!*qp)
		return complain("ibv_create_qp", side);
	errno = ibv_modify_qp(*qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return errno ? complain("INIT", side) : true;
}

static bool connect_qp(struct side *side, struct ibv_qp *qp, const struct ibv_qp *to, int index)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = to->qp_num,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12,
				    .ah_attr = { .is_global = 1, .port_num = PORT } };

	attr.ah_attr.grh.sgid_index = (uint8_t)index;
	attr.ah_attr.grh.hop_limit = 64;
	if (ibv_query_gid(side->context, PORT, index, &attr.ah_attr.grh.dgid))
		return complain("ibv_query_gid", side);
	errno = ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
	if (errno)
		return complain("RTR", side);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 18;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	errno = ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return errno ? complain("RTS", side) : true;
}

static bool begin(struct side *side, const char *name, int index)
{
	side->name = name;
	side->context = open_device(name);
	if (!side->context)
		return complain("ibv_open_device", side);
	side->pd = ibv_alloc_pd(side->context);
	side->mr = side->pd ? ibv_reg_mr(side->pd, buffer, sizeof(buffer),
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
			    : NULL;
	side->channel = ibv_create_comp_channel(side->context);
	side->cq = side->channel ? ibv_create_cq(side->context, 8, side, side->channel, 0) : NULL;
	if (!side->mr || !side->cq)
		return complain("region or CQ", side);
	return make_qp(side, &side->qp[0]) && make_qp(side, &side->qp[1]) &&
	       connect_qp(side, side->qp[0], side->qp[1], index) &&
	       connect_qp(side, side->qp[1], side->qp[0], index);
}

static bool end(struct side *side)
{
	errno = ibv_destroy_qp(side->qp[0]);
	if (!errno)
		errno = ibv_destroy_qp(side->qp[1]);
	if (!errno)
		errno = ibv_destroy_cq(side->cq);
	if (!errno)
		errno = ibv_destroy_comp_channel(side->channel);
	if (!errno)
		errno = ibv_dereg_mr(side->mr);
	if (!errno)
		errno = ibv_dealloc_pd(side->pd);
	if (!errno && ibv_close_device(side->context))
		return complain("ibv_close_device", side);
	return errno ? complain("end", side) : true;
}

/* --- messages --- */

static bool take_completions(struct side *side, int count)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *arg;

	while (count) {
		const int got = ibv_poll_cq(side->cq, 1, &wc);

		if (got < 0 || (got && wc.status))
			return complain(got < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status),
					side);
		count -= got;
		if (got)
			continue;
		errno = ibv_req_notify_cq(side->cq, 0);
		if (errno)
			return complain("ibv_req_notify_cq", side);
		/* What came before the notification was armed has no event. */
		if (ibv_poll_cq(side->cq, 1, &wc) == 1) {
			if (wc.status)
				return complain(ibv_wc_status_str(wc.status), side);
			count--;
			continue;
		}
		if (ibv_get_cq_event(side->channel, &cq, &arg) || cq != side->cq || arg != side)
			return complain("ibv_get_cq_event", side);
		ibv_ack_cq_events(cq, 1);
	}
	return true;
}

static bool exchange(struct side *side, unsigned round)
{
	struct ibv_sge from = { (uintptr_t)buffer, SIZE, side->mr->lkey };
	struct ibv_sge to = { (uintptr_t)buffer + SIZE, SIZE, side->mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &to, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .sg_list = &from,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED },
			   *bad_send;

	for (int i = 0; i < SIZE; i++)
		buffer[i] = (char)(round * 31 + (unsigned)i + (unsigned char)side->name[0]);
	memset(buffer + SIZE, 0, SIZE);
	errno = ibv_post_recv(side->qp[1], &recv, &bad_recv);
	if (!errno)
		errno = ibv_post_send(side->qp[0], &send, &bad_send);
	if (errno)
		return complain("post", side);
	if (!take_completions(side, 2))
		return false;
	errno = EIO;
	return memcmp(buffer, buffer + SIZE, SIZE) ? complain("the bytes differ", side) : true;
}

int main(int argc, char **argv)
{
	const unsigned rounds = argc > 5 ? (unsigned)atoi(argv[5]) : 100;
	struct side sides[2] = { 0 };
	bool good;

	if (argc < 5) {
		fprintf(stderr, "usage: both DEVICE GID-INDEX DEVICE GID-INDEX [ROUNDS]\n");
		return 2;
	}
	good = begin(&sides[0], argv[1], atoi(argv[2])) && begin(&sides[1], argv[3], atoi(argv[4]));
	for (unsigned round = 0; good && round < rounds; round++)
		good = exchange(&sides[0], round) && exchange(&sides[1], round);
	good = good && end(&sides[0]) && end(&sides[1]);
	if (good)
		printf("%u messages of %d bytes on %s, %u on %s, turn by turn\n", rounds, SIZE,
		       argv[1], rounds, argv[3]);
	return !good;
}
