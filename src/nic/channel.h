/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels: one descriptor for the events of several CQs. */
#ifndef VB_NIC_CHANNEL_H
#define VB_NIC_CHANNEL_H

#include "nic/context.h"

struct vb_cq;

struct vb_channel {
	struct ibv_comp_channel ibv; /* first */
	struct vb_nic *nic;
	struct vb_event_fd *events; /* its lock protects cqs and the CQs' events_taken */
	struct vb_list cqs;         /* the CQ whose turn is next comes first */
};

static inline struct vb_channel *vb_channel(struct ibv_comp_channel *ibv)
{
	return vb_container(ibv, struct vb_channel, ibv);
}

int vb_channel_create(struct ibv_context *ctx, struct vb_channel **out);
int vb_channel_destroy(struct vb_channel *channel); /* -EBUSY: CQs use the channel */
void vb_channel_signal(struct vb_channel *channel, uint64_t events);
/* The CQ of the next event. Blocks, or -EAGAIN if the descriptor is nonblocking. */
int vb_channel_take(struct vb_channel *channel, struct vb_cq **cq);

#endif
