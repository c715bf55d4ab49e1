/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_set_option: one row per option, with the size of its value. */
#include "rdmacm/option.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/bind.h"
#include "rdmacm/cma.h"
#include "rdmacm/route.h"
#include "rdmacm/system.h"

static int set_tos(struct vb_cma_id *id, const void *value)
{
	id->tos = *(const uint8_t *)value;
	id->tos_set = true;
	return 0;
}

static int set_reuseaddr(struct vb_cma_id *id, const void *value)
{
	int flag, err;

	memcpy(&flag, value, sizeof(flag));
	/* A shared port cannot become exclusive again, and a listener's port is exclusive. */
	if (id->state != VB_CMA_IDLE && (!flag || id->state == VB_CMA_LISTEN))
		return -EINVAL;
	if (id->reuseaddr == (flag != 0))
		return 0;
	id->reuseaddr = flag != 0;
	err = vb_cma_claim_renew(id);
	if (err)
		id->reuseaddr = !id->reuseaddr;
	return err;
}

static int set_afonly(struct vb_cma_id *id, const void *value)
{
	const enum vb_cm_family family = vb_cma_family(id);
	int flag, err = 0;

	memcpy(&flag, value, sizeof(flag));
	if (id->state != VB_CMA_IDLE && id->state != VB_CMA_ADDR_BOUND)
		return -EINVAL;
	id->afonly = flag != 0;
	if (vb_cma_family(id) != family)
		err = vb_cma_claim_renew(id);
	if (err)
		id->afonly = !id->afonly;
	else
		id->afonly_set = true;
	return err;
}

static int set_ack_timeout(struct vb_cma_id *id, const void *value)
{
	uint8_t exponent = *(const uint8_t *)value;

	if (id->id.qp_type != IBV_QPT_RC && id->id.qp_type != IBV_QPT_XRC_SEND)
		return -EINVAL;
	/* QPs and messages have five bits for it. */
	if (exponent > 31)
		return -EINVAL;
	id->ack_timeout = exponent;
	id->ack_timeout_set = true;
	return 0;
}

static int set_at_once(struct vb_cma_id *id, const void *value)
{
	int flag;

	memcpy(&flag, value, sizeof(flag));
	id->at_once = flag != 0;
	return 0;
}

struct option {
	int level, name;
	size_t size;
	int (*set)(struct vb_cma_id *id, const void *value);
};

static const struct option options[] = {
	{ RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, sizeof(uint8_t), set_tos },
	{ RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, sizeof(int), set_reuseaddr },
	{ RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, sizeof(int), set_afonly },
	{ RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, sizeof(uint8_t), set_ack_timeout },
	{ RDMA_OPTION_ID, VB_OPTION_ID_AT_ONCE, sizeof(int), set_at_once },
};

static const struct option *option_find(int level, int name)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (options[i].level == level && options[i].name == name)
			return &options[i];
	}
	return NULL;
}

static int set_option(struct vb_cma_id *id, int level, int name, const void *value, size_t size)
{
	const struct option *option = option_find(level, name);
	int err;

	if (!option) {
		vb_explain("rdma_set_option: level %d has no option %d", level, name);
		return -ENOSYS;
	}
	if (!value || size != option->size) {
		vb_explain("rdma_set_option: option %d of level %d is %zu bytes long, not %zu",
			   name, level, option->size, size);
		return -EINVAL;
	}
	err = vb_cma_stale(id->generation, "rdma_set_option");
	if (!err)
		err = option->set(id, value);
	if (err)
		vb_explain("rdma_set_option: option %d of level %d cannot have this value now",
			   name, level);
	return err;
}

VB_PUBLIC int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
			      size_t optlen)
{
	VB_NO_CANCEL;
	VB_CMA_PASS(id, rdma_set_option, (shadow, level, optname, optval, optlen));
	int err;

	if (level == RDMA_OPTION_IB && optname == RDMA_OPTION_IB_PATH)
		return vb_return_minus_one(vb_cma_route_set(vb_cma_id(id), optval, optlen));
	vb_cma_lock();
	err = set_option(vb_cma_id(id), level, optname, optval, optlen);
	vb_cma_unlock();
	if (!err)
		err = vb_cma_system_option(vb_cma_id(id), level, optname, optval, optlen);
	return vb_return_minus_one(err);
}
