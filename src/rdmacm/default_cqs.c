/* SPDX-License-Identifier: BSD-2-Clause */
/* CQs and completion channels that the library makes, and rdma_create_srq, which may need them. */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/cma.h"
#include "rdmacm/qp.h"
#include "rdmacm/system.h"

static int make_cq(struct rdma_cm_id *id, uint32_t entries, struct ibv_comp_channel **channel,
		   struct ibv_cq **cq)
{
	if (!entries)
		return 0;
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return -errno;
	*cq = ibv_create_cq(id->verbs, (int)entries, id, *channel, 0);
	return *cq ? 0 : -errno;
}

int vb_cma_default_cqs_make(struct rdma_cm_id *id, uint32_t send_entries, uint32_t recv_entries)
{
	int err = make_cq(id, recv_entries, &id->recv_cq_channel, &id->recv_cq);

	if (!err)
		err = make_cq(id, send_entries, &id->send_cq_channel, &id->send_cq);
	if (err)
		vb_cma_default_cqs_destroy(id);
	return err;
}

static void destroy_cq(struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	*cq = NULL;
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*channel = NULL;
}

void vb_cma_default_cqs_destroy(struct rdma_cm_id *id)
{
	/* The SRQ still uses the CQs. */
	if (id->qp_type == IBV_QPT_XRC_RECV && id->srq)
		return;
	destroy_cq(&id->recv_cq_channel, &id->recv_cq);
	destroy_cq(&id->send_cq_channel, &id->send_cq);
}

/* --- shared receive queues --- */

static int complete_xrc(struct vb_cma_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int err = 0;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd)
		attr->xrcd = vb_cma_device_xrcd(id->device);
	if (!attr->xrcd)
		return -errno;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		err = vb_cma_default_cqs_make(&id->id, 0, attr->attr.max_wr);
		attr->cq = id->id.recv_cq;
	}
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return err;
}

static int create_srq(struct vb_cma_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int err = vb_cma_stale(id->generation, "rdma_create_srq");

	if (err)
		return err;
	if (!id->device || id->id.srq || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE)) {
		vb_explain("rdma_create_srq: needs an identifier that is bound to a device and has "
			   "no SRQ yet, and a type");
		return -EINVAL;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->id.pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->pd->context != id->id.verbs) {
		vb_explain("rdma_create_srq: the PD belongs to another device or context");
		return -EINVAL;
	}
	if (attr->srq_type == IBV_SRQT_XRC)
		err = complete_xrc(id, attr);
	if (err)
		return err;
	id->id.srq = ibv_create_srq_ex(id->id.verbs, attr);
	if (id->id.srq)
		return 0;
	err = -errno;
	vb_cma_default_cqs_destroy(&id->id);
	return err;
}

VB_PUBLIC int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	VB_NO_CANCEL;

	if (!id || !attr)
		return vb_cma_null(__func__);
	if (vb_cma_is_systems(id) &&
	    vb_cma_system_check_part(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD ? attr->pd : NULL, "PD",
				     __func__))
		return vb_return_minus_one(-EINVAL);
	VB_CMA_PASS(id, rdma_create_srq_ex, (shadow, attr));
	return vb_return_minus_one(create_srq(vb_cma_id(id), attr));
}

VB_PUBLIC int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
			      struct ibv_srq_init_attr *attr)
{
	VB_NO_CANCEL;
	struct ibv_srq_init_attr_ex ex = { 0 };
	int err;

	if (!id || !attr)
		return vb_cma_null(__func__);
	if (vb_cma_is_systems(id) && vb_cma_system_check_part(pd, "PD", __func__))
		return vb_return_minus_one(-EINVAL);
	VB_CMA_PASS(id, rdma_create_srq, (shadow, pd, attr));
	/* The longer struct begins with the members of the shorter one. */
	memcpy(&ex, attr, sizeof(*attr));
	ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	ex.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
	ex.pd = pd;
	err = create_srq(vb_cma_id(id), &ex);
	memcpy(attr, &ex, sizeof(*attr));
	return vb_return_minus_one(err);
}

VB_PUBLIC void rdma_destroy_srq(struct rdma_cm_id *id)
{
	VB_NO_CANCEL;
	VB_CMA_PASS_VOID(id, rdma_destroy_srq);

	if (!id || !id->srq)
		return;
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	vb_cma_default_cqs_destroy(id);
}
