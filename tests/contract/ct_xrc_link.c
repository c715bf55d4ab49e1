/* SPDX-License-Identifier: BSD-2-Clause */
/* Links of XRC, and the hands of the agent that make what they are made of. */
#include <fcntl.h>
#include <unistd.h>

#include "ct_agent.h"

/* ---- the agent ------------------------------------------------------------------------------- */

static struct ibv_xrcd *open_domain(struct ct_agent *g, const struct ct_msg *m)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = m->xrc.path[0] ? open(m->xrc.path, O_RDONLY | O_CLOEXEC) : -1,
		.oflags = m->xrc.oflags,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(g->ctx, &attr);
	int err = errno;

	if (attr.fd >= 0)
		close(attr.fd); /* the domain does not need it any more */
	errno = err;
	return xrcd;
}

static void create_srq(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = m->xrc.attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = agent_object(g, m->xrc.pd, KIND_PD),
		.xrcd = agent_object(g, m->xrc.xrcd, KIND_XRCD),
		.cq = agent_object(g, m->xrc.cq, KIND_CQ),
	};
	struct ibv_srq *srq = ibv_create_srq_ex(g->ctx, &attr);

	m->ret = agent_keep(g, KIND_SRQ, srq);
	if (srq && ibv_get_srq_num(srq, &m->xrc.number))
		m->ret = -EIO;
}

static struct ibv_qp *create_receiver(struct ct_agent *g, const struct ct_msg *m)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = agent_object(g, m->xrc.xrcd, KIND_XRCD),
	};

	return ibv_create_qp_ex(g->ctx, &attr);
}

static struct ibv_qp *open_receiver(struct ct_agent *g, const struct ct_msg *m)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = m->xrc.number,
		.xrcd = agent_object(g, m->xrc.xrcd, KIND_XRCD),
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(g->ctx, &attr);
}

void agent_xrc(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_qp *qp;

	m->body_bytes = sizeof(m->xrc);
	switch (m->xrc.op) {
	case CT_XRCD:
		m->ret = agent_keep(g, KIND_XRCD, open_domain(g, m));
		return;
	case CT_XRC_SRQ:
		create_srq(g, m);
		return;
	case CT_XRC_RECV:
	case CT_XRC_OPEN:
		qp = m->xrc.op == CT_XRC_RECV ? create_receiver(g, m) : open_receiver(g, m);
		m->ret = agent_keep(g, KIND_QP, qp);
		m->xrc.number = qp ? qp->qp_num : 0;
		return;
	}
}

/* ---- links ----------------------------------------------------------------------------------- */

static void create_a(struct ct *t, struct ct_link *l)
{
	const struct ct_opts *o = &l->o;
	struct ibv_qp_init_attr init = { .cap = o->cap,
					 .qp_type = IBV_QPT_XRC_SEND,
					 .sq_sig_all = o->sq_sig_all };

	if (ct_qp_create(t->near, &init, t->near->pd, o->scq_a ? o->scq_a : t->near->scq, 0, 0,
			 &l->a) < 0)
		ct_fail("an XRC_SEND QP: %s", strerror(-l->a.handle));
	l->a.rcq = t->near->rcq; /* nothing completes there */
}

static void create_b(struct ct *t, struct ct_link *l)
{
	const struct ct_opts *o = &l->o;
	int rcq = o->rcq_b ? o->rcq_b : t->far->rcq;
	int xrcd = ct_open_xrcd(t->far, NULL, O_CREAT);
	uint32_t srqn;
	int srq;

	if (xrcd < 0)
		ct_fail("open_xrcd: %s", strerror(-xrcd));
	if (ct_create_xrc_recv(t->far, xrcd, &l->b) < 0)
		ct_fail("an XRC_RECV QP: %s", strerror(-l->b.handle));
	srq = ct_create_xrc_srq(t->far, xrcd, t->far->pd, rcq,
				o->cap.max_recv_wr ? o->cap.max_recv_wr : 1, o->cap.max_recv_sge,
				&srqn);
	if (srq < 0)
		ct_fail("an XRC SRQ: %s", strerror(-srq));
	l->b.srq = srq;
	l->b.srqn = srqn;
	l->b.scq = t->far->scq;
	l->b.rcq = rcq;
	l->b.cap = o->cap;
}

void ct_xrc_link_create(struct ct *t, struct ct_link *l)
{
	if (l->o.srq_a || l->o.srq_b)
		ct_skip("an XRC QP has no SRQ of its own");
	create_a(t, l);
	create_b(t, l);
	l->a.access = l->o.access_a;
	l->b.access = l->o.access_b;
}
