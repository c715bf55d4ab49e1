/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "xrc.h"

enum { ACK_TIMEOUT = 14, RETRIES = 7, RNR_TIMER = 12 };

static bool failed(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, strerror(err));
	return false;
}

/* A domain without a file belongs to this process alone. No other process needs it. */
bool xrc_domain_open(struct xrc_side *side)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	side->domain = ibv_open_xrcd(side->end.context, &attr);
	if (!side->domain && errno == EOPNOTSUPP)
		fprintf(stderr, "%s does not support XRC\n",
			ibv_get_device_name(side->end.context->device));
	return side->domain || failed("Couldn't Open the XRC Domain", errno);
}

bool xrc_srq_create(struct xrc_side *side)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = side->end.options.rx_depth, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = side->domain,
		.cq = side->end.cq,
		.pd = side->end.pd,
	};
	int err;

	side->game.srq = ibv_create_srq_ex(side->end.context, &attr);
	if (!side->game.srq)
		return failed("Couldn't create SRQ", errno);
	err = ibv_get_srq_num(side->game.srq, &side->srqn);
	return !err || failed("Couldn't get SRQ num", err);
}

static int to_init(const struct xrc_side *side, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = (uint8_t)side->end.options.ib_port };

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static struct ibv_qp *create_receiving(struct xrc_side *side)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = side->domain,
	};

	return ibv_create_qp_ex(side->end.context, &attr);
}

static struct ibv_qp *create_sending(struct xrc_side *side)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = side->end.cq,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = side->end.pd,
	};

	return ibv_create_qp_ex(side->end.context, &attr);
}

bool xrc_qps_create(struct xrc_side *side, struct pp_player *player)
{
	int err;

	player->receive_qp = create_receiving(side);
	if (!player->receive_qp)
		return failed("Couldn't create recv QP", errno);
	player->qp = create_sending(side);
	if (!player->qp)
		return failed("Couldn't create send QP", errno);
	err = to_init(side, player->receive_qp);
	if (!err)
		err = to_init(side, player->qp);
	return !err || failed("Failed to modify QP to INIT", err);
}

/* Connects qp to the QP with that number. */
static int connect_qp(struct xrc_side *side, unsigned index, struct ibv_qp *qp, unsigned qpn)
{
	const struct xrc_address *remote = &side->remote[index];
	const struct pp_address where = { .lid = remote->lid, .gid = remote->gid };
	bool receives = qp->qp_type == IBV_QPT_XRC_RECV;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = pp_mtu(side->end.options.mtu),
		.dest_qp_num = qpn,
		.rq_psn = remote->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr = pp_ah_attr(&side->end, &where),
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int err;

	if (receives)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	err = ibv_modify_qp(qp, &attr, mask);
	if (err)
		return err;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = ACK_TIMEOUT,
				     .retry_cnt = RETRIES,
				     .rnr_retry = RETRIES,
				     .sq_psn = side->local[index].psn,
				     .max_rd_atomic = 1 };
	mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN;
	if (!receives)
		mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

bool xrc_qps_connect(struct xrc_side *side, unsigned index)
{
	struct pp_player *player = &side->game.players[index];
	const struct xrc_address *remote = &side->remote[index];
	int err = connect_qp(side, index, player->receive_qp, remote->send_qpn);

	if (!err)
		err = connect_qp(side, index, player->qp, remote->receive_qpn);
	player->wr.qp_type.xrc.remote_srqn = remote->srqn;
	if (err)
		pp_hint_gid(&side->end);
	return !err || failed("Failed to connect QPs", err);
}
