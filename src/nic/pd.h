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
/* A forked child goes on with a PD that it inherited, in its own NIC: 0 or -errno. */
int vb_pd_adopt(struct vb_pd *pd);
/* An object of pd is gone; what a child inherited never counted in an adopted PD. */
void vb_pd_release(struct vb_pd *pd, const struct vb_nic *nic);
/* -EBUSY while anything belongs to it. */
int vb_pd_dealloc(struct vb_pd *pd);

#endif
