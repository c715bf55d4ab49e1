/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/counters.h"

#include <stdlib.h>

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "nic/context.h"
#include "nic/given.h"
#include "verbs/ops.h"

struct ibv_counters *vb_ops_create_counters(struct ibv_context *context,
					    struct ibv_counters_init_attr *attr)
{
	VB_NO_CANCEL;
	struct vb_counters *counters;

	if (attr->comp_mask)
		vb_explain("ibv_create_counters: comp_mask 0x%x must be 0", attr->comp_mask);
	if (attr->comp_mask || vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_create_counters"))
		return vb_return_null(-EINVAL);
	counters = calloc(1, sizeof(*counters));
	if (!counters)
		return vb_return_null(-ENOMEM);
	counters->ibv.context = context;
	if (vb_given_add(VB_GIVEN_COUNTERS, counters)) {
		free(counters);
		return vb_return_null(-ENOMEM);
	}
	atomic_fetch_add(&vb_context(context)->objects, 1);
	return &counters->ibv;
}

static int destroy_counters(struct vb_counters *counters)
{
	uint32_t flows = atomic_load(&counters->flows);

	if (flows) {
		vb_explain("ibv_destroy_counters: %u flows still count there", flows);
		return -EBUSY;
	}
	atomic_fetch_sub(&vb_context(counters->ibv.context)->objects, 1);
	free(counters);
	return 0;
}

int vb_ops_destroy_counters(struct ibv_counters *counters)
{
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_COUNTERS, counters, "ibv_destroy_counters");

	if (!err)
		err = vb_given_ended(VB_GIVEN_COUNTERS, counters,
				     destroy_counters(vb_counters(counters)));
	return vb_return_errno(err);
}

static int attach_point(struct vb_counters *counters, const struct ibv_counter_attach_attr *attr)
{
	static const char call[] = "ibv_attach_counters_point_flow";

	if (attr->comp_mask || attr->index >= VB_COUNTERS_MAX) {
		vb_explain("%s: comp_mask 0x%x must be 0, and index %u below %u", call,
			   attr->comp_mask, attr->index, VB_COUNTERS_MAX);
		return -EINVAL;
	}
	if (attr->counter_desc != IBV_COUNTER_PACKETS && attr->counter_desc != IBV_COUNTER_BYTES) {
		vb_explain("%s: counter_desc %d: packets and bytes are counted", call,
			   (int)attr->counter_desc);
		return -ENOTSUP;
	}
	if (atomic_load(&counters->flows)) {
		vb_explain("%s: a flow counts there already", call);
		return -EBUSY;
	}
	if (counters->point_count == VB_COUNTER_POINTS_MAX) {
		vb_explain("%s: all %u points are attached", call, VB_COUNTER_POINTS_MAX);
		return -ENOMEM;
	}
	counters->points[counters->point_count++] = (struct vb_counter_point){
		.description = (uint8_t)attr->counter_desc,
		.index = (uint8_t)attr->index,
	};
	if (counters->place_count <= attr->index)
		counters->place_count = attr->index + 1;
	return 0;
}

/* Nothing is attached to a flow that exists, only to flows that are created with the object. */
int vb_ops_attach_counters_point_flow(struct ibv_counters *ibv,
				      struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
{
	VB_NO_CANCEL;
	int err = vb_given_check(VB_GIVEN_COUNTERS, ibv, "ibv_attach_counters_point_flow");

	if (!err && flow) {
		vb_explain("ibv_attach_counters_point_flow: counters are attached before the flow "
			   "is created, not to a flow that exists");
		err = -ENOTSUP;
	}
	if (!err)
		err = attach_point(vb_counters(ibv), attr);
	return vb_return_errno(err);
}

int vb_ops_read_counters(struct ibv_counters *ibv, uint64_t *values, uint32_t count, uint32_t flags)
{
	VB_NO_CANCEL;
	struct vb_counters *counters = vb_counters(ibv);

	if (vb_given_check(VB_GIVEN_COUNTERS, ibv, "ibv_read_counters"))
		return vb_return_errno(-EINVAL);
	if (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED ||
	    count > counters->place_count) {
		vb_explain("ibv_read_counters: %u counters are attached, %u are asked for",
			   counters->place_count, count);
		return vb_return_errno(-EINVAL);
	}
	for (uint32_t i = 0; i < count; i++)
		values[i] = atomic_load_explicit(&counters->values[i], memory_order_relaxed);
	vb_tell_filled(values, count * sizeof(*values));
	return 0;
}

void vb_counters_add(struct vb_counters *counters, uint64_t packets, uint64_t bytes)
{
	for (uint32_t i = 0; i < counters->point_count; i++) {
		const struct vb_counter_point *point = &counters->points[i];
		uint64_t more = point->description == IBV_COUNTER_PACKETS ? packets : bytes;

		atomic_fetch_add_explicit(&counters->values[point->index], more,
					  memory_order_relaxed);
	}
}
