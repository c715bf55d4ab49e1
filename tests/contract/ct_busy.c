/* SPDX-License-Identifier: BSD-2-Clause */
/* An object in use cannot be destroyed: EBUSY, returned and in errno, and it stays usable. */
#include <stdlib.h>

#include "ct.h"

struct world {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};

static void world_make(struct ct *t, struct world *w)
{
	w->ctx = ct_context(t->near);
	w->pd = ibv_alloc_pd(w->ctx);
	w->cq = ibv_create_cq(w->ctx, 16, NULL, NULL, 0);
	CT_TRUE(w->pd && w->cq);
}

static void world_end(struct world *w)
{
	CT_EQ(ibv_dealloc_pd(w->pd), 0);
	CT_EQ(ibv_destroy_cq(w->cq), 0);
}

static struct ibv_qp *make_qp(struct world *w, enum ibv_qp_type type, struct ibv_cq *scq,
			      struct ibv_cq *rcq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .send_cq = scq,
					 .recv_cq = rcq,
					 .srq = srq,
					 .qp_type = type,
					 .cap = { 4, srq ? 0 : 4, 1, srq ? 0 : 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(w->pd, &init);

	CT_TRUE(qp != NULL);
	return qp;
}

static void pd_with_mr(struct ct *t)
{
	static uint8_t buffer[100];
	struct world w;
	struct ibv_mr *mr;

	world_make(t, &w);
	mr = ibv_reg_mr(w.pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	CT_TRUE(mr != NULL);
	CT_ERROR(ibv_dealloc_pd(w.pd), EBUSY);
	CT_EQ(ibv_dereg_mr(mr), 0);
	world_end(&w);
}

static void pd_with_mw(struct ct *t)
{
	struct world w;
	struct ibv_mw *mw;

	world_make(t, &w);
	mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_1);
	if (!mw && errno == EOPNOTSUPP)
		ct_skip("the device has no memory windows");
	CT_TRUE(mw != NULL);
	CT_ERROR(ibv_dealloc_pd(w.pd), EBUSY);
	CT_EQ(ibv_dealloc_mw(mw), 0);
	world_end(&w);
}

static void pd_with_ah(struct ct *t)
{
	struct ibv_ah_attr attr;
	struct world w;
	struct ibv_ah *ah;

	world_make(t, &w);
	ct_address(t->near, t->near, &attr);
	ah = ibv_create_ah(w.pd, &attr);
	CT_TRUE(ah != NULL);
	CT_ERROR(ibv_dealloc_pd(w.pd), EBUSY);
	CT_EQ(ibv_destroy_ah(ah), 0);
	world_end(&w);
}

static void pd_with_qp(struct ct *t)
{
	struct world w;
	struct ibv_qp *qp;

	world_make(t, &w);
	qp = make_qp(&w, IBV_QPT_RC, w.cq, w.cq, NULL);
	CT_ERROR(ibv_dealloc_pd(w.pd), EBUSY);
	CT_EQ(ibv_destroy_qp(qp), 0);
	world_end(&w);
}

static struct ibv_srq *make_srq(struct world *w)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(w->pd, &init);

	CT_TRUE(srq != NULL);
	return srq;
}

static void pd_with_srq(struct ct *t)
{
	struct world w;
	struct ibv_srq *srq;

	world_make(t, &w);
	srq = make_srq(&w);
	CT_ERROR(ibv_dealloc_pd(w.pd), EBUSY);
	CT_EQ(ibv_destroy_srq(srq), 0);
	world_end(&w);
}

static void cq_with_qp(struct ct *t)
{
	struct world w;
	struct ibv_cq *other;
	struct ibv_qp *qp;
	struct ibv_wc wc;

	world_make(t, &w);
	other = ibv_create_cq(w.ctx, 16, NULL, NULL, 0);
	qp = make_qp(&w, IBV_QPT_RC, w.cq, other, NULL);
	CT_ERROR(ibv_destroy_cq(w.cq), EBUSY);
	CT_ERROR(ibv_destroy_cq(other), EBUSY);
	CT_EQ(ibv_poll_cq(w.cq, 1, &wc), 0);
	CT_EQ(ibv_destroy_qp(qp), 0);
	CT_EQ(ibv_destroy_cq(other), 0);
	world_end(&w);
}

static void srq_with_qp(struct ct *t)
{
	struct world w;
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	world_make(t, &w);
	srq = make_srq(&w);
	qp = make_qp(&w, IBV_QPT_RC, w.cq, w.cq, srq);
	CT_ERROR(ibv_destroy_srq(srq), EBUSY);
	CT_EQ(ibv_destroy_qp(qp), 0);
	CT_EQ(ibv_destroy_srq(srq), 0);
	world_end(&w);
}

static void channel_with_cq(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, channel, 0);

	CT_TRUE(channel && cq);
	CT_ERROR(ibv_destroy_comp_channel(channel), EBUSY);
	CT_EQ(ibv_destroy_cq(cq), 0);
	CT_EQ(ibv_destroy_comp_channel(channel), 0);
}

static void qp_in_a_multicast_group(struct ct *t)
{
	union ibv_gid mgid = { .raw = { 0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct world w;
	struct ibv_qp *qp;
	int ret;

	world_make(t, &w);
	qp = make_qp(&w, IBV_QPT_UD, w.cq, w.cq, NULL);
	CT_EQ(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	      0);
	ret = ibv_attach_mcast(qp, &mgid, 0);
	if (ret == EOPNOTSUPP || ret == ENOSYS)
		ct_skip("the device has no multicast");
	CT_EQ(ret, 0);
	CT_ERROR(ibv_destroy_qp(qp), EBUSY);
	CT_EQ(ibv_detach_mcast(qp, &mgid, 0), 0);
	CT_TRUE(ibv_detach_mcast(qp, &mgid, 0) != 0); /* not attached any more */
	CT_EQ(ibv_destroy_qp(qp), 0);
	world_end(&w);
}

static void multicast_is_for_ud(struct ct *t)
{
	union ibv_gid mgid = { .raw = { 0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	struct world w;
	struct ibv_qp *qp;

	world_make(t, &w);
	qp = make_qp(&w, IBV_QPT_RC, w.cq, w.cq, NULL);
	CT_EQ(ibv_attach_mcast(qp, &mgid, 0), EINVAL);
	CT_EQ(ibv_destroy_qp(qp), 0);
	world_end(&w);
}

const struct ct_case ct_busy_cases[] = {
	{ "dealloc_pd with an MR is EBUSY", pd_with_mr, CT_SOLO },
	{ "dealloc_pd with an MW is EBUSY", pd_with_mw, CT_SOLO },
	{ "dealloc_pd with an AH is EBUSY", pd_with_ah, CT_SOLO },
	{ "dealloc_pd with a QP is EBUSY", pd_with_qp, CT_SOLO },
	{ "dealloc_pd with an SRQ is EBUSY", pd_with_srq, CT_SOLO },
	{ "destroy_cq with a QP on either side is EBUSY", cq_with_qp, CT_SOLO },
	{ "destroy_srq with a QP is EBUSY", srq_with_qp, CT_SOLO },
	{ "destroy_comp_channel with a CQ is EBUSY", channel_with_cq, CT_SOLO },
	{ "destroy_qp in a multicast group is EBUSY", qp_in_a_multicast_group, CT_SOLO },
	{ "multicast groups are for UD only", multicast_is_for_ud, CT_SOLO },
	{ 0 },
};
