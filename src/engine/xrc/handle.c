/* SPDX-License-Identifier: BSD-2-Clause */
/* Several users share one XRC_RECV QP, each with a handle of its own. */
#include <errno.h>

#include "base/log.h"
#include "engine/qp_life.h"
#include "engine/xrc/share.h"

struct vb_qp *vb_xrc_receiver_find(struct vb_nic *nic, uint32_t qpn, const struct vb_xrcd_id *xrcd)
{
	struct vb_qp *qp = vb_nic_qp(nic, qpn);
	const bool fits = qp && qp->type == IBV_QPT_XRC_RECV && qp->entry &&
			  vb_xrcd_same(&qp->entry->xrcd, xrcd);

	return fits ? qp : NULL;
}

static void explain_unknown(uint32_t qpn, const char *process)
{
	vb_explain("ibv_open_qp: %s has no XRC_RECV QP 0x%06x of this domain", process, qpn);
}

static int open_own(struct vb_xrcd *xrcd, uint32_t qpn, void *qp_context,
		    struct vb_xrc_handle **handle)
{
	struct vb_nic *nic = xrcd->nic;
	struct vb_qp *real;
	int err = -EINVAL;

	pthread_mutex_lock(&nic->lock);
	real = vb_xrc_receiver_find(nic, qpn, &xrcd->id);
	if (real)
		err = vb_xrc_qp_open(xrcd, real, qp_context, handle);
	pthread_mutex_unlock(&nic->lock);
	if (err == -EINVAL)
		explain_unknown(qpn, "this process");
	return err;
}

static int open_foreign(struct vb_xrcd *xrcd, uint32_t qpn, void *qp_context,
			struct vb_xrc_handle **handle)
{
	int err;

	if (xrcd->claim < 0) { /* no other process has the domain */
		explain_unknown(qpn, "this process, which alone has the domain,");
		return -EINVAL;
	}
	*handle = vb_xrc_handle_make(xrcd, qp_context, qpn);
	if (!*handle)
		return -ENOMEM;
	err = vb_xrc_ask_open(*handle);
	if (err == -EINVAL)
		explain_unknown(qpn, "the process that its number leads to");
	else if (err == -ETIMEDOUT)
		vb_explain("ibv_open_qp: QP 0x%06x: its process does not answer", qpn);
	if (err)
		vb_xrc_handle_free(*handle);
	return err;
}

int vb_xrc_handle_open(struct vb_xrcd *xrcd, uint32_t qpn, void *qp_context,
		       struct vb_xrc_handle **handle)
{
	return vb_nic_own_slot(xrcd->nic, qpn >> VB_QP_INDEX_BITS)
		       ? open_own(xrcd, qpn, qp_context, handle)
		       : open_foreign(xrcd, qpn, qp_context, handle);
}

int vb_xrc_handle_modify(struct vb_xrc_handle *handle, const struct ibv_qp_attr *attr, int mask)
{
	struct vb_xrc_answer answer;
	int err;

	if (!handle->real)
		return vb_xrc_ask(handle, VB_XRC_ASK_MODIFY, attr, mask, &answer);
	err = vb_qp_life_modify(handle->real, attr, mask);
	handle->qp.ibv.state = vb_qp_state(handle->real);
	return err;
}

int vb_xrc_handle_query(struct vb_xrc_handle *handle, struct ibv_qp_attr *attr,
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
	init->qp_context = handle->qp.ibv.qp_context;
	if (!err)
		handle->qp.ibv.state = attr->qp_state;
	return err;
}

int vb_xrc_release(struct vb_qp *real)
{
	struct ibv_context *context;
	int err;

	if (!vb_xrc_qp_drop(real))
		return 0;
	context = real->ibv.context;
	err = vb_qp_life_destroy(real);
	if (!err)
		vb_context_release(vb_context(context));
	return err;
}

int vb_xrc_receiver_make(struct vb_xrcd *xrcd, void *qp_context, struct vb_qp **out)
{
	const struct ibv_qp_init_attr attr = { .qp_context = qp_context };
	int err = vb_engine_start(xrcd->nic);

	if (!err)
		err = vb_xrc_qp_create(xrcd, &attr, out);
	if (err)
		return err;
	err = vb_engine_start(xrcd->nic); /* watches a new slot as well */
	if (err)
		vb_xrc_receiver_destroy(*out);
	return err;
}

static int destroy_created(struct vb_qp *qp)
{
	struct vb_xrcd *xrcd = qp->xrcd;

	vb_xrc_creator_leaves(qp);
	atomic_fetch_sub(&xrcd->users, 1);
	return vb_xrc_release(qp);
}

static void destroy_inherited(struct vb_qp *qp)
{
	atomic_fetch_sub(&vb_context(qp->ibv.context)->objects, 1);
	vb_qp_destroy(qp);
}

/* Of a handle that fork has brought only the copy goes. */
static int handle_destroy(struct vb_xrc_handle *handle)
{
	const bool own = handle->qp.nic == vb_nic_current();
	struct vb_qp *real = handle->real;

	if (own && !real)
		vb_xrc_ask_close(handle);
	vb_xrc_handle_free(handle);
	return own && real ? vb_xrc_release(real) : 0;
}

int vb_xrc_receiver_destroy(struct vb_qp *qp)
{
	struct vb_xrc_handle *handle = vb_xrc_handle(qp);

	if (handle)
		return handle_destroy(handle);
	if (qp->nic == vb_nic_current())
		return destroy_created(qp);
	destroy_inherited(qp);
	return 0;
}
