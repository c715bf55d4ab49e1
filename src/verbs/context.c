/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing a device, and the table of calls that its context carries. */
#include "nic/context.h"
#include "engine/engine.h"
#include "engine/link_watch.h"
#include "path/fault/fault.h"
#include "verbs/ops.h"
#include "verbs/result.h"
#include "verbs/symver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *not_for_callers(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

/* The inline function calls it without looking whether there is one. */
static int no_close_xrcd(struct ibv_xrcd *xrcd)
{
	(void)xrcd;
	return EOPNOTSUPP;
}

static void fill_ops(struct ibv_context_ops *ops)
{
	void *(**slot)(void) = (void *(**)(void))ops;

	for (size_t i = 0; i < sizeof(*ops) / sizeof(*slot); i++)
		slot[i] = not_for_callers;
	ops->alloc_mw = vb_ops_alloc_mw;
	ops->bind_mw = vb_ops_bind_mw;
	ops->dealloc_mw = vb_ops_dealloc_mw;
	ops->poll_cq = vb_ops_poll_cq;
	ops->req_notify_cq = vb_ops_req_notify_cq;
	ops->post_srq_recv = vb_ops_post_srq_recv;
	ops->post_send = vb_ops_post_send;
	ops->post_recv = vb_ops_post_recv;
}

static void fill_verbs(struct verbs_context *verbs)
{
	verbs->sz = sizeof(*verbs);
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	verbs->query_port = vb_ops_query_port;
	verbs->query_device_ex = vb_ops_query_device_ex;
	verbs->create_cq_ex = vb_ops_create_cq_ex;
	verbs->modify_cq = vb_ops_modify_cq;
	verbs->create_qp_ex = vb_ops_create_qp_ex;
	verbs->modify_qp_rate_limit = vb_ops_modify_qp_rate_limit;
	verbs->create_srq_ex = vb_ops_create_srq_ex;
	verbs->get_srq_num = vb_ops_get_srq_num;
	verbs->alloc_null_mr = vb_ops_alloc_null_mr;
	verbs->alloc_td = vb_ops_alloc_td;
	verbs->dealloc_td = vb_ops_dealloc_td;
	verbs->alloc_parent_domain = vb_ops_alloc_parent_domain;
	verbs->query_rt_values = vb_ops_query_rt_values;
	verbs->create_counters = vb_ops_create_counters;
	verbs->destroy_counters = vb_ops_destroy_counters;
	verbs->attach_counters_point_flow = vb_ops_attach_counters_point_flow;
	verbs->read_counters = vb_ops_read_counters;
	verbs->close_xrcd = no_close_xrcd;
}

VB_PUBLIC struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct vb_context *ctx;
	int err;

	vb_fork_watch();
	err = vb_fault_load();
	if (err)
		return vb_return_null(err);
	if (!vb_nic_get())
		return NULL;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return vb_return_null(-ENOMEM);
	ctx->dev = vb_container(device, struct vb_device, ibv);
	err = vb_async_init(ctx);
	if (err) {
		free(ctx);
		return vb_return_null(err);
	}
	fill_verbs(&ctx->verbs);
	fill_ops(&ctx->verbs.context.ops);
	ctx->verbs.context.device = device;
	ctx->verbs.context.cmd_fd = eventfd(0, EFD_CLOEXEC); /* something to dup() */
	ctx->verbs.context.num_comp_vectors = VB_COMP_VECTORS;
	pthread_mutex_init(&ctx->verbs.context.mutex, NULL);
	vb_link_watch_add(ctx);
	return &ctx->verbs.context;
}

VB_PUBLIC int ibv_close_device(struct ibv_context *context)
{
	struct vb_context *ctx = vb_context(context);

	vb_link_watch_remove(ctx);
	if (context->cmd_fd >= 0)
		close(context->cmd_fd);
	/* Objects that outlive their context still name it: then it stays, without its fds. */
	if (atomic_load(&ctx->objects)) {
		close(context->async_fd);
		context->async_fd = context->cmd_fd = -1;
		return 0;
	}
	vb_async_close(ctx);
	free(ctx);
	return 0;
}
