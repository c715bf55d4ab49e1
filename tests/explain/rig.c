/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void rig_fail(const char *what)
{
	fprintf(stderr, "rig: %s\n", what);
	exit(3);
}

static void *must(void *object, const char *what)
{
	if (!object)
		rig_fail(what);
	return object;
}

struct rig_plan rig_plan(void)
{
	return (struct rig_plan){ .type = IBV_QPT_RC,
				  .sq_psn = 1000,
				  .rq_psn = 2000,
				  .timeout = 18,
				  .retry_cnt = 1,
				  .rnr_retry = 0,
				  .min_rnr_timer = 1,
				  .far_access = RIG_ALL,
				  .cqe = RIG_CQE,
				  .max_send_wr = 16,
				  .far_state = IBV_QPS_RTS };
}

static void choose_gid(struct rig_side *side)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	ibv_query_port(side->context, 1, &port);
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (!ibv_query_gid(side->context, 1, i, &gid) && gid.raw[10] == 0xff) {
			side->gid = gid;
			side->gid_index = (uint8_t)i;
			return;
		}
	rig_fail("no GID of an IPv4 address");
}

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = must(ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_context *context = list[0] ? ibv_open_device(list[0]) : NULL;

	ibv_free_device_list(list);
	return must(context, "no device");
}

void rig_side_open(struct rig_side *side, const struct rig_plan *plan)
{
	struct ibv_qp_init_attr init = {
		.qp_type = plan->type,
		.cap = { .max_send_wr = plan->max_send_wr,
			 .max_recv_wr = 16,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 32 },
	};

	if (!side->context)
		side->context = open_device();
	choose_gid(side);
	side->pd = must(ibv_alloc_pd(side->context), "ibv_alloc_pd");
	side->cq = must(ibv_create_cq(side->context, plan->cqe, NULL, NULL, 0), "ibv_create_cq");
	side->buffer = must(aligned_alloc(4096, RIG_BYTES), "memory");
	memset(side->buffer, 0, RIG_BYTES);
	side->mr = must(ibv_reg_mr(side->pd, side->buffer, RIG_BYTES, RIG_ALL), "ibv_reg_mr");
	init.send_cq = init.recv_cq = side->cq;
	side->qp = must(ibv_create_qp(side->pd, &init), "ibv_create_qp");
}

static void modify(struct rig_side *side, struct ibv_qp_attr *attr, int mask)
{
	if (ibv_modify_qp(side->qp, attr, mask | IBV_QP_STATE))
		rig_fail("ibv_modify_qp");
}

void rig_connect(struct rig_side *side, const struct rig_plan *plan, const struct rig_far *to,
		 bool near)
{
	const bool reliable = plan->type != IBV_QPT_UC;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags =
					    near ? RIG_ALL : (unsigned)plan->far_access };

	modify(side, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (!near && plan->far_state == IBV_QPS_INIT)
		return;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = near ? to->qpn ^ plan->dest_xor : to->qpn,
				     .rq_psn = near ? plan->rq_psn : 1000,
				     .max_dest_rd_atomic = 1,
				     .min_rnr_timer = plan->min_rnr_timer,
				     .ah_attr = { .is_global = 1, .port_num = 1 } };
	attr.ah_attr.grh.dgid = to->gid;
	attr.ah_attr.grh.sgid_index = side->gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	modify(side, &attr,
	       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = plan->timeout,
				     .retry_cnt = plan->retry_cnt,
				     .rnr_retry = plan->rnr_retry,
				     .sq_psn = near ? plan->sq_psn : 2000,
				     .max_rd_atomic = 1 };
	modify(side, &attr,
	       IBV_QP_SQ_PSN | (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						   IBV_QP_MAX_QP_RD_ATOMIC
					 : 0));
}

static struct rig_far address_of(const struct rig_side *side)
{
	return (struct rig_far){ side->qp->qp_num, side->mr->rkey, (uintptr_t)side->buffer,
				 side->gid };
}

void rig_open(struct rig *rig, const struct rig_plan *plan)
{
	struct rig_far near;

	*rig = (struct rig){ .socket = -1 };
	rig_side_open(&rig->near, plan);
	rig->far_side.context = rig->near.context;
	rig_side_open(&rig->far_side, plan);
	rig->far = address_of(&rig->far_side);
	near = address_of(&rig->near);
	rig_connect(&rig->far_side, plan, &near, false);
	rig_connect(&rig->near, plan, &rig->far, true);
}

void rig_tell(const struct rig *rig)
{
	if (write(rig->socket, "", 1) != 1)
		rig_fail("the other process is gone");
}

void rig_await(const struct rig *rig)
{
	char byte;

	if (read(rig->socket, &byte, 1) != 1)
		rig_fail("the other process is gone");
}

static void exchange(struct rig *rig, const struct rig_side *side, struct rig_far *other)
{
	const struct rig_far own = address_of(side);

	if (write(rig->socket, &own, sizeof(own)) != (ssize_t)sizeof(own) ||
	    read(rig->socket, other, sizeof(*other)) != (ssize_t)sizeof(*other))
		rig_fail("the other process is gone");
}

void rig_open_two(struct rig *rig, const struct rig_plan *plan, void (*serve)(struct rig *rig))
{
	struct rig_side *side;
	struct rig_far other;
	int sockets[2];

	*rig = (struct rig){ 0 };
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		rig_fail("socketpair");
	rig->child = fork();
	if (!rig->child)
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a stopped child would stay for ever */
	rig->socket = sockets[rig->child ? 0 : 1];
	close(sockets[rig->child ? 1 : 0]);
	side = rig->child ? &rig->near : &rig->far_side;
	rig_side_open(side, plan);
	exchange(rig, side, &other);
	rig_connect(side, plan, &other, rig->child);
	rig->far = other;
	rig_tell(rig);
	rig_await(rig);
	if (rig->child)
		return;
	serve(rig);
	exit(0);
}

void rig_recv(struct rig_side *side, uint64_t wr_id, uint64_t addr, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = { addr, length, lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(side->qp, &wr, &bad))
		rig_fail("ibv_post_recv");
}

struct ibv_sge rig_sge(const struct rig_side *side, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)side->buffer, length, side->mr->lkey };
}

int rig_post(struct rig *rig, enum ibv_wr_opcode opcode, uint64_t wr_id, struct ibv_sge sge)
{
	struct ibv_send_wr *bad, wr = { .wr_id = wr_id,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = opcode,
					.send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = rig->far.addr;
	wr.wr.rdma.rkey = rig->far.rkey;
	return ibv_post_send(rig->near.qp, &wr, &bad);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

enum ibv_wc_status rig_wait(struct rig_side *side)
{
	const int64_t until = now_ms() + RIG_WAIT_MS;
	struct ibv_wc wc;

	while (now_ms() < until)
		if (ibv_poll_cq(side->cq, 1, &wc) == 1)
			return wc.status;
	rig_fail("no completion came");
}

void rig_poll_ms(struct rig_side *side, int ms)
{
	const int64_t until = now_ms() + ms;
	struct ibv_wc wc;

	while (now_ms() < until) {
		if (ibv_poll_cq(side->cq, 1, &wc))
			rig_fail("a completion came, or polling failed");
		usleep(1000);
	}
}
