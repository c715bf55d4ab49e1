/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands of NETLINK_RDMA about counters: those of this process, as in the files hw_counters. */
#include <errno.h>
#include <rdma/rdma_netlink.h>

#include "sysfs/nl_answer.h"

struct table {
	struct vb_nl_out *out;
	bool status; /* numbers instead of values */
	uint32_t index;
};

static void put_counter(void *arg, const char *name, uint64_t value)
{
	struct table *table = arg;
	const size_t entry =
		vb_nl_nest_begin(table->out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY | NLA_F_NESTED);

	vb_nl_put_string(table->out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
	if (table->status)
		vb_nl_put_u32(table->out, VB_NLDEV_STAT_HWCOUNTER_INDEX, table->index++);
	else
		vb_nl_put_u64(table->out, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
	vb_nl_nest_end(table->out, entry);
}

static int put_table(struct vb_nl_out *out, bool status)
{
	struct table table = { out, status };
	size_t nest;

	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	nest = vb_nl_nest_begin(out, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS | NLA_F_NESTED);
	vb_adapter_counters_each(put_counter, &table);
	vb_nl_nest_end(out, nest);
	return 0;
}

static int fill_counters(const struct vb_adapter *adapter, struct vb_nl_request *request,
			 struct vb_nl_out *out)
{
	return put_table(out, false);
}

static int fill_status(const struct vb_adapter *adapter, struct vb_nl_request *request,
		       struct vb_nl_out *out)
{
	return put_table(out, true);
}

/* Counters are not bound to QPs. */
static int fill_mode(const struct vb_adapter *adapter, struct vb_nl_request *request,
		     struct vb_nl_out *out)
{
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_NONE);
	return 0;
}

static int get_statistic(const struct vb_adapter *adapter, struct vb_nl_request *request,
			 struct vb_nl_out *out)
{
	vb_nl_fill *fill = fill_counters;

	if (!vb_nl_request_has(request, RDMA_NLDEV_ATTR_PORT_INDEX))
		return -EINVAL;
	if (vb_nl_request_has(request, RDMA_NLDEV_ATTR_STAT_RES)) {
		if (vb_nl_request_u32(request, RDMA_NLDEV_ATTR_STAT_RES) !=
			    RDMA_NLDEV_ATTR_RES_QP ||
		    !vb_nl_request_has(request, RDMA_NLDEV_ATTR_STAT_MODE))
			return vb_nl_refuse(request, -EINVAL,
					    "Verbena counts for whole ports only");
		fill = fill_mode;
	}
	return vb_nl_device_message(adapter, request, out, RDMA_NLDEV_CMD_STAT_GET, 0, fill);
}

int vb_nl_statistic_get(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_with_device(request, out, get_statistic);
}

/* Counters of single QPs and MRs: there is none. */
static int get_none(const struct vb_adapter *adapter, struct vb_nl_request *request,
		    struct vb_nl_out *out)
{
	const uint32_t object = vb_nl_request_has(request, RDMA_NLDEV_ATTR_STAT_RES)
					? vb_nl_request_u32(request, RDMA_NLDEV_ATTR_STAT_RES)
					: 0;

	return object == RDMA_NLDEV_ATTR_RES_QP || object == RDMA_NLDEV_ATTR_RES_MR ? 0 : -EINVAL;
}

int vb_nl_statistic_dump(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_with_device(request, out, get_none);
}

static int get_status(const struct vb_adapter *adapter, struct vb_nl_request *request,
		      struct vb_nl_out *out)
{
	if (!vb_nl_request_has(request, RDMA_NLDEV_ATTR_PORT_INDEX))
		return -EINVAL;
	return vb_nl_device_message(adapter, request, out, VB_NLDEV_CMD_STAT_GET_STATUS, 0,
				    fill_status);
}

int vb_nl_statistic_status(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_with_device(request, out, get_status);
}
