/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC_RECV QPs and the handles through which several users have one of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/annotate.h"
#include "base/message.h"
#include "nic/xrcd.h"

static bool stand_ins_there(struct vb_nic *nic)
{
	bool there;

	pthread_mutex_lock(&nic->lock);
	there = nic->xrc_cq;
	pthread_mutex_unlock(&nic->lock);
	return there;
}

/* True: this PD and CQ are used. False: another thread was faster. They belong to no context. */
static bool stand_ins_set(struct vb_nic *nic, struct vb_pd *pd, struct vb_cq *cq)
{
	bool first;

	pthread_mutex_lock(&nic->lock);
	first = !nic->xrc_cq;
	if (first) {
		atomic_fetch_sub(&vb_context(pd->ibv.context)->objects, 2);
		pd->ibv.context = cq->ibv.context = NULL;
		nic->xrc_pd = pd;
		nic->xrc_cq = cq;
	}
	pthread_mutex_unlock(&nic->lock);
	return first;
}

/* Nothing ever belongs to this PD or completes at this CQ. */
static int stand_ins(struct vb_nic *nic, struct ibv_context *ctx)
{
	const struct vb_cq_spec spec = { .cqe = 1 };
	struct vb_pd *pd;
	struct vb_cq *cq;
	int err;

	if (stand_ins_there(nic))
		return 0;
	err = vb_pd_alloc(ctx, &pd);
	if (err)
		return err;
	err = vb_cq_create(ctx, &spec, &cq);
	if (!err && stand_ins_set(nic, pd, cq))
		return 0;
	if (!err)
		vb_cq_destroy(cq);
	vb_pd_dealloc(pd);
	return err;
}

int vb_xrc_qp_create(struct vb_xrcd *xrcd, const struct ibv_qp_init_attr *attr, struct vb_qp **out)
{
	struct ibv_qp_init_attr inner = { .qp_context = attr->qp_context,
					  .qp_type = IBV_QPT_XRC_RECV };
	struct vb_qp *qp;
	int err = stand_ins(xrcd->nic, xrcd->ibv.context);

	if (err)
		return err;
	inner.send_cq = inner.recv_cq = &xrcd->nic->xrc_cq->ibv;
	err = vb_qp_create(xrcd->nic->xrc_pd, &inner, &qp);
	if (err)
		return err;
	qp->xrcd = xrcd;
	qp->entry->xrcd = xrcd->id;
	pthread_mutex_lock(&xrcd->nic->lock);
	qp->ibv.context = xrcd->ibv.context;
	pthread_mutex_unlock(&xrcd->nic->lock);
	qp->ibv.pd = NULL;
	qp->ibv.send_cq = qp->ibv.recv_cq = NULL;
	atomic_fetch_add(&xrcd->users, 1);
	/* The QP names its context, and may outlive its creator's handle. */
	atomic_fetch_add(&vb_context(qp->ibv.context)->objects, 1);
	/* Last: from now on other threads can open the QP. */
	vb_spin_lock(&qp->handles_lock);
	qp->holders = 1;
	vb_spin_unlock(&qp->handles_lock);
	*out = qp;
	return 0;
}

struct vb_xrc_handle *vb_xrc_handle_make(struct vb_xrcd *xrcd, void *qp_context, uint32_t qpn)
{
	struct vb_xrc_handle *handle = aligned_alloc(64, (sizeof(*handle) + 63) & ~63ul);

	if (!handle)
		return NULL;
	memset(handle, 0, sizeof(*handle));
	vb_tell_filled(handle, sizeof(*handle));
	handle->qp.nic = xrcd->nic;
	handle->qp.type = IBV_QPT_XRC_RECV;
	handle->qp.xrcd = xrcd;
	handle->session = -1;
	vb_list_init(&handle->node);
	handle->qp.ibv.context = xrcd->ibv.context;
	handle->qp.ibv.qp_context = qp_context;
	handle->qp.ibv.qp_num = handle->qp.ibv.handle = qpn;
	handle->qp.ibv.qp_type = IBV_QPT_XRC_RECV;
	pthread_mutex_init(&handle->qp.ibv.mutex, NULL);
	pthread_cond_init(&handle->qp.ibv.cond, NULL);
	atomic_fetch_add(&xrcd->users, 1);
	return handle;
}

int vb_xrc_qp_open(struct vb_xrcd *xrcd, struct vb_qp *real, void *qp_context,
		   struct vb_xrc_handle **out)
{
	struct vb_xrc_handle *handle = vb_xrc_handle_make(xrcd, qp_context, real->ibv.qp_num);

	if (!handle)
		return -ENOMEM;
	if (!vb_xrc_qp_hold(real)) {
		vb_xrc_handle_free(handle);
		return -EINVAL;
	}
	handle->qp.ibv.state = vb_qp_state(real);
	handle->real = real;
	vb_spin_lock(&real->handles_lock);
	vb_list_append(&real->handles, &handle->node);
	vb_spin_unlock(&real->handles_lock);
	*out = handle;
	return 0;
}

void vb_xrc_qp_raise(struct vb_qp *real, enum ibv_event_type type)
{
	const struct vb_xrc_event event = { .type = type };

	vb_spin_lock(&real->handles_lock);
	if (!real->creator_gone)
		vb_async_raise(real->ibv.context, type, &real->ibv, &real->async_taken);
	vb_list_for(handle, &real->handles, struct vb_xrc_handle, node)
		vb_async_raise(handle->qp.ibv.context, type, &handle->qp.ibv,
			       &handle->qp.async_taken);
	/* A process that does not read its socket loses events, and nothing else. */
	vb_list_for(session, &real->sessions, struct vb_xrc_session, node)
		vb_sendto(session->fd, &event, sizeof(event), MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
	vb_spin_unlock(&real->handles_lock);
}

bool vb_xrc_qp_hold(struct vb_qp *real)
{
	bool wanted;

	vb_spin_lock(&real->handles_lock);
	wanted = real->holders;
	real->holders += wanted;
	vb_spin_unlock(&real->handles_lock);
	return wanted;
}

bool vb_xrc_qp_drop(struct vb_qp *real)
{
	bool last;

	vb_spin_lock(&real->handles_lock);
	last = !--real->holders;
	vb_spin_unlock(&real->handles_lock);
	return last;
}

/* Of a handle, or of the creator's own. */
static void wait_for_acks(struct vb_qp *qp)
{
	vb_async_purge(qp->ibv.context, &qp->ibv);
	pthread_mutex_lock(&qp->ibv.mutex);
	while (qp->ibv.events_completed != atomic_load(&qp->async_taken))
		pthread_cond_wait(&qp->ibv.cond, &qp->ibv.mutex);
	vb_tell_acquire(&qp->ibv);
	pthread_mutex_unlock(&qp->ibv.mutex);
}

void vb_xrc_creator_leaves(struct vb_qp *real)
{
	vb_spin_lock(&real->handles_lock);
	real->creator_gone = true;
	vb_spin_unlock(&real->handles_lock);
	wait_for_acks(real);
}

void vb_xrc_handle_free(struct vb_xrc_handle *handle)
{
	if (handle->qp.nic == vb_nic_current()) {
		if (handle->real) {
			vb_spin_lock(&handle->real->handles_lock);
			vb_list_remove(&handle->node);
			vb_spin_unlock(&handle->real->handles_lock);
		}
		wait_for_acks(&handle->qp);
		atomic_fetch_sub(&handle->qp.xrcd->users, 1);
	}
	free(handle);
}
