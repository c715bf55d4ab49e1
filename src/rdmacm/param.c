/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/param.h"

#include <errno.h>
#include <string.h>

int vb_cma_data_gather(struct vb_cma_id *id, const void *data, size_t length, size_t limit,
		       const char *call, struct vb_cma_data *out)
{
	size_t front = id->connect_len;

	if (!data)
		length = 0;
	if (front + length > limit) {
		vb_explain("%s: %zu bytes of private data are more than the message holds (%zu)",
			   call, front + length, limit);
		return -EINVAL;
	}
	if (front)
		memcpy(out->bytes, id->connect, front);
	if (length)
		memcpy(out->bytes + front, data, length);
	out->length = front + length;
	return 0;
}

static int check_depth(const char *call, const char *name, uint8_t value, uint8_t limit)
{
	/* UINT8_MAX is RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH: the limit itself. */
	if (value == UINT8_MAX || value <= limit)
		return 0;
	vb_explain("%s: %s %u is more than the device's %u", call, name, value, limit);
	return -EINVAL;
}

int vb_cma_param_check(struct vb_cma_id *id, const struct rdma_conn_param *param, const char *call)
{
	int err;

	if (!id->device) {
		vb_explain("%s: the identifier is not bound to a device: resolve an address "
			   "and a route first (a server: it comes with a request)",
			   call);
		return -EINVAL;
	}
	if (id->id.ps != RDMA_PS_TCP)
		return 0;
	if (!id->id.qp && !param) {
		vb_explain("%s: the identifier has no QP, so conn_param must name one", call);
		return -EINVAL;
	}
	if (!param)
		return 0;
	if (!id->id.qp && param->qp_num >> 24) {
		vb_explain("%s: qp_num 0x%x is no QP number: QP numbers have 24 bits", call,
			   param->qp_num);
		return -EINVAL;
	}
	err = check_depth(call, "responder_resources", param->responder_resources,
			  id->device->max_responder_resources);
	return err ? err
		   : check_depth(call, "initiator_depth", param->initiator_depth,
				 id->device->max_initiator_depth);
}

void vb_cma_param_qp(struct vb_cma_id *id, const struct rdma_conn_param *param)
{
	vb_cma_lock();
	if (id->id.qp) {
		id->qp_num = id->id.qp->qp_num;
		id->srq = id->id.qp->srq != NULL;
	} else if (param) {
		id->qp_num = param->qp_num;
		id->srq = param->srq != 0;
	}
	vb_cma_unlock();
}
