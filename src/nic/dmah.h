/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DMA handles: hints for the transactions of a NIC on its bus (a CPU, a processing hint, a kind of
 * memory). Here a CPU copies, and no bus carries hints: the hints are checked, kept and obeyed by
 * nothing.
 */
#ifndef VB_NIC_DMAH_H
#define VB_NIC_DMAH_H

#include <stdatomic.h>

#include "abi/verbs.h"
#include "base/list.h"

struct vb_dmah {
	struct ibv_dmah ibv;    /* first */
	_Atomic uint32_t users; /* count of regions */
};

static inline struct vb_dmah *vb_dmah(struct ibv_dmah *ibv)
{
	return vb_container(ibv, struct vb_dmah, ibv);
}

#endif
