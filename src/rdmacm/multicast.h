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
	bool send_only; /* the QP is not attached, and receives nothing */
	bool attached;  /* the QP is; without a QP the application attaches its own */
	uint32_t events_reported, events_acked;
};

/* A thread fetches MULTICAST_JOIN: attaches the QP and fills the event, or makes it an error. */
void vb_cma_group_joined(struct vb_cma_event *event);
/* Under the lock. */
void vb_cma_group_acked(struct vb_cma_group *group);

/* Detaches from all groups a QP that the identifier no longer has. */
void vb_cma_groups_detach(struct vb_cma_id *id, struct ibv_qp *qp);
/* Leaves all groups. The application has acknowledged their events. */
void vb_cma_groups_leave(struct vb_cma_id *id);

#endif
