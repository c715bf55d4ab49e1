/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing a device, and the table of calls that its context carries. */
#include "nic/context.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/adversary.h"
#include "base/annotate.h"
#include "base/cancel.h"
#include "base/config.h"
#include "base/result.h"
#include "base/symver.h"
#include "engine/engine.h"
#include "engine/link_watch.h"
#include "gsi/gsi.h"
#include "nic/given.h"
#include "nic/import.h"
#include "nic/pkey.h"
#include "nic/profile.h"
#include "path/fault/fault.h"
#include "system/forward.h"
#include "verbs/adversary.h"
#include "verbs/ops.h"

static void *not_for_callers(void)
{
	vb_explain("an entry of ibv_context_ops was called that is not for programs: the calls of "
		   "libibverbs do the same");
	return vb_return_null(-EOPNOTSUPP);
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
	struct vb_abi_newer_ops *newer = vb_abi_newer_ops(verbs);

	verbs->sz = sizeof(*verbs) + VB_ABI_MISSING_OPS * sizeof(void *);
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	verbs->query_port = vb_ops_query_port;
	verbs->query_device_ex = vb_ops_query_device_ex;
	verbs->create_cq_ex = vb_ops_create_cq_ex;
	verbs->modify_cq = vb_ops_modify_cq;
	verbs->create_qp_ex = vb_ops_create_qp_ex;
	verbs->modify_qp_rate_limit = vb_ops_modify_qp_rate_limit;
	verbs->create_srq_ex = vb_ops_create_srq_ex;
	verbs->get_srq_num = vb_ops_get_srq_num;
	verbs->post_srq_ops = vb_ops_post_srq_ops;
	verbs->alloc_null_mr = vb_ops_alloc_null_mr;
	verbs->advise_mr = vb_ops_advise_mr;
	verbs->alloc_dm = vb_ops_alloc_dm;
	verbs->free_dm = vb_ops_free_dm;
	verbs->reg_dm_mr = vb_ops_reg_dm_mr;
	verbs->alloc_td = vb_ops_alloc_td;
	verbs->dealloc_td = vb_ops_dealloc_td;
	verbs->alloc_parent_domain = vb_ops_alloc_parent_domain;
	verbs->query_rt_values = vb_ops_query_rt_values;
	verbs->create_counters = vb_ops_create_counters;
	verbs->destroy_counters = vb_ops_destroy_counters;
	verbs->attach_counters_point_flow = vb_ops_attach_counters_point_flow;
	verbs->read_counters = vb_ops_read_counters;
	verbs->create_wq = vb_ops_create_wq;
	verbs->modify_wq = vb_ops_modify_wq;
	verbs->destroy_wq = vb_ops_destroy_wq;
	verbs->create_rwq_ind_table = vb_ops_create_rwq_ind_table;
	verbs->destroy_rwq_ind_table = vb_ops_destroy_rwq_ind_table;
	verbs->ibv_create_flow = vb_ops_create_flow;
	verbs->ibv_destroy_flow = vb_ops_destroy_flow;
	verbs->open_xrcd = vb_ops_open_xrcd;
	verbs->close_xrcd = vb_ops_close_xrcd;
	verbs->open_qp = vb_ops_open_qp;
	newer->alloc_dmah = ibv_alloc_dmah;
	newer->dealloc_dmah = ibv_dealloc_dmah;
	newer->reg_mr_ex = ibv_reg_mr_ex;
	newer->dm_export_dmabuf_fd = ibv_dm_export_dmabuf_fd;
	newer->alloc_buf = ibv_alloc_buf;
	newer->free_buf = ibv_free_buf;
}

/* Callers find out about a missing call by its empty place. */
static void withdraw_verbs(struct verbs_context *verbs)
{
	const struct {
		enum vb_verb verb;
		size_t place;
	} places[] = {
		{ VB_VERB_ADVISE_MR, offsetof(struct verbs_context, advise_mr) },
		{ VB_VERB_ALLOC_DM, offsetof(struct verbs_context, alloc_dm) },
		{ VB_VERB_ALLOC_MW, offsetof(struct verbs_context, context.ops.alloc_mw) },
		{ VB_VERB_ALLOC_NULL_MR, offsetof(struct verbs_context, alloc_null_mr) },
		{ VB_VERB_ALLOC_PARENT_DOMAIN,
		  offsetof(struct verbs_context, alloc_parent_domain) },
		{ VB_VERB_ALLOC_TD, offsetof(struct verbs_context, alloc_td) },
		{ VB_VERB_CREATE_COUNTERS, offsetof(struct verbs_context, create_counters) },
		{ VB_VERB_CREATE_CQ_EX, offsetof(struct verbs_context, create_cq_ex) },
		{ VB_VERB_CREATE_FLOW, offsetof(struct verbs_context, ibv_create_flow) },
		{ VB_VERB_CREATE_QP_EX, offsetof(struct verbs_context, create_qp_ex) },
		{ VB_VERB_CREATE_SRQ_EX, offsetof(struct verbs_context, create_srq_ex) },
		{ VB_VERB_CREATE_WQ, offsetof(struct verbs_context, create_wq) },
		{ VB_VERB_MODIFY_CQ, offsetof(struct verbs_context, modify_cq) },
		{ VB_VERB_MODIFY_QP_RATE_LIMIT,
		  offsetof(struct verbs_context, modify_qp_rate_limit) },
		{ VB_VERB_OPEN_XRCD, offsetof(struct verbs_context, open_xrcd) },
		{ VB_VERB_QUERY_RT_VALUES, offsetof(struct verbs_context, query_rt_values) },
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (!vb_fact_has(VB_FACT_VERBS, places[i].verb))
			memset((char *)verbs + places[i].place, 0, sizeof(void *));
}

struct vb_nic *vb_nic_prepare(int *err)
{
	struct vb_nic *nic;

	vb_tools_find();
	vb_engine_watch_fork();
	vb_gsi_serve();
	*err = vb_config_check();
	if (!*err)
		*err = vb_profile_load();
	if (!*err)
		*err = vb_fault_load();
	if (!*err)
		*err = vb_pkey_load();
	if (*err)
		return NULL;
	nic = vb_nic_get();
	*err = nic ? 0 : -errno;
	return nic;
}

/* The context owns cmd_fd and export from then on, unless the call fails. */
static int open_device(struct vb_device *dev, int cmd_fd, struct vb_export *export,
		       struct ibv_context **out)
{
	struct vb_context *ctx = calloc(1, sizeof(*ctx));
	int err;

	if (!ctx)
		return -ENOMEM;
	ctx->dev = dev;
	ctx->export = export;
	err = vb_async_init(ctx);
	if (err) {
		free(ctx);
		return err;
	}
	err = vb_given_add(VB_GIVEN_CONTEXT, &ctx->verbs.context);
	if (err) {
		vb_async_close(ctx);
		vb_async_free(ctx);
		free(ctx);
		return err;
	}
	fill_verbs(&ctx->verbs);
	fill_ops(&ctx->verbs.context.ops);
	if (vb_adversary_on())
		vb_adversary_take_ops(&ctx->verbs.context.ops);
	withdraw_verbs(&ctx->verbs);
	ctx->verbs.context.device = &dev->ibv;
	ctx->verbs.context.cmd_fd = cmd_fd;
	ctx->verbs.context.num_comp_vectors = dev->comp_vectors;
	pthread_mutex_init(&ctx->verbs.context.mutex, NULL);
	vb_link_watch_add(ctx);
	*out = &ctx->verbs.context;
	return 0;
}

/* The context of a device of the system's, as the call returns it. */
static struct ibv_context *give_system(struct ibv_context *context)
{
	int err = context ? vb_system_learn(context) : 0;

	if (!err)
		return context;
	vb_system_ibv_close_device(context);
	return vb_return_null(err);
}

VB_PUBLIC struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	VB_NO_CANCEL;
	if (vb_system_knows_device(device))
		return give_system(vb_system_ibv_open_device(device));
	struct vb_device *dev = vb_container(device, struct vb_device, ibv);
	struct ibv_context *context;
	struct vb_export *export = NULL;
	int cmd_fd, err;

	if (!vb_nic_prepare(&err))
		return vb_return_null(err);
	if (vb_export_create(dev, &export, &cmd_fd))
		cmd_fd = eventfd(0, EFD_CLOEXEC); /* so that dup() works at least */
	err = open_device(dev, cmd_fd, export, &context);
	if (!err)
		return context;
	vb_export_put(export);
	close(cmd_fd);
	return vb_return_null(err);
}

VB_PUBLIC struct ibv_context *ibv_import_device(int cmd_fd)
{
	VB_NO_CANCEL;
	struct ibv_context *context;
	struct vb_export *export;
	struct vb_device *dev;
	int err;

	/* The kernel may have a device behind it. */
	if (!vb_export_is_file(cmd_fd) && vb_system_load())
		return give_system(vb_system_ibv_import_device(cmd_fd));
	if (vb_nic_prepare(&err))
		err = vb_export_open(cmd_fd, &export, &dev);
	if (err)
		return vb_return_null(err);
	err = open_device(dev, cmd_fd, export, &context);
	if (!err)
		return context;
	vb_export_put(export);
	return vb_return_null(err);
}

/* A context stays while objects name it, but without its descriptors. */
VB_PUBLIC int ibv_close_device(struct ibv_context *context)
{
	VB_NO_CANCEL;
	struct vb_context *ctx;

	if (vb_system_has_context(context)) {
		vb_system_forget(context);
		return vb_system_ibv_close_device(context);
	}
	if (vb_given_end(VB_GIVEN_CONTEXT, context, "ibv_close_device"))
		return vb_return_minus_one(-EINVAL);
	ctx = vb_context(context);
	vb_link_watch_remove(ctx);
	if (context->cmd_fd >= 0)
		close(context->cmd_fd);
	vb_export_put(ctx->export); /* objects that use it have references of their own */
	vb_async_close(ctx);
	context->cmd_fd = -1;
	ctx->export = NULL;
	/* A reference of this call: the last object may go at this moment. */
	atomic_fetch_add(&ctx->objects, 1);
	ctx->closed = true;
	vb_context_release(ctx);
	return vb_given_ended(VB_GIVEN_CONTEXT, context, 0);
}
