/* SPDX-License-Identifier: BSD-2-Clause */
/* Making and connecting queue pairs, in the order in which programs do it. */
#include <sched.h>

#include "ct.h"

struct ct_opts ct_defaults(const struct ct *t)
{
	return (struct ct_opts){
		.type = t->type,
		.cap = { .max_send_wr = 64,
			 .max_recv_wr = 64,
			 .max_send_sge = 4,
			 .max_recv_sge = 4,
			 .max_inline_data = 64 },
		.access_a = CT_ACCESS_REMOTE,
		.access_b = CT_ACCESS_REMOTE,
		.mtu = IBV_MTU_1024,
		.timeout = 18, /* 1 s, eight times: no machine is that slow */
		.retry_cnt = 7,
		.rnr_retry = 7,     /* for ever */
		.min_rnr_timer = 1, /* 10 us */
		.max_rd_atomic = 8,
		.max_dest_rd_atomic = 8,
	};
}

static void create(struct ct_end *e, const struct ct_opts *o, int scq, int rcq, int srq,
		   struct ct_qp *qp)
{
	struct ibv_qp_init_attr init = { .cap = o->cap,
					 .qp_type = o->type,
					 .sq_sig_all = o->sq_sig_all };

	if (ct_qp_create(e, &init, e->pd, scq ? scq : e->scq, rcq ? rcq : e->rcq, srq, qp) < 0)
		ct_fail("create_qp at the %s end: %s", e->name, strerror(-qp->handle));
}

/* On RoCE every address carries a GRH; on InfiniBand a LID is enough. */
void ct_address(const struct ct_end *from, const struct ct_end *to, struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){ .port_num = 1, .dlid = to->port.lid };
	if (from->port.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return;
	ah->is_global = 1;
	ah->grh.dgid = to->gid;
	ah->grh.sgid_index = from->gid_index;
	ah->grh.hop_limit = 64;
}

static int make_ah(struct ct_end *from, struct ct_end *to)
{
	struct ibv_ah_attr attr;
	int ah;

	ct_address(from, to, &attr);
	ah = ct_create_ah(from, from->pd, &attr);
	if (ah < 0)
		ct_fail("create_ah: %s", strerror(-ah));
	return ah;
}

void ct_link_create(struct ct *t, struct ct_link *l, const struct ct_opts *o)
{
	*l = (struct ct_link){ .o = o ? *o : ct_defaults(t) };
	o = &l->o;
	if (o->type == IBV_QPT_XRC_SEND) {
		ct_xrc_link_create(t, l);
		return;
	}
	create(t->near, o, o->scq_a, o->rcq_a, o->srq_a, &l->a);
	create(t->far, o, o->scq_b, o->rcq_b, o->srq_b, &l->b);
	l->a.access = o->access_a;
	l->b.access = o->access_b;
	if (o->type != IBV_QPT_UD)
		return;
	l->ah_a = make_ah(t->near, t->far);
	l->ah_b = make_ah(t->far, t->near);
}

void ct_link_connect(struct ct_link *l)
{
	ct_init(&l->a);
	ct_init(&l->b);
	ct_rtr(&l->a, &l->b, &l->o);
	ct_rtr(&l->b, &l->a, &l->o);
	ct_rts(&l->a, &l->o);
	ct_rts(&l->b, &l->o);
}

void ct_link_open(struct ct *t, struct ct_link *l, const struct ct_opts *o)
{
	ct_link_create(t, l, o);
	ct_link_connect(l);
}

struct ct_link ct_reverse(const struct ct_link *l)
{
	if (l->a.type == IBV_QPT_XRC_SEND)
		ct_skip("a connection of XRC goes one way");
	return (struct ct_link){
		.o = l->o, .a = l->b, .b = l->a, .ah_a = l->ah_b, .ah_b = l->ah_a
	};
}

/* ---- transitions ----------------------------------------------------------------------------- */

int ct_attr_init(const struct ct_qp *qp, struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT,
				      .port_num = 1,
				      .qkey = CT_QKEY,
				      .qp_access_flags = qp->access };
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	       (qp->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

int ct_attr_rtr(const struct ct_qp *qp, const struct ct_qp *peer, const struct ct_opts *o,
		struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR };
	if (qp->type == IBV_QPT_UD)
		return IBV_QP_STATE;
	ct_address(qp->end, peer->end, &attr->ah_attr);
	attr->path_mtu = o->mtu;
	attr->dest_qp_num = peer->qpn;
	attr->rq_psn = peer->psn;
	attr->max_dest_rd_atomic = o->max_dest_rd_atomic;
	attr->min_rnr_timer = o->min_rnr_timer;
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_RECV
			? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
			: 0);
}

int ct_attr_rts(const struct ct_qp *qp, const struct ct_opts *o, struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				      .sq_psn = qp->psn,
				      .timeout = o->timeout,
				      .retry_cnt = o->retry_cnt,
				      .rnr_retry = o->rnr_retry,
				      .max_rd_atomic = o->max_rd_atomic };
	if (qp->type == IBV_QPT_XRC_RECV)
		return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
	return IBV_QP_STATE | IBV_QP_SQ_PSN |
	       (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND
			? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_MAX_QP_RD_ATOMIC
			: 0);
}

static void modify(const struct ct_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int ret = ct_modify_qp(qp, attr, mask);

	if (ret)
		ct_fail("modify_qp of the %s end to state %d: %s", qp->end->name, attr->qp_state,
			strerror(ret));
}

void ct_init(const struct ct_qp *qp)
{
	struct ibv_qp_attr attr;
	int mask = ct_attr_init(qp, &attr);

	modify(qp, &attr, mask);
}

void ct_rtr(const struct ct_qp *qp, const struct ct_qp *peer, const struct ct_opts *o)
{
	struct ibv_qp_attr attr;
	int mask = ct_attr_rtr(qp, peer, o, &attr);

	modify(qp, &attr, mask);
}

void ct_rts(const struct ct_qp *qp, const struct ct_opts *o)
{
	struct ibv_qp_attr attr;
	int mask = ct_attr_rts(qp, o, &attr);

	modify(qp, &attr, mask);
}

int ct_to_state(const struct ct_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ct_modify_qp(qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state ct_qp_state(const struct ct_qp *qp)
{
	struct ibv_qp_attr attr;
	int ret = ct_query_qp(qp, &attr, NULL);

	if (ret)
		ct_fail("query_qp: %s", strerror(ret));
	return attr.qp_state;
}

void ct_wait_state(const struct ct_qp *qp, enum ibv_qp_state state)
{
	double deadline_s = ct_now_s() + CT_DEADLINE_MS / 1e3;
	enum ibv_qp_state now;

	while ((now = ct_qp_state(qp)) != state) {
		if (ct_now_s() > deadline_s)
			ct_fail("the QP of the %s end is in state %d and not in %d", qp->end->name,
				now, state);
		sched_yield();
	}
}
