/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls in front of a context (struct verbs_context) are the provider's. They set the errno of
 * their own C library. So those that tell their failure by errno get a layer, which copies it, and
 * which refuses parts that are not the system's. The layer finds the provider's function by the
 * context. Posting and polling have none: they return their errors.
 */
#include "system/context.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct known {
	struct ibv_context *context;
	struct verbs_context real; /* its calls, before the layer */
};

/* Free places are NULL. Written under the lock, released; pairs with the load in find. */
static struct known *_Atomic places[VB_SYSTEM_CONTEXTS_MAX];
static _Atomic unsigned place_count; /* places from here on were never used */

static struct known *find(const struct ibv_context *context, unsigned *place)
{
	const unsigned count = atomic_load_explicit(&place_count, memory_order_acquire);

	for (unsigned i = 0; i < count; i++) {
		struct known *known = atomic_load_explicit(&places[i], memory_order_acquire);

		if (!known || known->context != context)
			continue;
		if (place)
			*place = i;
		return known;
	}
	return NULL;
}

bool vb_system_knows(const struct ibv_context *context)
{
	return find(context, NULL) != NULL;
}

/* --- parts of new objects --- */

int vb_system_check_part(const void *part, const char *what, const char *call)
{
	if (!part || vb_system_has(part))
		return 0;
	vb_explain("%s: the %s is not one of the system's device: a device uses its own objects "
		   "only",
		   call, what);
	return -EINVAL;
}

static bool has_parts(const char *call, const void *first, const char *first_name,
		      const void *second, const char *second_name)
{
	if (!vb_system_check_part(first, first_name, call) &&
	    !vb_system_check_part(second, second_name, call))
		return true;
	errno = EINVAL;
	return false;
}

static bool check_qp(const struct ibv_qp_init_attr_ex *attr)
{
	static const char call[] = "ibv_create_qp_ex";

	return has_parts(call, attr->send_cq, "send CQ", attr->recv_cq, "receive CQ") &&
	       has_parts(call, attr->srq, "SRQ",
			 attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL, "PD");
}

static bool check_cq(const struct ibv_cq_init_attr_ex *attr)
{
	return has_parts("ibv_create_cq_ex", attr->channel, "completion channel",
			 attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain : NULL,
			 "parent domain");
}

static bool check_srq(const struct ibv_srq_init_attr_ex *attr)
{
	return has_parts("ibv_create_srq_ex",
			 attr->comp_mask & IBV_SRQ_INIT_ATTR_PD ? attr->pd : NULL, "PD",
			 attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ ? attr->cq : NULL, "CQ");
}

static bool check_wq(const struct ibv_wq_init_attr *attr)
{
	return has_parts("ibv_create_wq", attr->pd, "PD", attr->cq, "CQ");
}

static bool check_parent(const struct ibv_parent_domain_init_attr *attr)
{
	return has_parts("ibv_alloc_parent_domain", attr->pd, "PD", attr->td, "thread domain");
}

/* --- the layer --- */

/* A row: result, call, context of the call, parameters, arguments, check of the parts. */
/* clang-format off */
#define LAYERS(X) \
	X(struct ibv_mr *, alloc_null_mr, pd->context, (struct ibv_pd *pd), (pd), true) \
	X(struct ibv_counters *, create_counters, context, (struct ibv_context *context, \
		struct ibv_counters_init_attr *attr), (context, attr), true) \
	X(struct ibv_dm *, alloc_dm, context, (struct ibv_context *context, \
		struct ibv_alloc_dm_attr *attr), (context, attr), true) \
	X(struct ibv_mr *, reg_dm_mr, pd->context, (struct ibv_pd *pd, struct ibv_dm *dm, \
		uint64_t offset, size_t length, unsigned access), \
		(pd, dm, offset, length, access), \
		has_parts("ibv_reg_dm_mr", dm, "device memory", NULL, NULL)) \
	X(struct ibv_pd *, alloc_parent_domain, context, (struct ibv_context *context, \
		struct ibv_parent_domain_init_attr *attr), (context, attr), check_parent(attr)) \
	X(struct ibv_td *, alloc_td, context, (struct ibv_context *context, \
		struct ibv_td_init_attr *attr), (context, attr), true) \
	X(struct ibv_wq *, create_wq, context, (struct ibv_context *context, \
		struct ibv_wq_init_attr *attr), (context, attr), check_wq(attr)) \
	X(struct ibv_rwq_ind_table *, create_rwq_ind_table, context, \
		(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *attr), \
		(context, attr), true) \
	X(struct ibv_cq_ex *, create_cq_ex, context, (struct ibv_context *context, \
		struct ibv_cq_init_attr_ex *attr), (context, attr), check_cq(attr)) \
	X(struct ibv_flow *, ibv_create_flow, qp->context, (struct ibv_qp *qp, \
		struct ibv_flow_attr *attr), (qp, attr), true) \
	X(struct ibv_qp *, create_qp_ex, context, (struct ibv_context *context, \
		struct ibv_qp_init_attr_ex *attr), (context, attr), check_qp(attr)) \
	X(struct ibv_qp *, open_qp, context, (struct ibv_context *context, \
		struct ibv_qp_open_attr *attr), (context, attr), true) \
	X(struct ibv_srq *, create_srq_ex, context, (struct ibv_context *context, \
		struct ibv_srq_init_attr_ex *attr), (context, attr), check_srq(attr)) \
	X(struct ibv_xrcd *, open_xrcd, context, (struct ibv_context *context, \
		struct ibv_xrcd_init_attr *attr), (context, attr), true) \
	X(struct ibv_flow_action *, create_flow_action_esp, context, \
		(struct ibv_context *context, struct ibv_flow_action_esp_attr *attr), \
		(context, attr), true)
/* clang-format on */

#define LAYER(type, call, at, params, args, check)          \
	static type layer_##call params                     \
	{                                                   \
		const struct known *known = find(at, NULL); \
		type made = NULL;                           \
                                                            \
		if (!known) {                               \
			errno = ENODEV;                     \
			return NULL;                        \
		}                                           \
		if (!(check))                               \
			return NULL;                        \
		vb_system_enter();                          \
		made = known->real.call args;               \
		if (!made)                                  \
			errno = vb_system_errno();          \
		return made;                                \
	}
LAYERS(LAYER)

static struct ibv_mw *layer_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	const struct known *known = find(pd->context, NULL);
	struct ibv_mw *made;

	if (!known) {
		errno = ENODEV;
		return NULL;
	}
	vb_system_enter();
	made = known->real.context.ops.alloc_mw(pd, type);
	if (!made)
		errno = vb_system_errno();
	return made;
}

/*
 * The table grows at its top, and sz is its size. Of an older library it is shorter, and what would
 * lie above it is not ours to read.
 */
static void put_layer(struct known *known)
{
	struct verbs_context *verbs = verbs_get_ctx(known->context);
	struct ibv_context_ops *ops = &known->context->ops;
	size_t above;

	known->real.context.ops = *ops;
	if (ops->alloc_mw)
		ops->alloc_mw = layer_alloc_mw;
	if (!verbs)
		return;
	above = verbs->sz < sizeof(*verbs) ? sizeof(*verbs) - verbs->sz : 0;
	memcpy((char *)&known->real + above, (char *)verbs + above,
	       offsetof(struct verbs_context, context) - above);
#define PUT(type, call, at, params, args, check)                          \
	if (offsetof(struct verbs_context, call) >= above && verbs->call) \
		verbs->call = layer_##call;
	LAYERS(PUT)
#undef PUT
}

/* --- the set --- */

static int add(struct ibv_context *context)
{
	struct known *known;
	unsigned place = 0;

	while (place < VB_SYSTEM_CONTEXTS_MAX && atomic_load(&places[place]))
		place++;
	known = place < VB_SYSTEM_CONTEXTS_MAX ? calloc(1, sizeof(*known)) : NULL;
	if (!known)
		return -ENOMEM;
	known->context = context;
	put_layer(known);
	atomic_store_explicit(&places[place], known, memory_order_release);
	if (place >= atomic_load(&place_count))
		atomic_store_explicit(&place_count, place + 1, memory_order_release);
	return 0;
}

int vb_system_learn(struct ibv_context *context)
{
	int err;

	vb_system_lock();
	err = find(context, NULL) ? 0 : add(context);
	vb_system_unlock();
	if (err)
		vb_explain("the system's device %s: a process has at most %d contexts of the "
			   "system's devices open",
			   context->device->name, VB_SYSTEM_CONTEXTS_MAX);
	return err;
}

void vb_system_forget(struct ibv_context *context)
{
	struct known *known;
	unsigned place;

	vb_system_lock();
	known = find(context, &place);
	if (known)
		atomic_store(&places[place], NULL);
	vb_system_unlock();
	free(known);
}
