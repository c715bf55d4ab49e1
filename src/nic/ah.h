/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_NIC_AH_H
#define VB_NIC_AH_H

#include "nic/device.h"
#include "nic/pd.h"

struct vb_ah {
	struct ibv_ah ibv; /* first */
	struct vb_pd *pd;
	struct vb_nic *nic;
	struct vb_av av;
	_Atomic int refs; /* of the application, and of work requests that are not executed yet */
};

static inline struct vb_ah *vb_ah(struct ibv_ah *ibv)
{
	return vb_container(ibv, struct vb_ah, ibv);
}

int vb_ah_create(struct vb_pd *pd, const struct ibv_ah_attr *attr, struct vb_ah **out);
void vb_ah_destroy(struct vb_ah *ah);

static inline void vb_ah_get(struct vb_ah *ah)
{
	atomic_fetch_add_explicit(&ah->refs, 1, memory_order_relaxed);
}

void vb_ah_put(struct vb_ah *ah); /* NULL is allowed */

#endif
