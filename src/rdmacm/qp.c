/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_create_qp, rdma_destroy_qp, and the states of a QP. */
#include "rdmacm/qp.h"

#include <errno.h>
#include <string.h>

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/multicast.h"
#include "rdmacm/system.h"

static int qp_step(struct vb_cma_id *id, struct ibv_qp *qp, enum ibv_qp_state state,
		   const uint8_t *limit)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask, err = vb_cma_qp_attr(id, &attr, &mask);

	if (err)
		return err;
	if (limit && state == IBV_QPS_RTR)
		attr.max_dest_rd_atomic = *limit;
	if (limit && state == IBV_QPS_RTS)
		attr.max_rd_atomic = *limit;
	return -ibv_modify_qp(qp, &attr, mask);
}

/* --- holding --- */

struct ibv_qp *vb_cma_qp_hold(struct vb_cma_id *id)
{
	struct ibv_qp *qp;

	vb_cma_lock();
	/* NULL then means that no group is attached to a QP any more. */
	while (id->qp_ending)
		vb_cma_wait(&id->qp_changed);
	qp = id->id.qp;
	if (qp)
		id->qp_users++;
	vb_cma_unlock();
	return qp;
}

void vb_cma_qp_release(struct vb_cma_id *id, struct ibv_qp *qp)
{
	if (!qp)
		return;
	vb_cma_lock();
	if (!--id->qp_users)
		pthread_cond_broadcast(&id->qp_changed);
	vb_cma_unlock();
}

/* Takes the QP away from the identifier, and waits until all holders have released it. */
static struct ibv_qp *qp_take(struct vb_cma_id *id)
{
	struct ibv_qp *qp;

	vb_cma_lock();
	qp = id->id.qp;
	id->id.qp = NULL;
	id->qp_num = 0;
	id->qp_ending |= qp != NULL;
	/* In the child of a fork the holders, threads of the parent, do not exist. */
	while (id->qp_users && id->generation == vb_cma_generation())
		vb_cma_wait(&id->qp_changed);
	vb_cma_unlock();
	return qp;
}

static void detach_groups(struct vb_cma_id *id, struct ibv_qp *qp)
{
	vb_cma_groups_detach(id, qp);
	vb_cma_lock();
	id->qp_ending = false;
	pthread_cond_broadcast(&id->qp_changed);
	vb_cma_unlock();
}

/* --- states --- */

int vb_cma_qp_ready(struct vb_cma_id *id, struct ibv_qp *qp, uint8_t responder_resources,
		    uint8_t initiator_depth)
{
	int err;

	if (!qp)
		return 0;
	/* INIT once more: the rights of the peer are known only now. */
	err = qp_step(id, qp, IBV_QPS_INIT, NULL);
	if (!err)
		err = qp_step(id, qp, IBV_QPS_RTR,
			      responder_resources != RDMA_MAX_RESP_RES ? &responder_resources
								       : NULL);
	if (!err)
		err = qp_step(id, qp, IBV_QPS_RTS,
			      initiator_depth != RDMA_MAX_INIT_DEPTH ? &initiator_depth : NULL);
	return err;
}

int vb_cma_qp_error(struct vb_cma_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp = vb_cma_qp_hold(id);
	int err = qp ? ibv_modify_qp(qp, &attr, IBV_QP_STATE) : 0;

	vb_cma_qp_release(id, qp);
	return -err;
}

int vb_cma_qp_begin(struct vb_cma_id *id, struct ibv_qp *qp)
{
	int err = qp_step(id, qp, IBV_QPS_INIT, NULL);

	if (err || !vb_cma_is_datagram(id))
		return err;
	err = qp_step(id, qp, IBV_QPS_RTR, NULL);
	return err ? err : qp_step(id, qp, IBV_QPS_RTS, NULL);
}

/* --- vendor options (enhanced connection establishment), in REQ and REP --- */

static int ignore_unsupported(int err)
{
	return err == EOPNOTSUPP ? 0 : -err;
}

static int ece_begin(struct vb_cma_id *id, struct ibv_qp *qp)
{
	struct ibv_ece ece = { 0 };
	int err = ignore_unsupported(ibv_query_ece(qp, &ece));

	if (err)
		return err;
	id->local_ece.vendor_id = ece.vendor_id;
	id->local_ece.options = ece.options;
	if (!id->remote_ece.vendor_id)
		return 0;
	/* Options of a request have a meaning only between QPs of one vendor. */
	if (id->remote_ece.vendor_id == ece.vendor_id)
		ece.options = id->remote_ece.options;
	else
		ece.options = 0;
	return ignore_unsupported(ibv_set_ece(qp, &ece));
}

/* Reads the options that the QP agreed to. */
static int ece_learn(struct vb_cma_id *id, struct ibv_qp *qp)
{
	struct ibv_ece ece = { 0 };
	int err;

	if (!id->remote_ece.vendor_id)
		return 0;
	err = ignore_unsupported(ibv_query_ece(qp, &ece));
	if (!err)
		id->local_ece.options = ece.options;
	return err;
}

int vb_cma_ece_respond(struct vb_cma_id *id, struct ibv_qp *qp)
{
	struct ibv_ece ece = { .vendor_id = id->local_ece.vendor_id };

	if (id->remote_ece.vendor_id) {
		if (id->remote_ece.vendor_id != id->local_ece.vendor_id)
			return -EINVAL;
		ece.options = id->remote_ece.options;
	}
	return ignore_unsupported(ibv_set_ece(qp, &ece));
}

/* The application negotiates for a QP that it made itself. */
VB_PUBLIC int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	VB_NO_CANCEL;
	VB_CMA_PASS(id, rdma_set_local_ece, (shadow, ece));

	if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask) {
		vb_explain("rdma_set_local_ece: needs an identifier without QP, a vendor id and "
			   "comp_mask 0");
		return vb_return_minus_one(-EINVAL);
	}
	vb_cma_id(id)->local_ece.vendor_id = ece->vendor_id;
	vb_cma_id(id)->local_ece.options = ece->options;
	return 0;
}

VB_PUBLIC int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	VB_NO_CANCEL;
	VB_CMA_PASS(id, rdma_get_remote_ece, (shadow, ece));

	if (!id || id->qp || !ece) {
		vb_explain("rdma_get_remote_ece: needs an identifier without QP");
		return vb_return_minus_one(-EINVAL);
	}
	ece->vendor_id = vb_cma_id(id)->remote_ece.vendor_id;
	ece->options = vb_cma_id(id)->remote_ece.options;
	ece->comp_mask = 0;
	vb_tell_filled(ece, sizeof(*ece));
	return 0;
}

/* --- creating --- */

static int explain_attr(const char *what)
{
	vb_explain("rdma_create_qp: %s", what);
	return -EINVAL;
}

static int check_attr(struct vb_cma_id *id, const struct ibv_qp_init_attr_ex *attr)
{
	const struct rdma_cm_id *pub = &id->id;

	if (pub->qp)
		return explain_attr("the identifier has a QP already");
	if (!id->device)
		return explain_attr(
			"the identifier is not bound to a device: bind it to an address or "
			"resolve one first");
	if (attr->qp_type == IBV_QPT_UD && !vb_cma_is_datagram(id))
		return explain_attr("a UD QP needs an identifier of RDMA_PS_UDP or RDMA_PS_IPOIB");
	if (attr->qp_type != IBV_QPT_UD && vb_cma_is_datagram(id))
		return explain_attr("an identifier for datagrams has a UD QP, and no other");
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) && attr->pd && attr->pd->context != pub->verbs)
		return explain_attr("the PD belongs to another device or context");
	if ((pub->recv_cq && attr->recv_cq && pub->recv_cq != attr->recv_cq) ||
	    (pub->send_cq && attr->send_cq && pub->send_cq != attr->send_cq))
		return explain_attr("the identifier has another CQ already");
	return 0;
}

/*
 * In the queues of NICs inline data uses the room of SGEs, and programs that ask for no inline data
 * rely on that. The capabilities that the caller gets back say so.
 */
static void round_up_inline(struct ibv_qp_init_attr_ex *attr)
{
	uint32_t room = attr->cap.max_send_sge * (uint32_t)sizeof(struct ibv_sge);

	if (attr->cap.max_send_wr && attr->cap.max_inline_data < room)
		attr->cap.max_inline_data = room;
}

/* Fills in what the caller left out. */
static int complete_attr(struct vb_cma_id *id, struct ibv_qp_init_attr_ex *attr)
{
	round_up_inline(attr);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->id.pd;
	}
	if (id->id.qp_type != IBV_QPT_XRC_RECV)
		return 0;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) && attr->xrcd)
		return 0;
	attr->xrcd = vb_cma_device_xrcd(id->device);
	attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	return attr->xrcd ? 0 : -errno;
}

static int make_qp(struct vb_cma_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = ibv_create_qp_ex(id->id.verbs, attr);
	int err;

	if (!qp)
		return -errno;
	err = ece_begin(id, qp);
	if (!err)
		err = vb_cma_qp_begin(id, qp);
	if (!err)
		err = ece_learn(id, qp);
	if (err) {
		ibv_destroy_qp(qp);
		return err;
	}
	if (qp->pd) /* an XRC_RECV QP has no PD */
		id->id.pd = qp->pd;
	vb_cma_lock();
	id->id.qp = qp;
	id->qp_num = qp->qp_num;
	vb_cma_unlock();
	return 0;
}

static int create_qp(struct vb_cma_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct rdma_cm_id *pub = &id->id;
	int err = vb_cma_stale(id->generation, "rdma_create_qp");

	if (!err)
		err = check_attr(id, attr);
	if (!err)
		err = complete_attr(id, attr);
	if (!err)
		err = vb_cma_default_cqs_make(
			pub, attr->send_cq || pub->send_cq ? 0 : attr->cap.max_send_wr,
			attr->recv_cq || pub->recv_cq ? 0 : attr->cap.max_recv_wr);
	if (err)
		return err;
	if (!attr->send_cq)
		attr->send_cq = pub->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = pub->recv_cq;
	if (pub->srq && !attr->srq)
		attr->srq = pub->srq;
	err = make_qp(id, attr);
	if (err)
		vb_cma_default_cqs_destroy(pub);
	return err;
}

static bool has_system_parts(const struct ibv_qp_init_attr_ex *attr, const char *call)
{
	const struct ibv_pd *pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;

	return !vb_cma_system_check_part(pd, "PD", call) &&
	       !vb_cma_system_check_part(attr->send_cq, "send CQ", call) &&
	       !vb_cma_system_check_part(attr->recv_cq, "receive CQ", call) &&
	       !vb_cma_system_check_part(attr->srq, "SRQ", call);
}

VB_PUBLIC int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr)
{
	VB_NO_CANCEL;

	if (!id || !qp_init_attr)
		return vb_cma_null(__func__);
	if (vb_cma_is_systems(id) && !has_system_parts(qp_init_attr, __func__))
		return vb_return_minus_one(-EINVAL);
	VB_CMA_PASS(id, rdma_create_qp_ex, (shadow, qp_init_attr));
	return vb_return_minus_one(create_qp(vb_cma_id(id), qp_init_attr));
}

VB_PUBLIC int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			     struct ibv_qp_init_attr *qp_init_attr)
{
	VB_NO_CANCEL;
	struct ibv_qp_init_attr_ex attr = { 0 };
	int err;

	if (!id || !qp_init_attr)
		return vb_cma_null(__func__);
	/* The longer struct begins with the members of the shorter one. */
	memcpy(&attr, qp_init_attr, sizeof(*qp_init_attr));
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd ? pd : id->pd;
	if (vb_cma_is_systems(id) && !has_system_parts(&attr, __func__))
		return vb_return_minus_one(-EINVAL);
	VB_CMA_PASS(id, rdma_create_qp, (shadow, pd, qp_init_attr));
	err = create_qp(vb_cma_id(id), &attr);
	memcpy(qp_init_attr, &attr, sizeof(*qp_init_attr));
	return vb_return_minus_one(err);
}

VB_PUBLIC void rdma_destroy_qp(struct rdma_cm_id *id)
{
	VB_NO_CANCEL;
	VB_CMA_PASS_VOID(id, rdma_destroy_qp);
	struct ibv_qp *qp = id ? qp_take(vb_cma_id(id)) : NULL;

	if (!qp)
		return;
	detach_groups(vb_cma_id(id), qp);
	ibv_destroy_qp(qp);
	vb_cma_default_cqs_destroy(id);
}
