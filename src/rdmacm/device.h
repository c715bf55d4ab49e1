/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices as librdmacm has them: each opened once, with a PD that identifiers share. */
#ifndef VB_RDMACM_DEVICE_H
#define VB_RDMACM_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct vb_cma_device {
	struct vb_list node;
	struct ibv_device *device;
	struct ibv_context *verbs;
	struct ibv_context *watched; /* a second one, for its asynchronous events; or NULL */
	struct ibv_pd *pd;           /* of identifiers that were given none */
	struct ibv_xrcd *xrcd;       /* made when asked for, while somebody uses the device */
	unsigned users;              /* identifiers, and lists of rdma_get_devices */
	uint64_t guid;               /* network order */
	uint8_t max_initiator_depth, max_responder_resources;
	int max_qp_wr;
	bool ethernet;
};

/* 0: at least one device; -ENODEV. */
int vb_cma_devices_find(void);
/* Opens it at first use. Release gives it back. */
int vb_cma_device_acquire(struct ibv_device *device, struct vb_cma_device **out);
void vb_cma_device_release(struct vb_cma_device *device);
/* NULL and errno: the device has no XRC. */
struct ibv_xrcd *vb_cma_device_xrcd(struct vb_cma_device *device);
/* The GID table index of a GID on port 1, or -ENODATA. */
int vb_cma_device_gid_index(struct vb_cma_device *device, const union ibv_gid *gid);
/* After a fork: what the parent opened stays the parent's. */
void vb_cma_devices_forget(void);

#endif
