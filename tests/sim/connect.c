/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs of a world: made, connected, stopped, reset, destroyed. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND
};

enum ibv_qp_state end_state(const struct end *end)
{
	return vb_qp_state(end->qp);
}

static void check(struct end *end, int err, const char *what)
{
	if (err)
		world_fail(end->world, "end %u: %s: %s", end->index, what, strerror(-err));
}

static void to_init(struct end *end)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = end->access,
		.qkey = end->qkey,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		   (end->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);

	check(end, vb_qp_modify(end->qp, &attr, mask), "INIT");
}

static void register_memory(struct end *end)
{
	struct vb_mr_spec spec = { (uintptr_t)end->region, end->region_size, (uintptr_t)end->region,
				   ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL };

	if (end->type == IBV_QPT_UD)
		return;
	check(end, vb_mr_register(end->host->pd, &spec, &end->mr), "region");
	spec.access = IBV_ACCESS_LOCAL_WRITE;
	check(end, vb_mr_register(end->host->pd, &spec, &end->mr_mute), "region");
}

void end_open(struct end *end)
{
	struct ibv_qp_init_attr init = {
		.send_cq = &end->host->cq[end->index % CQS]->ibv,
		.recv_cq = &end->host->cq[end->index / CQS % CQS]->ibv,
		.srq = end->recvq->srq ? &end->recvq->srq->ibv : NULL,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = end->recvq->depth,
			 .max_send_sge = SGES_MAX,
			 .max_recv_sge = SGES_MAX,
			 .max_inline_data = 128 },
		.qp_type = end->type,
	};

	check(end, vb_qp_create(end->host->pd, &init, &end->qp), "QP");
	register_memory(end);
	to_init(end);
}

static void to_rtr(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask = IBV_QP_STATE;

	if (end->type != IBV_QPT_UD) {
		attr.path_mtu = (enum ibv_mtu)(__builtin_ctz(end->mtu) - 7);
		attr.dest_qp_num = end->peer->qp->ibv.qp_num;
		attr.rq_psn = end->rq_psn;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.port_num = 1;
		attr.ah_attr.grh.dgid.raw[15] = (uint8_t)end->peer->host->index;
		attr.ah_attr.grh.sgid_index = (uint8_t)end->host->index;
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	}
	if (end->type == IBV_QPT_RC) {
		attr.max_dest_rd_atomic = end->max_dest_rd_atomic;
		attr.min_rnr_timer = end->min_rnr_timer;
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	check(end, vb_qp_modify(end->qp, &attr, mask), "RTR");
}

/* The wire has it from RTR on: it can receive. */
static void adopt(struct end *end)
{
	struct vb_way way;

	/* UD: the token stays with us, so that posting only appends. */
	if (!vb_qp_token_try(end->qp))
		world_fail(end->world, "end %u: somebody has the token", end->index);
	if (end->type == IBV_QPT_UD) {
		check(end, vb_roce_adopt(&end_core(end)->roce, end->qp, NULL), "adopt");
		return;
	}
	host_way(end->host, end->peer->host->index, end->index * 77, &way);
	check(end, vb_roce_adopt(&end_core(end)->roce, end->qp, &way), "adopt");
}

static void to_rts(struct end *end)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = end->sq_psn,
		.timeout = end->timeout,
		.retry_cnt = end->retry_cnt,
		.rnr_retry = end->rnr_retry,
		.max_rd_atomic = end->max_rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (end->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	check(end, vb_qp_modify(end->qp, &attr, mask), "RTS");
}

static void kick(struct end *end)
{
	struct vb_wired *wired = atomic_load(&end->qp->wired);

	end_core(end)->roce.now_ns = end->world->now_ns;
	if (wired)
		vb_roce_post(wired);
}

void end_connect(struct end *end)
{
	if (end->closed || end_state(end) == IBV_QPS_ERR)
		return;
	if (end_state(end) == IBV_QPS_INIT) {
		to_rtr(end);
		adopt(end);
		event_add(end->world, end->world->now_ns + rng_below(&end->rng, 200000),
			  EVENT_CONNECT, end);
		return;
	}
	to_rts(end);
	kick(end);
	end->ready = true;
	load_begin(end);
}

void end_error(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (end->closed || end_state(end) == IBV_QPS_ERR)
		return;
	world_say(end->world, "end %u to ERR by order", end->index);
	check(end, vb_qp_modify(end->qp, &attr, IBV_QP_STATE), "ERR");
	end->killed = true;
	oracle_tell_peer(end);
	kick(end);
}

void end_pause(struct end *end, bool pause)
{
	struct ibv_qp_attr attr = { .qp_state = pause ? IBV_QPS_SQD : IBV_QPS_RTS };

	if (end->closed || end_state(end) != (pause ? IBV_QPS_RTS : IBV_QPS_SQD))
		return;
	world_say(end->world, "end %u to %s", end->index, pause ? "SQD" : "RTS");
	check(end, vb_qp_modify(end->qp, &attr, IBV_QP_STATE), "SQD");
	kick(end);
}

/* A window on it would keep it: then it stays. */
void end_revoke(struct end *end)
{
	if (end->closed || end->mw || !end->mr)
		return;
	world_say(end->world, "end %u deregisters its region", end->index);
	check(end, vb_mr_deregister(end->mr), "dereg_mr");
	end->mr = NULL;
	end->revoked = true;
	oracle_tell_peer(end); /* a repeated READ is not answered any more */
}

static void reset(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct vb_wired *wired = atomic_load(&end->qp->wired);

	oracle_poll(end->host);
	if (wired)
		vb_roce_drop(wired);
	check(end, vb_qp_modify(end->qp, &attr, IBV_QP_STATE), "RESET");
	oracle_close(end);
	end->closed = true;
}

static struct end *successor(struct end *end)
{
	struct end *next = end_new(end->world, end->host, end->type);

	next->qp = end->qp;
	next->access = end->access;
	if (end->recvq->srq)
		next->recvq = end->recvq;
	else
		next->recvq->depth = end->recvq->depth;
	return next;
}

/* PSNs of packets that are still on their way must not be near those of the new connection. */
void end_reconnect(struct end *end)
{
	struct end *peer = end->peer, *a, *b;
	struct rng rng = rng_fork(&end->rng);

	/* UC starts over with any First or Only, one of the old connection included. */
	if (end->type != IBV_QPT_RC || end->closed || end->world->end_count + 2 > ENDS_MAX ||
	    !end->ready || !peer->ready)
		return;
	world_say(end->world, "ends %u and %u are reset", end->index, peer->index);
	reset(end);
	reset(peer);
	a = successor(end);
	b = successor(peer);
	end_pair(a, b, &rng);
	a->sq_psn = b->rq_psn = (end->sq_psn + (1 << 20)) & VB_PSN_MASK;
	b->sq_psn = a->rq_psn = (peer->sq_psn + (1 << 20)) & VB_PSN_MASK;
	a->planned = b->planned = 4;
	register_memory(a);
	register_memory(b);
	to_init(a);
	to_init(b);
	if (!a->recvq->srq)
		load_receive(a->recvq);
	if (!b->recvq->srq)
		load_receive(b->recvq);
	event_add(end->world, end->world->now_ns, EVENT_CONNECT, a);
	event_add(end->world, end->world->now_ns + rng_below(&rng, 1000000), EVENT_CONNECT, b);
}

void end_destroy(struct end *end)
{
	struct vb_wired *wired;

	for (unsigned i = 0; i < HOSTS_MAX; i++)
		if (end->ah[i])
			vb_ah_destroy(end->ah[i]);
	if (end->mw)
		check(end, vb_mw_dealloc(end->mw), "dealloc_mw");
	if (!end->closed && end->qp) {
		wired = atomic_load(&end->qp->wired);
		if (wired)
			vb_roce_drop(wired);
		vb_qp_close(end->qp, IBV_QPS_RESET);
		vb_qp_withdraw(end->qp);
		vb_qp_destroy(end->qp);
	}
	if (end->mr)
		check(end, vb_mr_deregister(end->mr), "dereg_mr");
	if (end->mr_mute)
		check(end, vb_mr_deregister(end->mr_mute), "dereg_mr");
	for (unsigned i = 0; i < OPS_MAX; i++)
		free(end->ops[i].expected);
	free(end->model);
	free(end);
}
