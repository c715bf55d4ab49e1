/* SPDX-License-Identifier: BSD-2-Clause */
#include "side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void check(bool holds, const char *text, const char *file, int line)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, text);
	_exit(3);
}

void exchange(const struct side *side, const void *mine, void *theirs, size_t size)
{
	CHECK(write(side->socket, mine, size) == (ssize_t)size);
	CHECK(read(side->socket, theirs, size) == (ssize_t)size);
}

static void device_open(struct side *side)
{
	struct ibv_device_attr attr;
	struct ibv_device **list;
	int count;

	list = ibv_get_device_list(&count);
	CHECK(list && count > 0 && list[0]);
	CHECK(ibv_get_device_name(list[0])[0]);
	side->context = ibv_open_device(list[0]);
	CHECK(side->context != NULL);
	ibv_free_device_list(list);
	CHECK(!ibv_query_device(side->context, &attr));
	CHECK(attr.max_qp > 0 && attr.max_sge > 0 && attr.phys_port_cnt > 0 && attr.fw_ver[0]);
	CHECK(!ibv_query_port(side->context, 1, &side->port));
	CHECK(side->port.state == IBV_PORT_ACTIVE && side->port.gid_tbl_len > 0);
}

static void memory_open(struct side *side)
{
	/* Not calloc: a byte that nothing was written to is undefined. */
	side->in = malloc(BUFFER_BYTES);
	side->out = malloc(BUFFER_BYTES);
	side->open = malloc(BUFFER_BYTES);
	side->in_mr = ibv_reg_mr(side->pd, side->in, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	side->out_mr = ibv_reg_mr(side->pd, side->out, BUFFER_BYTES, 0);
	side->open_mr = ibv_reg_mr(side->pd, side->open, BUFFER_BYTES,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(side->in_mr && side->out_mr && side->open_mr);
}

static struct ibv_qp *qp_open(struct side *side, enum lane lane)
{
	struct ibv_qp_init_attr init = {
		.send_cq = side->cq,
		.recv_cq = side->cq,
		.srq = lane == LANE_SHARED ? side->srq : NULL,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2 },
		.qp_type = lane == LANE_UD ? IBV_QPT_UD : IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.qkey = UD_QKEY,
	};
	struct ibv_qp *qp = ibv_create_qp(side->pd, &init);

	CHECK(qp != NULL && init.cap.max_send_wr >= 8);
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (lane == LANE_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	return qp;
}

static void queues_open(struct side *side)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };

	side->channel = ibv_create_comp_channel(side->context);
	CHECK(side->channel != NULL);
	side->cq = ibv_create_cq(side->context, 64, side, side->channel, 0);
	side->srq = ibv_create_srq(side->pd, &init);
	CHECK(side->cq && side->srq);
	for (enum lane lane = 0; lane < LANES; lane++)
		side->qp[lane] = qp_open(side, lane);
}

static struct ibv_ah_attr address_of(const struct side *side)
{
	return (struct ibv_ah_attr){
		.dlid = side->there.lid,
		.port_num = 1,
		.is_global = 1,
		.grh = { .dgid = side->there.gid, .hop_limit = 1 },
	};
}

static void rc_connect(struct side *side, enum lane lane)
{
	struct ibv_qp_attr got, attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = side->there.qpn[lane],
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = address_of(side),
	};
	struct ibv_qp_init_attr init;

	CHECK(!ibv_modify_qp(side->qp[lane], &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 18; /* a second: tools take their time */
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	CHECK(!ibv_modify_qp(side->qp[lane], &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	CHECK(!ibv_query_qp(side->qp[lane], &got, IBV_QP_STATE | IBV_QP_DEST_QPN, &init));
	CHECK(got.qp_state == IBV_QPS_RTS && got.dest_qp_num == side->there.qpn[lane]);
	CHECK(init.qp_type == IBV_QPT_RC && init.send_cq == side->cq);
}

static void ud_connect(struct side *side)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct ibv_ah_attr address = address_of(side);

	CHECK(!ibv_modify_qp(side->qp[LANE_UD], &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(side->qp[LANE_UD], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	side->ah = ibv_create_ah(side->pd, &address);
	CHECK(side->ah != NULL);
}

void side_open(struct side *side)
{
	struct place here = { .open_rkey = 0 };

	device_open(side);
	side->pd = ibv_alloc_pd(side->context);
	CHECK(side->pd != NULL);
	memory_open(side);
	queues_open(side);
	CHECK(!ibv_query_gid(side->context, 1, 0, &here.gid));
	here.open_address = (uintptr_t)side->open;
	here.open_rkey = side->open_mr->rkey;
	here.lid = side->port.lid;
	for (enum lane lane = 0; lane < LANES; lane++)
		here.qpn[lane] = side->qp[lane]->qp_num;
	exchange(side, &here, &side->there, sizeof(here));
	rc_connect(side, LANE_RC);
	rc_connect(side, LANE_SHARED);
	ud_connect(side);
	/* A QP that is not ready yet loses datagrams. */
	exchange(side, &here, &side->there, sizeof(here));
}

void side_close(struct side *side)
{
	char mine = 0, theirs;

	exchange(side, &mine, &theirs, 1); /* the other side may still be sending */
	CHECK(!ibv_destroy_ah(side->ah));
	for (enum lane lane = 0; lane < LANES; lane++)
		CHECK(!ibv_destroy_qp(side->qp[lane]));
	CHECK(!ibv_destroy_srq(side->srq));
	CHECK(!ibv_destroy_cq(side->cq));
	CHECK(!ibv_destroy_comp_channel(side->channel));
	CHECK(!ibv_dereg_mr(side->in_mr) && !ibv_dereg_mr(side->out_mr) &&
	      !ibv_dereg_mr(side->open_mr));
	CHECK(!ibv_dealloc_pd(side->pd));
	CHECK(!ibv_close_device(side->context));
	free(side->in);
	free(side->out);
	free(side->open);
}
