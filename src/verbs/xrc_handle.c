/* SPDX-License-Identifier: BSD-2-Clause */
/* Several users of one XRC_RECV QP, each with a handle of its own. */
#include "base/log.h"
#include "base/result.h"
#include "engine/xrc/share.h"
#include "verbs/given.h"
#include "verbs/ops.h"
#include "verbs/stale.h"
#include "verbs/xrc.h"

static int open_check(struct ibv_context *context, const struct ibv_qp_open_attr *attr)
{
	const uint32_t needed =
		IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	int err;

	if (attr->comp_mask & ~(needed | IBV_QP_OPEN_ATTR_CONTEXT)) {
		vb_explain("ibv_open_qp: comp_mask 0x%x is not supported", attr->comp_mask);
		return -EOPNOTSUPP;
	}
	if ((attr->comp_mask & needed) != needed || !attr->xrcd ||
	    attr->qp_type != IBV_QPT_XRC_RECV || attr->qp_num > VB_MASK24) {
		vb_explain("ibv_open_qp: a number, a domain and the type XRC_RECV are needed");
		return -EINVAL;
	}
	err = vb_given_check_in(context, VB_GIVEN_XRCD, attr->xrcd, "ibv_open_qp");
	return err ? err : vb_stale(vb_xrcd(attr->xrcd)->nic, "ibv_open_qp");
}

static bool fits(const struct vb_qp *qp, const struct vb_xrcd *xrcd)
{
	return qp && qp->type == IBV_QPT_XRC_RECV && qp->entry &&
	       vb_xrcd_same(&qp->entry->xrcd, &xrcd->id);
}

static int open_own(struct vb_xrcd *xrcd, uint32_t qpn, void *qp_context, struct vb_qp **handle)
{
	struct vb_nic *nic = xrcd->nic;
	struct vb_qp *real;
	int err = -EINVAL;

	pthread_mutex_lock(&nic->lock);
	real = vb_nic_qp(nic, qpn);
	if (fits(real, xrcd))
		err = vb_xrc_qp_open(xrcd, real, qp_context, handle);
	pthread_mutex_unlock(&nic->lock);
	return err;
}

static bool is_own(const struct vb_nic *nic, uint32_t qpn)
{
	for (unsigned i = 0; i < nic->slot_count; i++)
		if (nic->slots[i].slot == qpn >> VB_QP_INDEX_BITS)
			return true;
	return false;
}

static int open_foreign(struct vb_xrcd *xrcd, uint32_t qpn, void *qp_context, struct vb_qp **handle)
{
	int err;

	if (xrcd->claim < 0) /* nobody else has the domain */
		return -EINVAL;
	*handle = vb_xrc_handle_make(xrcd, qp_context, qpn);
	if (!*handle)
		return -ENOMEM;
	err = vb_xrc_ask_open(*handle);
	if (err)
		vb_xrc_handle_free(*handle);
	return err;
}

static int open_any(struct vb_xrcd *xrcd, uint32_t qpn, void *qp_context, struct vb_qp **handle)
{
	return is_own(xrcd->nic, qpn) ? open_own(xrcd, qpn, qp_context, handle)
				      : open_foreign(xrcd, qpn, qp_context, handle);
}

struct ibv_qp *vb_ops_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	void *qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL;
	struct vb_qp *handle = NULL;
	int err = open_check(context, attr);

	if (!err)
		err = open_any(vb_xrcd(attr->xrcd), attr->qp_num, qp_context, &handle);
	if (err == -EINVAL)
		vb_explain("ibv_open_qp: the domain has no XRC_RECV QP 0x%06x", attr->qp_num);
	return vb_verbs_give_qp(handle, err);
}

int vb_xrc_handle_modify(struct vb_qp *handle, const struct ibv_qp_attr *attr, int mask)
{
	struct vb_xrc_answer answer;
	int err;

	if (!handle->real)
		return vb_xrc_ask(handle, VB_XRC_ASK_MODIFY, attr, mask, &answer);
	err = vb_verbs_modify(handle->real, attr, mask);
	handle->ibv.state = vb_qp_state(handle->real);
	return err;
}

int vb_xrc_handle_query(struct vb_qp *handle, struct ibv_qp_attr *attr,
			struct ibv_qp_init_attr *init)
{
	struct vb_xrc_answer answer = { 0 };
	int err = 0;

	if (handle->real) {
		vb_qp_query(handle->real, attr, init);
	} else {
		err = vb_xrc_ask(handle, VB_XRC_ASK_QUERY, NULL, 0, &answer);
		*attr = answer.attr;
		*init = (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_XRC_RECV };
	}
	init->qp_context = handle->ibv.qp_context;
	if (!err)
		handle->ibv.state = attr->qp_state;
	return err;
}

/* One of those who have it lets go; with the last one it ends. */
static int release(struct vb_qp *real)
{
	struct ibv_context *context;
	int err;

	if (!vb_xrc_qp_drop(real))
		return 0;
	context = real->ibv.context;
	err = vb_verbs_stop_and_destroy(real);
	if (!err)
		vb_context_release(vb_context(context));
	return err;
}

static int destroy_created(struct vb_qp *qp)
{
	struct vb_xrcd *xrcd = qp->xrcd;

	vb_xrc_creator_leaves(qp);
	atomic_fetch_sub(&xrcd->users, 1);
	return release(qp);
}

static void destroy_inherited(struct vb_qp *qp)
{
	atomic_fetch_sub(&vb_context(qp->ibv.context)->objects, 1);
	vb_qp_destroy(qp);
}

int vb_xrc_receiver_destroy(struct vb_qp *qp)
{
	struct vb_qp *real = qp->real;

	if (qp->nic != vb_nic_current()) { /* inherited: only this copy goes */
		if (qp->is_handle)
			vb_xrc_handle_free(qp);
		else
			destroy_inherited(qp);
		return 0;
	}
	if (!qp->is_handle)
		return destroy_created(qp);
	if (!real)
		vb_xrc_ask_close(qp);
	vb_xrc_handle_free(qp);
	return real ? release(real) : 0;
}

static int modify_real(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	return vb_verbs_modify(qp, attr, mask);
}

static void share_init(void)
{
	static const struct vb_xrc_calls calls = { .modify = modify_real, .release = release };

	vb_xrc_share_init(&calls);
}

void vb_xrc_share_enable(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, share_init);
}
