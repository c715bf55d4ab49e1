/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/channel.h"
#include "base/message.h"
#include "nic/cq.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

int vb_channel_create(struct ibv_context *ctx, struct vb_channel **out)
{
	struct vb_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return -ENOMEM;
	channel->ibv.context = ctx;
	channel->ibv.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (channel->ibv.fd < 0) {
		int err = -errno;

		free(channel);
		return err;
	}
	channel->nic = vb_nic_current();
	pthread_mutex_init(&channel->lock, NULL);
	vb_list_init(&channel->cqs);
	atomic_fetch_add(&vb_context(ctx)->objects, 1);
	*out = channel;
	return 0;
}

int vb_channel_destroy(struct vb_channel *channel)
{
	if (channel->ibv.refcnt && channel->nic == vb_nic_current())
		return -EBUSY;
	close(channel->ibv.fd);
	pthread_mutex_destroy(&channel->lock);
	atomic_fetch_sub(&vb_context(channel->ibv.context)->objects, 1);
	free(channel);
	return 0;
}

void vb_channel_signal(struct vb_channel *channel, uint64_t events)
{
	if (vb_write(channel->ibv.fd, &events, sizeof(events)) < 0)
		return; /* the counter is full: readable all the same */
}

static struct vb_cq *with_event(struct vb_channel *channel)
{
	vb_list_for(cq, &channel->cqs, struct vb_cq, channel_node) {
		if (!atomic_load(&cq->events_pending))
			continue;
		atomic_fetch_sub(&cq->events_pending, 1);
		cq->events_taken++;
		/* Behind the others, so that each gets its turn. */
		vb_list_remove(&cq->channel_node);
		vb_list_append(&channel->cqs, &cq->channel_node);
		return cq;
	}
	return NULL;
}

int vb_channel_take(struct vb_channel *channel, struct vb_cq **cq)
{
	uint64_t count;

	/* A count without an event belongs to a CQ that was destroyed: wait for the next. */
	for (*cq = NULL; !*cq;) {
		if (read(channel->ibv.fd, &count, sizeof(count)) < 0)
			return -errno;
		pthread_mutex_lock(&channel->lock);
		*cq = with_event(channel);
		pthread_mutex_unlock(&channel->lock);
	}
	return 0;
}
