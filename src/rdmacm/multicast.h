/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of an identifier. */
#ifndef VB_RDMACM_MULTICAST_H
#define VB_RDMACM_MULTICAST_H

#include "rdmacm/cma.h"

struct vb_cma_group {
	struct vb_list node; /* in id->groups */
	struct sockaddr_storage addr;
	union ibv_gid mgid;
	void *context;
	bool send_only; /* the QP is not attached: it receives nothing */
	bool attached;	/* by us, or by the application if the QP came later */
	uint32_t events_reported, events_acked;
};

/* When MULTICAST_JOIN is fetched: attaches the QP and fills the event, or makes an error of it. */
void vb_cma_group_joined(struct vb_cma_event *event);
/* Under the lock. */
void vb_cma_group_acked(struct vb_cma_group *group);

/* All groups: the QP is detached; then, when nobody looks at their events any more, the memory. */
void vb_cma_groups_leave(struct vb_cma_id *id);
void vb_cma_groups_free(struct vb_cma_id *id);

#endif
