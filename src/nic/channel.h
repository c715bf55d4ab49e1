/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels: events of several CQs, one descriptor. */
#ifndef VB_NIC_CHANNEL_H
#define VB_NIC_CHANNEL_H

#include "nic/context.h"

struct vb_cq;

struct vb_channel {
	struct ibv_comp_channel ibv; /* first */
	struct vb_nic *nic;
	struct vb_event_fd *events; /* its lock: the list, and which CQ's event is taken */
	struct vb_list cqs;
};

static inline struct vb_channel *vb_channel(struct ibv_comp_channel *ibv)
{
	return vb_container(ibv, struct vb_channel, ibv);
}

int vb_channel_create(struct ibv_context *ctx, struct vb_channel **out);
int vb_channel_destroy(struct vb_channel *channel); /* -EBUSY: it has CQs */
void vb_channel_signal(struct vb_channel *channel, uint64_t events);
/* The CQ whose event is the next; blocks, or -EAGAIN, as the fd is set. */
int vb_channel_take(struct vb_channel *channel, struct vb_cq **cq);

#endif
