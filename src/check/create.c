/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaced calls: objects are made and destroyed. */
#include "check/create.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "check/report.h"
#include "check/watch.h"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

bool vb_check_by_library(void *return_address)
{
	Dl_info info;

	return dladdr(return_address, &info) && info.dli_fname &&
	       (strstr(info.dli_fname, "librdmacm.so.1") ||
		strstr(info.dli_fname, "libibverbs.so.1"));
}

struct vb_object *vb_check_made(enum vb_kind kind, void *handle, const struct vb_stack *stack)
{
	struct vb_object *object;

	vb_check_enter();
	object = vb_object_add(kind, handle, stack);
	if (object)
		object->by_library = vb_check_by_library(stack->depth ? stack->pc[0] : NULL);
	vb_check_leave();
	return object;
}

void vb_check_inherit(struct vb_object *object, const struct ibv_pd *pd)
{
	const struct vb_object *parent = vb_object_of(pd);

	if (parent && parent->kind == VB_KIND_PD && parent->alone)
		object->alone = true;
}

static bool end_begin(struct vb_object *object, const char *call, const struct vb_stack *stack)
{
	if (!object)
		return true;
	if (atomic_load(&object->gone)) {
		if (vb_use_begin(object, call, stack))
			vb_use_end(object);
		return false;
	}
	vb_check_used(object, call, stack);
	vb_check_in_flight(object, call, stack);
	vb_object_dying(object);
	return true;
}

/* --- contexts, PDs, channels, AHs, windows --- */

VB_PUBLIC struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_context *context = VB_CHECK_REAL(ibv_open_device)(device);

	if (context && vb_check_made(VB_KIND_CONTEXT, context, stack))
		vb_check_wrap_context(context);
	return context;
}

VB_PUBLIC struct ibv_context *ibv_import_device(int cmd_fd)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_context *context = VB_CHECK_REAL(ibv_import_device)(cmd_fd);

	if (context && vb_check_made(VB_KIND_CONTEXT, context, stack))
		vb_check_wrap_context(context);
	return context;
}

/* result: of the real call. */
static int end_end(struct vb_object *object, int result, const struct vb_stack *stack)
{
	const int error = errno;

	vb_object_ended(object, !result, stack);
	errno = error;
	return result;
}

#define END(call, handle)                                                   \
	do {                                                                \
		const struct vb_stack *stack = VB_HERE();                   \
		struct vb_object *object = vb_object_of(handle);            \
                                                                            \
		if (!end_begin(object, #call, stack))                       \
			return errno = EINVAL;                              \
		return end_end(object, VB_CHECK_REAL(call)(handle), stack); \
	} while (0)

VB_PUBLIC int ibv_close_device(struct ibv_context *context)
{
	END(ibv_close_device, context);
}

VB_PUBLIC struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_pd *pd = VB_CHECK_REAL(ibv_alloc_pd)(context);

	if (pd)
		vb_check_made(VB_KIND_PD, pd, stack);
	return pd;
}

VB_PUBLIC int ibv_dealloc_pd(struct ibv_pd *pd)
{
	END(ibv_dealloc_pd, pd);
}

VB_PUBLIC struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_comp_channel *channel = VB_CHECK_REAL(ibv_create_comp_channel)(context);

	if (channel)
		vb_check_made(VB_KIND_CHANNEL, channel, stack);
	return channel;
}

VB_PUBLIC int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	END(ibv_destroy_comp_channel, channel);
}

VB_PUBLIC struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_ah *ah = VB_CHECK_REAL(ibv_create_ah)(pd, attr);

	if (ah) {
		vb_check_made(VB_KIND_AH, ah, stack);
		vb_check_route(pd->context, attr, attr->port_num, stack);
	}
	return ah;
}

VB_PUBLIC int ibv_destroy_ah(struct ibv_ah *ah)
{
	END(ibv_destroy_ah, ah);
}

struct ibv_mw *vb_check_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_mw *mw = vb_check_ops.alloc_mw(pd, type);

	if (mw)
		vb_check_made(VB_KIND_MW, mw, stack);
	return mw;
}

int vb_check_dealloc_mw(struct ibv_mw *mw)
{
	const struct vb_stack *stack = VB_HERE();
	struct vb_object *object = vb_object_of(mw);

	if (!end_begin(object, "ibv_dealloc_mw", stack))
		return errno = EINVAL;
	return end_end(object, vb_check_ops.dealloc_mw(mw), stack);
}

/* --- CQs --- */

VB_PUBLIC struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				       struct ibv_comp_channel *channel, int comp_vector)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_cq *cq =
		VB_CHECK_REAL(ibv_create_cq)(context, cqe, cq_context, channel, comp_vector);

	if (cq)
		vb_check_made(VB_KIND_CQ, cq, stack);
	return cq;
}

VB_PUBLIC int ibv_destroy_cq(struct ibv_cq *cq)
{
	const struct vb_stack *stack = VB_HERE();
	struct vb_object *object = vb_object_of(cq);

	if (!end_begin(object, "ibv_destroy_cq", stack))
		return errno = EINVAL;
	if (object)
		vb_check_unacked(object, stack);
	return end_end(object, VB_CHECK_REAL(ibv_destroy_cq)(cq), stack);
}

/* --- SRQs and QPs --- */

VB_PUBLIC struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_srq *srq = VB_CHECK_REAL(ibv_create_srq)(pd, attr);

	if (srq)
		vb_check_made(VB_KIND_SRQ, srq, stack);
	return srq;
}

/* The memory of posted work is the program's again. */
static int queues_end(struct vb_object *object, int result, const struct vb_stack *stack)
{
	if (object && !result) {
		vb_check_enter();
		vb_queue_cut(&object->sends, object->sends.head, object->send_cq);
		vb_queue_cut(&object->receives, object->receives.head, object->receive_cq);
		vb_check_leave();
	}
	return end_end(object, result, stack);
}

VB_PUBLIC int ibv_destroy_srq(struct ibv_srq *srq)
{
	const struct vb_stack *stack = VB_HERE();
	struct vb_object *object = vb_object_of(srq);

	if (!end_begin(object, "ibv_destroy_srq", stack))
		return errno = EINVAL;
	return queues_end(object, VB_CHECK_REAL(ibv_destroy_srq)(srq), stack);
}

struct vb_object *vb_check_made_qp(struct ibv_qp *qp, const struct ibv_qp_init_attr *attr,
				   const struct vb_stack *stack)
{
	struct vb_object *object = vb_check_made(VB_KIND_QP, qp, stack);

	if (!object)
		return NULL;
	object->send_cq = attr->send_cq ? vb_object_of(attr->send_cq) : NULL;
	object->receive_cq = attr->recv_cq ? vb_object_of(attr->recv_cq) : NULL;
	object->srq = attr->srq ? vb_object_of(attr->srq) : NULL;
	object->type = attr->qp_type;
	object->qpn = qp->qp_num;
	object->sig_all = attr->sq_sig_all;
	object->state = IBV_QPS_RESET;
	object->sends.lost = !object->send_cq;
	object->receives.lost = !object->receive_cq || attr->srq;
	if (qp->pd)
		vb_check_inherit(object, qp->pd);
	vb_check_enter();
	vb_object_name_qpn(object);
	vb_check_leave();
	return object;
}

VB_PUBLIC struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_qp_init_attr_ex asked = { .cap = attr->cap, .qp_type = attr->qp_type };
	struct ibv_qp *qp = VB_CHECK_REAL(ibv_create_qp)(pd, attr);

	if (qp) {
		vb_check_limits(&asked, stack);
		vb_check_made_qp(qp, attr, stack);
	}
	return qp;
}

VB_PUBLIC int ibv_destroy_qp(struct ibv_qp *qp)
{
	const struct vb_stack *stack = VB_HERE();
	struct vb_object *object = vb_object_of(qp);

	if (!end_begin(object, "ibv_destroy_qp", stack))
		return errno = EINVAL;
	return queues_end(object, VB_CHECK_REAL(ibv_destroy_qp)(qp), stack);
}

/* RESET drops all posted work. */
static void follow_state(struct vb_object *object, enum ibv_qp_state state)
{
	vb_check_enter();
	object->state = state;
	if (state == IBV_QPS_RESET || state == IBV_QPS_ERR)
		vb_watch_forget(object);
	if (state == IBV_QPS_RESET) {
		vb_queue_cut(&object->sends, object->sends.head, object->send_cq);
		vb_queue_cut(&object->receives, object->receives.head, object->receive_cq);
	}
	vb_check_leave();
}

VB_PUBLIC int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	const struct vb_stack *stack = VB_HERE();
	struct vb_object *object = vb_object_of(qp);
	int err;

	if (object && atomic_load(&object->gone)) {
		vb_use_begin(object, "ibv_modify_qp", stack);
		return errno = EINVAL;
	}
	err = VB_CHECK_REAL(ibv_modify_qp)(qp, attr, attr_mask);
	if (err || !object)
		return err;
	vb_check_attributes(object, attr, attr_mask, stack);
	if (attr_mask & IBV_QP_STATE)
		follow_state(object, attr->qp_state);
	return err;
}
