/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A kernel knows objects by their handles. Control calls answer an error for an object that is
 * gone, whose handle or context was overwritten, or that belongs to another context.
 */
#include "ct.h"

struct world {
	struct ibv_context *ctx;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_ah *ah;
	struct ibv_dm *dm;
	struct ibv_xrcd *xrcd;
	struct ibv_td *td;
};

static uint8_t buffer[4096];

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *send_cq, struct ibv_cq *recv_cq,
			      struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .send_cq = send_cq,
					 .recv_cq = recv_cq,
					 .srq = srq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };

	return ibv_create_qp(pd, &init);
}

static struct ibv_srq *make_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };

	return ibv_create_srq(pd, &init);
}

static struct ibv_ah *make_ah(struct ct *t, struct ibv_pd *pd)
{
	struct ibv_ah_attr attr;

	ct_address(t->near, t->near, &attr);
	return ibv_create_ah(pd, &attr);
}

static void world_make(struct ct *t, struct world *w)
{
	struct ibv_xrcd_init_attr xrcd = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1,
					   0 };
	struct ibv_alloc_dm_attr dm = { .length = 64 };
	struct ibv_td_init_attr td = { 0 };

	w->ctx = ibv_open_device(ct_context(t->near)->device);
	CT_TRUE(w->ctx != NULL);
	w->channel = ibv_create_comp_channel(w->ctx);
	w->pd = ibv_alloc_pd(w->ctx);
	w->cq = ibv_create_cq(w->ctx, 16, NULL, w->channel, 0);
	CT_TRUE(w->channel && w->pd && w->cq);
	w->srq = make_srq(w->pd);
	w->qp = make_qp(w->pd, w->cq, w->cq, NULL);
	w->mr = ibv_reg_mr(w->pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	w->mw = ibv_alloc_mw(w->pd, IBV_MW_TYPE_1);
	w->ah = make_ah(t, w->pd);
	w->dm = ibv_alloc_dm(w->ctx, &dm);
	w->xrcd = ibv_open_xrcd(w->ctx, &xrcd);
	w->td = ibv_alloc_td(w->ctx, &td);
	CT_TRUE(w->srq && w->qp && w->mr && w->mw && w->ah && w->dm && w->xrcd && w->td);
}

static void world_end(struct world *w)
{
	CT_EQ(ibv_dealloc_td(w->td), 0);
	CT_EQ(ibv_close_xrcd(w->xrcd), 0);
	CT_EQ(ibv_free_dm(w->dm), 0);
	CT_EQ(ibv_destroy_ah(w->ah), 0);
	CT_EQ(ibv_dealloc_mw(w->mw), 0);
	CT_EQ(ibv_dereg_mr(w->mr), 0);
	CT_EQ(ibv_destroy_qp(w->qp), 0);
	CT_EQ(ibv_destroy_srq(w->srq), 0);
	CT_EQ(ibv_destroy_cq(w->cq), 0);
	CT_EQ(ibv_dealloc_pd(w->pd), 0);
	CT_EQ(ibv_destroy_comp_channel(w->channel), 0);
	CT_EQ(ibv_close_device(w->ctx), 0);
}

/* --- calls that use an object or end it; each has its place in the world --- */

static int use_pd(struct world *w)
{
	return ibv_reg_mr(w->pd, buffer, 1, 0) ? 0 : errno;
}

static int create_in_pd(struct world *w)
{
	return make_qp(w->pd, w->cq, w->cq, NULL) ? 0 : errno;
}

static int create_srq_in_pd(struct world *w)
{
	return make_srq(w->pd) ? 0 : errno;
}

static int alloc_null_mr_in_pd(struct world *w)
{
	return ibv_alloc_null_mr(w->pd) ? 0 : errno;
}

static int dealloc_pd(struct world *w)
{
	return ibv_dealloc_pd(w->pd);
}

static int rereg_mr(struct world *w)
{
	return ibv_rereg_mr(w->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) ? errno : 0;
}

static int dereg_mr(struct world *w)
{
	return ibv_dereg_mr(w->mr);
}

static int dealloc_mw(struct world *w)
{
	return ibv_dealloc_mw(w->mw);
}

static int create_with_cq(struct world *w)
{
	return make_qp(w->pd, w->cq, w->cq, NULL) ? 0 : errno;
}

static int resize_cq(struct world *w)
{
	return ibv_resize_cq(w->cq, 8);
}

static int modify_cq(struct world *w)
{
	struct ibv_modify_cq_attr attr = { 0 };

	return ibv_modify_cq(w->cq, &attr);
}

static int destroy_cq(struct world *w)
{
	return ibv_destroy_cq(w->cq);
}

static int create_with_srq(struct world *w)
{
	return make_qp(w->pd, w->cq, w->cq, w->srq) ? 0 : errno;
}

static int modify_srq(struct world *w)
{
	struct ibv_srq_attr attr = { .srq_limit = 1 };

	return ibv_modify_srq(w->srq, &attr, IBV_SRQ_LIMIT);
}

static int query_srq(struct world *w)
{
	struct ibv_srq_attr attr;

	return ibv_query_srq(w->srq, &attr);
}

static int destroy_srq(struct world *w)
{
	return ibv_destroy_srq(w->srq);
}

static int modify_qp(struct world *w)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	return ibv_modify_qp(w->qp, &attr, IBV_QP_STATE);
}

static int query_qp(struct world *w)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(w->qp, &attr, IBV_QP_STATE, &init);
}

static int attach_mcast(struct world *w)
{
	union ibv_gid mgid = { .raw = { 0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3 } };

	return ibv_attach_mcast(w->qp, &mgid, 0);
}

static int destroy_qp(struct world *w)
{
	return ibv_destroy_qp(w->qp);
}

static int destroy_ah(struct world *w)
{
	return ibv_destroy_ah(w->ah);
}

static int reg_dm(struct world *w)
{
	return ibv_reg_dm_mr(w->pd, w->dm, 0, 64, IBV_ACCESS_ZERO_BASED) ? 0 : errno;
}

static int free_dm(struct world *w)
{
	return ibv_free_dm(w->dm);
}

struct call { /* and where the handle of the object lies that it is about */
	const char *name;
	int (*call)(struct world *w);
	size_t object;          /* in the world */
	size_t handle, context; /* in the object */
	int answer;
};

/* clang-format off */
#define CALL(function, field, type, error)                                                         \
	{                                                                                          \
#function, function, offsetof(struct world, field), offsetof(struct type, handle), \
			offsetof(struct type, context), error                                      \
	}
/* clang-format on */

static const struct call calls[] = {
	CALL(use_pd, pd, ibv_pd, EINVAL),
	CALL(create_in_pd, pd, ibv_pd, EINVAL),
	CALL(create_srq_in_pd, pd, ibv_pd, EINVAL),
	CALL(alloc_null_mr_in_pd, pd, ibv_pd, EINVAL),
	CALL(dealloc_pd, pd, ibv_pd, ENOENT),
	CALL(rereg_mr, mr, ibv_mr, EINVAL),
	CALL(dereg_mr, mr, ibv_mr, ENOENT),
	CALL(dealloc_mw, mw, ibv_mw, ENOENT),
	CALL(create_with_cq, cq, ibv_cq, EINVAL),
	CALL(resize_cq, cq, ibv_cq, EINVAL),
	CALL(modify_cq, cq, ibv_cq, EINVAL),
	CALL(destroy_cq, cq, ibv_cq, ENOENT),
	CALL(create_with_srq, srq, ibv_srq, EINVAL),
	CALL(modify_srq, srq, ibv_srq, EINVAL),
	CALL(query_srq, srq, ibv_srq, EINVAL),
	CALL(destroy_srq, srq, ibv_srq, ENOENT),
	CALL(modify_qp, qp, ibv_qp, EINVAL),
	CALL(query_qp, qp, ibv_qp, EINVAL),
	CALL(attach_mcast, qp, ibv_qp, EINVAL),
	CALL(destroy_qp, qp, ibv_qp, ENOENT),
	CALL(destroy_ah, ah, ibv_ah, ENOENT),
	CALL(reg_dm, dm, ibv_dm, EINVAL),
	CALL(free_dm, dm, ibv_dm, ENOENT),
};

static void expect(const struct call *call, struct world *w)
{
	int answer = call->call(w);

	if (answer != call->answer)
		ct_fail("%s answers %d, not %d", call->name, answer, call->answer);
}

static void overwritten_handles(struct ct *t)
{
	struct world w;

	world_make(t, &w);
	for (int i = 0; i < CT_COUNT(calls); i++) {
		char *object = *(char **)((char *)&w + calls[i].object);
		uint32_t *handle = (uint32_t *)(object + calls[i].handle), right = *handle;

		*handle = right ^ 0x40000000;
		expect(&calls[i], &w);
		*handle = UINT32_MAX;
		expect(&calls[i], &w);
		*handle = right;
	}
	world_end(&w);
}

/* Another context that exists: calls through it reach the library. */
static void overwritten_contexts(struct ct *t)
{
	struct world w;

	world_make(t, &w);
	for (int i = 0; i < CT_COUNT(calls); i++) {
		char *object = *(char **)((char *)&w + calls[i].object);
		struct ibv_context **context = (struct ibv_context **)(object + calls[i].context);

		*context = ct_context(t->near);
		expect(&calls[i], &w);
		*context = w.ctx;
	}
	world_end(&w);
}

static void destroyed_twice(struct ct *t)
{
	struct world w, gone;

	world_make(t, &w);
	gone = w;
	world_end(&w);
	CT_ERROR(ibv_destroy_ah(gone.ah), ENOENT);
	CT_ERROR(ibv_dereg_mr(gone.mr), ENOENT);
	CT_ERROR(ibv_destroy_qp(gone.qp), ENOENT);
	CT_ERROR(ibv_destroy_srq(gone.srq), ENOENT);
	CT_ERROR(ibv_destroy_cq(gone.cq), ENOENT);
	CT_ERROR(ibv_dealloc_pd(gone.pd), ENOENT);
	CT_ERROR(ibv_destroy_comp_channel(gone.channel), ENOENT);
	CT_EQ(ibv_close_device(gone.ctx), -1);
	CT_EQ(errno, EINVAL);
	CT_NULL(ibv_alloc_pd(gone.ctx), EINVAL);
	CT_NULL(ibv_create_cq(gone.ctx, 4, NULL, NULL, 0), EINVAL);
	CT_ERROR(ibv_destroy_qp(NULL), ENOENT);
	CT_NULL(ibv_alloc_pd(NULL), EINVAL);
}

/* What cannot go because it is in use stays what it was. */
static void a_busy_one_stays(struct ct *t)
{
	struct world w;

	world_make(t, &w);
	CT_ERROR(ibv_destroy_cq(w.cq), EBUSY);
	CT_ERROR(ibv_dealloc_pd(w.pd), EBUSY);
	CT_ERROR(ibv_destroy_comp_channel(w.channel), EBUSY);
	CT_EQ(ibv_resize_cq(w.cq, 8), 0);
	world_end(&w);
}

static void objects_of_two_contexts(struct ct *t)
{
	struct ibv_srq_init_attr_ex srq = { .attr = { .max_wr = 4, .max_sge = 1 },
					    .comp_mask =
						    IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
						    IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					    .srq_type = IBV_SRQT_XRC };
	struct ibv_parent_domain_init_attr parent = { 0 };
	struct world a, b;

	world_make(t, &a);
	world_make(t, &b);
	CT_NULL(make_qp(a.pd, b.cq, a.cq, NULL), EINVAL);
	CT_NULL(make_qp(a.pd, a.cq, b.cq, NULL), EINVAL);
	CT_NULL(make_qp(a.pd, a.cq, a.cq, b.srq), EINVAL);
	CT_NULL(ibv_create_cq(a.ctx, 4, NULL, b.channel, 0), EINVAL);
	CT_NULL(ibv_reg_dm_mr(a.pd, b.dm, 0, 64, IBV_ACCESS_ZERO_BASED), EINVAL);
	CT_EQ(ibv_rereg_mr(a.mr, IBV_REREG_MR_CHANGE_PD, b.pd, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	srq.pd = a.pd;
	srq.cq = a.cq;
	srq.xrcd = b.xrcd;
	CT_NULL(ibv_create_srq_ex(a.ctx, &srq), EINVAL);
	srq.cq = b.cq;
	srq.xrcd = a.xrcd;
	CT_NULL(ibv_create_srq_ex(a.ctx, &srq), EINVAL);
	parent.pd = a.pd;
	parent.td = b.td;
	CT_NULL(ibv_alloc_parent_domain(a.ctx, &parent), EINVAL);
	parent.pd = b.pd;
	parent.td = NULL;
	CT_NULL(ibv_alloc_parent_domain(a.ctx, &parent), EINVAL);
	world_end(&a);
	world_end(&b);
}

static void extended_objects_of_two_contexts(struct ct *t)
{
	struct ibv_srq_init_attr_ex tags = { .attr = { .max_wr = 4, .max_sge = 1 },
					     .comp_mask =
						     IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
						     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
					     .srq_type = IBV_SRQT_TM,
					     .tm_cap = { 4, 4 } };
	struct ibv_qp_init_attr_ex qp = { .cap = { 4, 4, 1, 1, 0 },
					  .qp_type = IBV_QPT_RC,
					  .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct ibv_qp_open_attr open = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE,
					 .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_parent_domain_init_attr parent = { 0 };
	struct ibv_cq_init_attr_ex cq = { .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_qp *receiver;
	struct world a, b;

	world_make(t, &a);
	world_make(t, &b);
	tags.pd = a.pd;
	tags.cq = b.cq;
	CT_NULL(ibv_create_srq_ex(a.ctx, &tags), EINVAL);
	tags.pd = b.pd;
	tags.cq = a.cq;
	CT_NULL(ibv_create_srq_ex(a.ctx, &tags), EINVAL);
	qp.pd = b.pd;
	qp.send_cq = qp.recv_cq = b.cq;
	CT_NULL(verbs_get_ctx(a.ctx)->create_qp_ex(a.ctx, &qp), EINVAL);
	qp.pd = a.pd;
	CT_NULL(verbs_get_ctx(a.ctx)->create_qp_ex(a.ctx, &qp), EINVAL);
	parent.pd = b.pd;
	cq.parent_domain = ibv_alloc_parent_domain(b.ctx, &parent);
	CT_TRUE(cq.parent_domain != NULL);
	CT_NULL(ibv_create_cq_ex(a.ctx, &cq), EINVAL);
	CT_EQ(ibv_dealloc_pd(cq.parent_domain), 0);
	cq = (struct ibv_cq_init_attr_ex){ .cqe = 4, .channel = b.channel };
	CT_NULL(ibv_create_cq_ex(a.ctx, &cq), EINVAL);
	qp = (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_XRC_RECV,
					   .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					   .xrcd = b.xrcd };
	CT_NULL(ibv_create_qp_ex(a.ctx, &qp), EINVAL);
	receiver = ibv_create_qp_ex(b.ctx, &qp);
	CT_TRUE(receiver != NULL);
	open.qp_num = receiver->qp_num;
	open.xrcd = b.xrcd;
	CT_NULL(ibv_open_qp(a.ctx, &open), EINVAL);
	open.xrcd = a.xrcd; /* a domain that the QP is not in */
	CT_NULL(ibv_open_qp(a.ctx, &open), EINVAL);
	CT_EQ(ibv_destroy_qp(receiver), 0);
	world_end(&a);
	world_end(&b);
}

static struct ibv_wq *make_wq(struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_wq_init_attr init = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq
	};

	return ibv_create_wq(ctx, &init);
}

static void work_queues_of_two_contexts(struct ct *t)
{
	static uint8_t key[40];
	struct ibv_rwq_ind_table_init_attr attr = { 0 };
	struct ibv_qp_init_attr_ex qp = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, 0 },
	};
	struct ibv_rwq_ind_table *table;
	struct ibv_wq *wq;
	struct world a, b;

	world_make(t, &a);
	world_make(t, &b);
	CT_NULL(make_wq(a.ctx, a.pd, b.cq), EINVAL);
	CT_NULL(make_wq(a.ctx, b.pd, a.cq), EINVAL);
	wq = make_wq(b.ctx, b.pd, b.cq);
	CT_TRUE(wq != NULL);
	attr.ind_tbl = &wq;
	CT_NULL(ibv_create_rwq_ind_table(a.ctx, &attr), EINVAL);
	table = ibv_create_rwq_ind_table(b.ctx, &attr);
	CT_TRUE(table != NULL);
	qp.pd = a.pd;
	qp.rwq_ind_tbl = table;
	CT_NULL(ibv_create_qp_ex(a.ctx, &qp), EINVAL);
	CT_NULL(ibv_create_qp_ex(b.ctx, &qp), EINVAL);
	CT_EQ(ibv_destroy_rwq_ind_table(table), 0);
	CT_EQ(ibv_destroy_wq(wq), 0);
	world_end(&a);
	world_end(&b);
}

/* Keys are found by number, whatever device they are of, and address handles are the program's own
 * memory on a NIC: the PD tells. */
static void work_requests_with_objects_of_another_context(struct ct *t)
{
	struct ct_link l;
	struct world w;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	world_make(t, &w);
	ct_link_open(t, &l, NULL);
	sge = (struct ibv_sge){ (uintptr_t)buffer, 8, w.mr->lkey };
	wr = ct_wr(&l, IBV_WR_SEND, 1, &sge, 1);
	if (t->type == IBV_QPT_UD) {
		struct ibv_send_wr *bad;

		wr.wr.ud.ah = w.ah;
		sge = ct_sge(t->near, 0, 8);
		CT_EQ(ibv_post_send(ct_object(t->near, l.a.handle), &wr, &bad), 0);
	} else {
		ct_post(&l.a, &wr);
	}
	ct_sent(&l, 1, t->type == IBV_QPT_UD ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR);
	world_end(&w);
}

/* Above 24 bits there are none, whatever the lower ones name. */
static void numbers_beyond_24_bits(struct ct *t)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_qp_open_attr attr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE,
					 .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp *qp, *again;
	struct world w;

	world_make(t, &w);
	init.xrcd = attr.xrcd = w.xrcd;
	qp = ibv_create_qp_ex(w.ctx, &init);
	CT_TRUE(qp != NULL);
	attr.qp_num = qp->qp_num | 1u << 24;
	CT_NULL(ibv_open_qp(w.ctx, &attr), EINVAL);
	attr.qp_num = qp->qp_num;
	again = ibv_open_qp(w.ctx, &attr);
	CT_TRUE(again != NULL);
	CT_EQ(ibv_destroy_qp(again), 0);
	CT_EQ(ibv_destroy_qp(qp), 0);
	world_end(&w);
}

/* One byte of it is stored: what lies above counts as well. */
static void types_beyond_a_byte(struct ct *t)
{
	struct world w;

	world_make(t, &w);
	for (int type = 0x100; type < 0x110; type++) {
		struct ibv_qp_init_attr init = { .send_cq = w.cq,
						 .recv_cq = w.cq,
						 .cap = { 4, 4, 1, 1, 0 },
						 .qp_type = (enum ibv_qp_type)type };

		CT_NULL(ibv_create_qp(w.pd, &init), EOPNOTSUPP);
		init.qp_type = (enum ibv_qp_type)(type | 0x40000000);
		CT_NULL(ibv_create_qp(w.pd, &init), EOPNOTSUPP);
	}
	world_end(&w);
}

const struct ct_case ct_handle_cases[] = {
	{ "a handle that was never given out is refused", overwritten_handles, CT_SOLO },
	{ "an object whose context was overwritten is refused", overwritten_contexts, CT_SOLO },
	{ "what is destroyed cannot be destroyed again", destroyed_twice, CT_SOLO },
	{ "what could not be destroyed stays usable", a_busy_one_stays, CT_SOLO },
	{ "objects of two contexts do not mix", objects_of_two_contexts, CT_SOLO },
	{ "objects of two contexts do not mix in extended calls", extended_objects_of_two_contexts,
	  CT_SOLO },
	{ "work queues and tables of two contexts do not mix", work_queues_of_two_contexts,
	  CT_SOLO },
	{ "work requests take no object of another context",
	  work_requests_with_objects_of_another_context, CT_RC | CT_UC | CT_UD },
	{ "a QP number has 24 bits", numbers_beyond_24_bits, CT_SOLO },
	{ "a QP type counts with all its bits", types_beyond_a_byte, CT_SOLO },
	{ 0 },
};
