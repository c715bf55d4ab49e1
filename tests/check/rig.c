/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY = 3 * BUFFER + 2 * LARGE };

void rig_must(bool holds, const char *text, int line)
{
	if (holds)
		return;
	fprintf(stderr, "line %d: %s\n", line, text);
	exit(3);
}

/* The first address of the device that is not link-local. */
static void find_gid(struct rig *rig)
{
	for (rig->gid_index = 0; rig->gid_index < 16; rig->gid_index++)
		if (!ibv_query_gid(rig->context, 1, rig->gid_index, &rig->gid) &&
		    rig->gid.raw[0] != 0xfe && rig->gid.global.interface_id)
			return;
	rig_must(false, "a GID", __LINE__);
}

struct ibv_qp *rig_qp(struct rig *rig, struct ibv_cq *cq, const struct wish *wish)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq,
					 .recv_cq = cq,
					 .srq = wish->srq,
					 .cap = wish->cap,
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = wish->sig_all };
	struct ibv_qp *qp = ibv_create_qp(rig->pd, &attr);

	MUST(qp);
	return qp;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_READ };

	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void to_rtr(struct rig *rig, struct ibv_qp *qp, uint32_t peer, const struct wish *wish)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = wish->min_rnr_timer,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = wish->to ? *wish->to : rig->gid,
				      .sgid_index = (uint8_t)rig->gid_index,
				      .hop_limit = wish->hop_limit } },
	};

	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
}

static void to_rts(struct ibv_qp *qp, const struct wish *wish)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = wish->timeout,
				    .retry_cnt = 7,
				    .rnr_retry = wish->rnr_retry,
				    .max_rd_atomic = wish->max_rd_atomic };

	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

void rig_connect(struct rig *rig, struct ibv_qp *from, struct ibv_qp *to, const struct wish *wish)
{
	to_init(from);
	to_rtr(rig, from, to->qp_num, wish);
	to_rts(from, wish);
}

void rig_renew(struct rig *rig, struct ibv_cq *cq, const struct wish *wish)
{
	MUST(!ibv_destroy_qp(rig->a) && !ibv_destroy_qp(rig->b));
	rig->a = rig_qp(rig, cq, wish);
	rig->b = rig_qp(rig, cq, wish);
	rig_connect(rig, rig->a, rig->b, wish);
	rig_connect(rig, rig->b, rig->a, wish);
}

void rig_open(struct rig *rig)
{
	const struct wish wish = WISH;
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list && list[0]);
	rig->context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	MUST(rig->context);
	find_gid(rig);
	rig->pd = ibv_alloc_pd(rig->context);
	rig->cq = ibv_create_cq(rig->context, 4 * DEPTH, NULL, NULL, 0);
	rig->memory = calloc(1, MEMORY);
	MUST(rig->pd && rig->cq && rig->memory);
	rig->out = rig->memory;
	rig->in = rig->memory + BUFFER;
	rig->spare = rig->memory + 2 * BUFFER;
	rig->large_out = rig->memory + 3 * BUFFER;
	rig->large_in = rig->large_out + LARGE;
	rig->mr = ibv_reg_mr(rig->pd, rig->memory, MEMORY,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	MUST(rig->mr);
	rig->a = rig_qp(rig, rig->cq, &wish);
	rig->b = rig_qp(rig, rig->cq, &wish);
	rig_connect(rig, rig->a, rig->b, &wish);
	rig_connect(rig, rig->b, rig->a, &wish);
}

void rig_close(struct rig *rig)
{
	if (rig->a)
		MUST(!ibv_destroy_qp(rig->a));
	if (rig->b)
		MUST(!ibv_destroy_qp(rig->b));
	if (rig->cq)
		MUST(!ibv_destroy_cq(rig->cq));
	if (rig->mr)
		MUST(!ibv_dereg_mr(rig->mr));
	free(rig->memory);
	MUST(!ibv_dealloc_pd(rig->pd));
	MUST(!ibv_close_device(rig->context));
}

struct ibv_sge rig_sge(const struct rig *rig, const char *at, size_t length)
{
	return (struct ibv_sge){ (uintptr_t)at, (uint32_t)length, rig->mr->lkey };
}

struct ibv_wc rig_wait(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int got;

	while (!(got = ibv_poll_cq(cq, 1, &wc)))
		;
	MUST(got == 1);
	return wc;
}

void rig_wait_for(struct ibv_cq *cq, int count)
{
	while (count--)
		rig_wait(cq);
}
