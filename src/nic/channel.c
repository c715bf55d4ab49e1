/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/channel.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "nic/cq.h"

int vb_channel_create(struct ibv_context *ctx, struct vb_channel **out)
{
	struct vb_channel *channel = calloc(1, sizeof(*channel));
	int err;

	if (!channel)
		return -ENOMEM;
	channel->ibv.context = ctx;
	err = vb_event_fd_open(&channel->events);
	if (err) {
		free(channel);
		return err;
	}
	channel->ibv.fd = channel->events->fd;
	channel->nic = vb_nic_current();
	vb_list_init(&channel->cqs);
	atomic_fetch_add(&vb_context(ctx)->objects, 1);
	*out = channel;
	return 0;
}

int vb_channel_destroy(struct vb_channel *channel)
{
	if (channel->ibv.refcnt && channel->nic == vb_nic_current()) {
		vb_explain("ibv_destroy_comp_channel: %d CQs still raise their events there",
			   channel->ibv.refcnt);
		return -EBUSY;
	}
	vb_event_fd_close(channel->events);
	vb_event_fd_put(channel->events);
	atomic_fetch_sub(&vb_context(channel->ibv.context)->objects, 1);
	free(channel);
	return 0;
}

void vb_channel_signal(struct vb_channel *channel, uint64_t events)
{
	vb_event_fd_count(channel->events, events);
}

static void *take_cq_with_event(void *arg)
{
	struct vb_channel *channel = arg;

	vb_list_for(cq, &channel->cqs, struct vb_cq, channel_node) {
		if (!atomic_load(&cq->events_pending))
			continue;
		atomic_fetch_sub(&cq->events_pending, 1);
		cq->events_taken++;
		/* The CQ goes behind the others, so that each gets its turn. */
		vb_list_remove(&cq->channel_node);
		vb_list_append(&channel->cqs, &cq->channel_node);
		return cq;
	}
	return NULL;
}

int vb_channel_take(struct vb_channel *channel, struct vb_cq **cq)
{
	void *taken;
	int err = vb_event_fd_take(channel->events, take_cq_with_event, channel, &taken);

	*cq = taken;
	return err;
}
