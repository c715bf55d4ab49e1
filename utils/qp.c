/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of the players, from creation to RTS. */
#include <stdio.h>
#include <string.h>

#include "game.h"

enum { QKEY = 0x11111111, ACK_TIMEOUT = 14, RETRIES = 7, RNR_TIMER = 12 };

static struct ibv_qp *create_new_send(struct pp_game *game, const struct ibv_qp_init_attr *plain)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = plain->qp_type,
		.send_cq = plain->send_cq,
		.recv_cq = plain->recv_cq,
		.srq = plain->srq,
		.cap = plain->cap,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = game->end->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	return ibv_create_qp_ex(game->end->context, &attr);
}

static int to_init(const struct pp_end *end, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = (uint8_t)end->options.ib_port };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (qp->qp_type == IBV_QPT_UD) {
		attr.qkey = QKEY;
		return ibv_modify_qp(qp, &attr, mask | IBV_QP_QKEY);
	}
	return ibv_modify_qp(qp, &attr, mask | IBV_QP_ACCESS_FLAGS);
}

static bool modify_failed(const char *state, int err)
{
	fprintf(stderr, "Failed to modify QP to %s: %s\n", state, strerror(err));
	return false;
}

bool pp_qp_create(struct pp_game *game, struct pp_player *player, enum ibv_qp_type type)
{
	const struct pp_end *end = game->end;
	struct ibv_qp_init_attr attr = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.srq = game->srq,
		.qp_type = type,
		.cap = { .max_send_wr = 1,
			 .max_recv_wr = game->srq ? 0 : end->options.rx_depth,
			 .max_send_sge = 1,
			 .max_recv_sge = game->srq ? 0 : 1 },
	};
	int err;

	player->qp = end->options.new_send ? create_new_send(game, &attr)
					   : ibv_create_qp(end->pd, &attr);
	if (!player->qp) {
		perror("Couldn't create QP");
		return false;
	}
	err = to_init(end, player->qp);
	return err ? modify_failed("INIT", err) : true;
}

struct ibv_ah_attr pp_ah_attr(const struct pp_end *end, const struct pp_address *remote)
{
	struct ibv_ah_attr attr = {
		.dlid = (uint16_t)remote->lid,
		.sl = (uint8_t)end->options.sl,
		.port_num = (uint8_t)end->options.ib_port,
	};

	if (!remote->gid.global.interface_id || end->options.gid_index < 0)
		return attr;
	attr.is_global = 1;
	attr.grh.dgid = remote->gid;
	attr.grh.hop_limit = 64;
	attr.grh.sgid_index = (uint8_t)end->options.gid_index;
	return attr;
}

void pp_hint_gid(const struct pp_end *end)
{
	if (end->port.link_layer == IBV_LINK_LAYER_ETHERNET && end->options.gid_index < 0)
		fprintf(stderr,
			"The link layer of %s is Ethernet: both sides need a GID, "
			"'-g <gid index>'\n",
			ibv_get_device_name(end->context->device));
}

static int to_rtr(const struct pp_end *end, const struct pp_player *player)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = pp_mtu(end->options.mtu),
		.dest_qp_num = player->remote.qpn,
		.rq_psn = player->remote.psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr = pp_ah_attr(end, &player->remote),
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (player->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(player->qp, &attr, mask);
}

static int to_rts(const struct pp_player *player)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = player->local.psn,
		.timeout = ACK_TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = RETRIES,
		.max_rd_atomic = 1,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (player->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(player->qp, &attr, mask);
}

bool pp_qp_connect(struct pp_end *end, struct pp_player *player)
{
	int err = to_rtr(end, player);

	if (err) {
		pp_hint_gid(end);
		return modify_failed("RTR", err);
	}
	err = to_rts(player);
	return err ? modify_failed("RTS", err) : true;
}

bool pp_qp_aim(struct pp_end *end, struct pp_player *player)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR };
	struct ibv_ah_attr ah = pp_ah_attr(end, &player->remote);
	int err = ibv_modify_qp(player->qp, &rtr, IBV_QP_STATE);

	if (err)
		return modify_failed("RTR", err);
	err = to_rts(player);
	if (err)
		return modify_failed("RTS", err);
	player->wr.wr.ud.ah = ibv_create_ah(end->pd, &ah);
	if (!player->wr.wr.ud.ah) {
		pp_hint_gid(end);
		perror("Failed to create AH");
		return false;
	}
	player->wr.wr.ud.remote_qpn = player->remote.qpn;
	player->wr.wr.ud.remote_qkey = QKEY;
	return true;
}
