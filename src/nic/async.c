/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events of a context: a list, and a descriptor that counts it. */
#include <stdlib.h>

#include "nic/context.h"

struct async_event {
	struct vb_list node;
	struct ibv_async_event event;
	_Atomic uint32_t *taken; /* NULL: the event of a port or device */
};

int vb_async_init(struct vb_context *ctx)
{
	int err = vb_event_fd_open(&ctx->async_fd);

	if (err)
		return err;
	vb_list_init(&ctx->async_events);
	ctx->verbs.context.async_fd = ctx->async_fd->fd;
	return 0;
}

void vb_async_close(struct vb_context *ctx)
{
	vb_event_fd_close(ctx->async_fd);
	ctx->verbs.context.async_fd = -1;
}

static void drop_events(struct vb_context *ctx)
{
	vb_list_for(entry, &ctx->async_events, struct async_event, node)
		free(entry);
	vb_list_init(&ctx->async_events);
}

void vb_async_free(struct vb_context *ctx)
{
	drop_events(ctx);
	vb_event_fd_put(ctx->async_fd);
}

void vb_context_release(struct vb_context *ctx)
{
	if (atomic_fetch_sub(&ctx->objects, 1) != 1 || !ctx->closed)
		return;
	vb_async_free(ctx);
	free(ctx);
}

void vb_async_own(struct vb_context *ctx)
{
	drop_events(ctx);
	vb_event_fd_own(ctx->async_fd);
}

void vb_async_raise(struct ibv_context *ibv, enum ibv_event_type type, void *object,
		    _Atomic uint32_t *taken)
{
	struct vb_context *ctx = vb_context(ibv);
	struct async_event *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return;
	entry->event.event_type = type;
	entry->event.element.qp = object; /* all members of the union are pointers */
	entry->taken = taken;
	pthread_mutex_lock(&ctx->async_fd->lock);
	vb_list_append(&ctx->async_events, &entry->node);
	vb_event_fd_count(ctx->async_fd, 1);
	pthread_mutex_unlock(&ctx->async_fd->lock);
}

static void *take_oldest(void *context)
{
	struct vb_context *ctx = context;
	struct async_event *entry;

	if (vb_list_empty(&ctx->async_events))
		return NULL;
	entry = vb_container(ctx->async_events.next, struct async_event, node);
	vb_list_remove(&entry->node);
	if (entry->taken)
		atomic_fetch_add(entry->taken, 1);
	return entry;
}

int vb_async_take(struct ibv_context *ibv, struct ibv_async_event *event)
{
	struct vb_context *ctx = vb_context(ibv);
	void *taken;
	int err = vb_event_fd_take(ctx->async_fd, take_oldest, ctx, &taken);

	if (err)
		return err;
	*event = ((struct async_event *)taken)->event;
	free(taken);
	return 0;
}

void vb_async_purge(struct ibv_context *ibv, const void *object)
{
	struct vb_context *ctx = vb_context(ibv);

	pthread_mutex_lock(&ctx->async_fd->lock);
	vb_list_for(entry, &ctx->async_events, struct async_event, node) {
		if (entry->event.element.qp != object)
			continue;
		vb_list_remove(&entry->node);
		free(entry);
		vb_event_fd_uncount(ctx->async_fd);
	}
	pthread_mutex_unlock(&ctx->async_fd->lock);
}
