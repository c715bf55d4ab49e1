/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_NIC_PD_H
#define VB_NIC_PD_H

#include "nic/context.h"

struct vb_pd {
	struct ibv_pd ibv; /* first */
	struct vb_nic *nic;
	uint32_t id;       /* names the domain in shared memory */
	_Atomic uint32_t users; /* MRs, MWs, AHs, QPs, SRQs */
};

static inline struct vb_pd *vb_pd(struct ibv_pd *ibv)
{
	return vb_container(ibv, struct vb_pd, ibv);
}

int vb_pd_alloc(struct ibv_context *ctx, struct vb_pd **out);
/* -EBUSY while anything belongs to it. */
int vb_pd_dealloc(struct vb_pd *pd);

#endif
