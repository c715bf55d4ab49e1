/* SPDX-License-Identifier: BSD-2-Clause */
/* Experimental verbs: queue pairs. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "legacy.h"

static_assert(offsetof(struct ibv_exp_qp_attr, alt_timeout) ==
			      offsetof(struct ibv_qp_attr, alt_timeout) &&
		      offsetof(struct ibv_exp_qp_attr, cap) == offsetof(struct ibv_qp_attr, cap),
	      "it begins like today's");

enum {
	MEMBERS = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_XRCD |
		  IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_INL_RECV |
		  IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS |
		  IBV_EXP_QP_INIT_ATTR_RES_DOMAIN,
	FLAGS = IBV_EXP_QP_CREATE_UMR | IBV_EXP_QP_CREATE_CROSS_CHANNEL |
		IBV_EXP_QP_CREATE_MANAGED_SEND | IBV_EXP_QP_CREATE_MANAGED_RECV,
};

static uint32_t flags_of(const struct ibv_exp_qp_init_attr *attr)
{
	return attr->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS ? attr->exp_create_flags : 0;
}

/* False: the QP needs nothing that ibv_create_qp_ex does not give. */
static bool wants_more(const struct ibv_exp_qp_init_attr *attr, struct vb_extended_qp *more)
{
	*more = (struct vb_extended_qp){ 0 };
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG)
		more->max_atomic_arg = attr->max_atomic_arg;
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS)
		more->max_inline_parts = attr->max_inl_send_klms;
	more->umr = flags_of(attr) & IBV_EXP_QP_CREATE_UMR;
	more->cross = flags_of(attr) & IBV_EXP_QP_CREATE_CROSS_CHANNEL;
	more->managed_sends = flags_of(attr) & IBV_EXP_QP_CREATE_MANAGED_SEND;
	more->managed_recvs = flags_of(attr) & IBV_EXP_QP_CREATE_MANAGED_RECV;
	return more->max_atomic_arg || flags_of(attr);
}

/* The pieces of an indirect key are elements of a receive: a QP that fills keys has room for as
 * many as the device allows. */
static int widen(struct ibv_context *context, const struct ibv_exp_qp_init_attr *attr,
		 struct ibv_qp_cap *cap)
{
	struct ibv_device_attr device;
	int err;

	if (!(flags_of(attr) & IBV_EXP_QP_CREATE_UMR) || attr->srq || !cap->max_recv_wr)
		return 0;
	err = ibv_query_device(context, &device);
	if (!err && cap->max_recv_sge <= (uint32_t)device.max_sge)
		cap->max_recv_sge = (uint32_t)device.max_sge;
	return err;
}

static struct ibv_qp *create(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex today = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
	};
	struct ibv_qp *qp;

	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_PD) {
		today.comp_mask |= IBV_QP_INIT_ATTR_PD;
		today.pd = attr->pd;
	}
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_XRCD) {
		today.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		today.xrcd = attr->xrcd;
	}
	if (legacy_result(widen(context, attr, &today.cap)))
		return NULL;
	qp = ibv_create_qp_ex(context, &today);
	if (qp) {
		attr->cap = today.cap;
		attr->max_inl_recv = 0;
	}
	return qp;
}

/* The QP with what it was created for; NULL and errno. */
static struct ibv_qp *extend(struct ibv_qp *qp, const struct vb_extended_qp *more)
{
	const struct vb_engine_table *engine = legacy_engine();
	int err = engine ? -engine->extended_qp(qp, more) : EOPNOTSUPP;

	if (!err)
		return qp;
	ibv_destroy_qp(qp);
	errno = err;
	return NULL;
}

EXPORT struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context,
					struct ibv_exp_qp_init_attr *attr)
{
	struct vb_extended_qp more;
	struct ibv_qp *qp;

	if (attr->comp_mask & ~(uint32_t)MEMBERS || flags_of(attr) & ~(uint32_t)FLAGS) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	qp = create(context, attr);
	return qp && wants_more(attr, &more) ? extend(qp, &more) : qp;
}

EXPORT int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr,
			     uint64_t exp_attr_mask)
{
	struct ibv_qp_attr today = { 0 };

	if (attr->comp_mask)
		return legacy_result(EINVAL);
	if (exp_attr_mask >> 21) /* none of these attributes is one of this device */
		return legacy_result(EOPNOTSUPP);
	memcpy(&today, attr, offsetof(struct ibv_qp_attr, alt_timeout) + sizeof(today.alt_timeout));
	return legacy_result(ibv_modify_qp(qp, &today, (int)exp_attr_mask));
}
