/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices of librdmacm. Each is opened once, and has a PD that identifiers share. */
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
	struct ibv_context *watched; /* a second context, for asynchronous events; or NULL */
	struct ibv_pd *pd;           /* for QPs that the application gives no PD */
	struct ibv_xrcd *xrcd;       /* opened by the first user that needs it; NULL: not open */
	unsigned users;              /* identifiers, and lists of rdma_get_devices */
	uint64_t guid;               /* network order */
	uint8_t max_initiator_depth, max_responder_resources;
	int max_qp_wr;
	bool ethernet;
};

/* 0: there is at least one device; else -ENODEV. */
int vb_cma_devices_find(void);
/* Opens the device at its first use, and counts the user. */
int vb_cma_device_acquire(struct ibv_device *device, struct vb_cma_device **out);
void vb_cma_device_release(struct vb_cma_device *device);
/* NULL and errno: the device has no XRC. */
struct ibv_xrcd *vb_cma_device_xrcd(struct vb_cma_device *device);
/* The index of a GID in the table of port 1, or -ENODATA. */
int vb_cma_device_gid_index(struct vb_cma_device *device, const union ibv_gid *gid);
/* In the child of a fork: the open devices stay with the parent. */
void vb_cma_devices_forget(void);

/*
 * device_events.c: identifiers hear when the device fails or an address goes. If the events cannot
 * be watched, only these reports are missing.
 */
void vb_cma_device_events_watch(struct vb_cma_device *device);

#endif
