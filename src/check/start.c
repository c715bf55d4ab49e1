/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Begin and end of the program. The constructor runs before main, and the handler that it registers
 * runs behind all others: destructors of other libraries may still destroy objects.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/check.h"
#include "check/engine.h"
#include "check/report.h"
#include "check/watch.h"

static _Atomic bool used; /* a device was opened */
static pid_t process;

extern int __cxa_atexit(void (*)(void *), void *, void *);

/* The library stays loaded: the program uses it. */
static void *libibverbs(void)
{
	static void *_Atomic handle;
	void *found = atomic_load(&handle);

	if (!found) {
		found = dlopen("libibverbs.so.1", RTLD_LAZY);
		atomic_store(&handle, found);
	}
	return found;
}

void *vb_check_real(const char *name)
{
	static const char *const versions[] = { "IBVERBS_1.1", "IBVERBS_1.0" };
	void *library = libibverbs(), *found = NULL;

	for (size_t i = 0; library && !found && i < sizeof(versions) / sizeof(*versions); i++)
		found = dlvsym(library, name, versions[i]);
	return found || !library ? found : dlsym(library, name);
}

const struct vb_engine_table *vb_check_engine(void)
{
	static const struct vb_engine_table *_Atomic table;
	const struct vb_engine_table *found = atomic_load(&table);
	const struct vb_engine_table *(*engine)(unsigned);

	if (found)
		return found;
	engine = (__typeof__(engine))vb_check_real("verbena_engine");
	found = engine ? engine(VB_ENGINE_TABLE_VERSION) : NULL;
	atomic_store(&table, found);
	return found;
}

/* --- the layer on a context --- */

static struct {
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *, struct ibv_srq_init_attr_ex *);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *,
					      struct ibv_parent_domain_init_attr *);
	int (*query_device_ex)(struct ibv_context *, const struct ibv_query_device_ex_input *,
			       struct ibv_device_attr_ex *, size_t);
} real;

#include "check/create.h"

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *ex = real.create_cq_ex(context, attr);
	struct vb_object *cq;

	if (!ex)
		return ex;
	cq = vb_check_made(VB_KIND_CQ, ex, VB_HERE());
	if (!cq)
		return ex;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) {
		cq->alone = attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
		cq->overrun_ignored = attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	}
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		vb_check_inherit(cq, attr->parent_domain);
	vb_check_wrap_cq(cq, ex);
	return ex;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	const struct vb_stack *stack = VB_HERE();
	const struct ibv_qp_init_attr_ex asked = *attr;
	struct ibv_qp *qp = real.create_qp_ex(context, attr);
	struct vb_object *object;

	if (!qp)
		return qp;
	vb_check_limits(&asked, stack);
	object = vb_check_made_qp(qp, (const struct ibv_qp_init_attr *)&asked, stack);
	if (object && attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		vb_check_wrap_qp(object, VB_CHECK_REAL(ibv_qp_to_qp_ex)(qp));
	if (object && attr->comp_mask & IBV_QP_INIT_ATTR_PD)
		vb_check_inherit(object, attr->pd);
	return qp;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_srq *srq = real.create_srq_ex(context, attr);
	struct vb_object *object = srq ? vb_check_made(VB_KIND_SRQ, srq, stack) : NULL;

	if (object && attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE)
		object->untracked = attr->srq_type != IBV_SRQT_BASIC;
	return srq;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
					  struct ibv_parent_domain_init_attr *attr)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_pd *pd = real.alloc_parent_domain(context, attr);
	struct vb_object *object = pd ? vb_check_made(VB_KIND_PD, pd, stack) : NULL;

	if (object)
		object->alone = attr->td;
	return pd;
}

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	if (!vb_check_by_library(__builtin_return_address(0)))
		vb_check_queried();
	return real.query_device_ex(context, input, attr, size);
}

/* A call that the device lacks stays empty. */
#define LAYER(table, call, layer)              \
	do {                                   \
		if ((table)->call)             \
			(table)->call = layer; \
	} while (0)

void vb_check_wrap_context(struct ibv_context *context)
{
	struct verbs_context *verbs = verbs_get_ctx(context);

	if (!atomic_exchange(&used, true)) {
		vb_check_watch_rnr();
		vb_check_enter();
		vb_watch_begin();
		vb_check_leave();
	}
	vb_check_ops = context->ops;
	LAYER(&context->ops, post_send, vb_check_post_send);
	LAYER(&context->ops, post_recv, vb_check_post_recv);
	LAYER(&context->ops, post_srq_recv, vb_check_post_srq_recv);
	LAYER(&context->ops, bind_mw, vb_check_bind_mw);
	LAYER(&context->ops, poll_cq, vb_check_poll_cq);
	LAYER(&context->ops, alloc_mw, vb_check_alloc_mw);
	LAYER(&context->ops, dealloc_mw, vb_check_dealloc_mw);
	if (!verbs)
		return;
	real.create_cq_ex = verbs->create_cq_ex;
	real.create_qp_ex = verbs->create_qp_ex;
	real.create_srq_ex = verbs->create_srq_ex;
	real.alloc_parent_domain = verbs->alloc_parent_domain;
	real.query_device_ex = verbs->query_device_ex;
	LAYER(verbs, create_cq_ex, create_cq_ex);
	LAYER(verbs, create_qp_ex, create_qp_ex);
	LAYER(verbs, create_srq_ex, create_srq_ex);
	LAYER(verbs, alloc_parent_domain, alloc_parent_domain);
	LAYER(verbs, query_device_ex, query_device_ex);
}

/* --- the end --- */

static void finish(void)
{
	if (atomic_load(&used) && getpid() == process)
		vb_report_summary();
}

static void at_exit(void *unused)
{
	int status;

	if (getpid() != process)
		return;
	if (atomic_load(&used))
		vb_check_at_end();
	finish();
	status = vb_report_status(0);
	if (!status)
		return;
	fflush(NULL);
	((void (*)(int))dlsym(RTLD_NEXT, "_exit"))(status);
}

VB_PUBLIC void _exit(int status)
{
	finish();
	((void (*)(int))dlsym(RTLD_NEXT, "_exit"))(getpid() == process ? vb_report_status(status)
								       : status);
	__builtin_unreachable();
}

VB_PUBLIC void _Exit(int status)
{
	_exit(status);
}

static void forked(void)
{
	atomic_store(&used, false);
	process = getpid();
	vb_stacks_forked();
	vb_report_forked();
	vb_objects_forget();
	vb_ranges_forget();
	vb_watch_forked();
}

__attribute__((constructor)) static void begin(void)
{
	process = getpid();
	vb_report_begin();
	pthread_atfork(NULL, NULL, forked);
	__cxa_atexit(at_exit, NULL, NULL); /* no library's own: it runs last */
}
