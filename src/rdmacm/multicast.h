/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of an identifier. */
#ifndef VB_RDMACM_MULTICAST_H
#define VB_RDMACM_MULTICAST_H

#include "rdmacm/cma.h"

struct vb_cma_group {
	struct vb_list node; /* in id->groups, until it is left */
	struct sockaddr_storage addr;
	union ibv_gid mgid;
	uint16_t mlid; /* InfiniBand, else 0 */
	void *context;
	bool send_only; /* the QP is not attached: it receives nothing */
	bool attached;  /* by us, or by the application if the QP came later */
	uint32_t events_reported, events_acked;
};

/* When MULTICAST_JOIN is fetched: attaches the QP and fills the event, or makes an error of it. */
void vb_cma_group_joined(struct vb_cma_event *event);
/* Under the lock. */
void vb_cma_group_acked(struct vb_cma_group *group);

/* All groups let go of a QP that is no longer the identifier's. */
void vb_cma_groups_detach(struct vb_cma_id *id, struct ibv_qp *qp);
/* All groups are left; nobody looks at their events any more. */
void vb_cma_groups_leave(struct vb_cma_id *id);

#endif
