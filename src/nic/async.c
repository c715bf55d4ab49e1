/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events of a context: a list, and an eventfd that counts it. */
#include "nic/context.h"
#include "base/message.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

struct async_event {
	struct vb_list node;
	struct ibv_async_event event;
	_Atomic uint32_t *taken; /* NULL: the event of a port or device */
};

int vb_async_init(struct vb_context *ctx)
{
	pthread_mutex_init(&ctx->async_lock, NULL);
	vb_list_init(&ctx->async_events);
	ctx->verbs.context.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	return ctx->verbs.context.async_fd < 0 ? -errno : 0;
}

void vb_async_close(struct vb_context *ctx)
{
	vb_list_for(entry, &ctx->async_events, struct async_event, node)
		free(entry);
	if (ctx->verbs.context.async_fd >= 0)
		close(ctx->verbs.context.async_fd);
	pthread_mutex_destroy(&ctx->async_lock);
}

void vb_async_raise(struct ibv_context *ibv, enum ibv_event_type type, void *object,
		    _Atomic uint32_t *taken)
{
	struct vb_context *ctx = vb_context(ibv);
	struct async_event *entry = calloc(1, sizeof(*entry));
	uint64_t one = 1;

	if (!entry)
		return;
	entry->event.event_type = type;
	entry->event.element.qp = object; /* one union of pointers */
	entry->taken = taken;
	pthread_mutex_lock(&ctx->async_lock);
	vb_list_append(&ctx->async_events, &entry->node);
	pthread_mutex_unlock(&ctx->async_lock);
	if (vb_write(ibv->async_fd, &one, sizeof(one)) < 0)
		return; /* 2^64 - 2 events pend: it is readable */
}

int vb_async_take(struct ibv_context *ibv, struct ibv_async_event *event)
{
	struct vb_context *ctx = vb_context(ibv);
	struct async_event *entry = NULL;
	uint64_t count;

	/* An event may have been purged after its count was written: then wait for the next. */
	while (!entry) {
		if (read(ibv->async_fd, &count, sizeof(count)) < 0)
			return -errno;
		pthread_mutex_lock(&ctx->async_lock);
		if (!vb_list_empty(&ctx->async_events)) {
			entry = vb_container(ctx->async_events.next, struct async_event, node);
			vb_list_remove(&entry->node);
			if (entry->taken)
				atomic_fetch_add(entry->taken, 1);
		}
		pthread_mutex_unlock(&ctx->async_lock);
	}
	*event = entry->event;
	free(entry);
	return 0;
}

void vb_async_purge(struct ibv_context *ibv, const void *object)
{
	struct vb_context *ctx = vb_context(ibv);
	uint64_t count;
	struct iovec iov = { &count, sizeof(count) };

	pthread_mutex_lock(&ctx->async_lock);
	vb_list_for(entry, &ctx->async_events, struct async_event, node) {
		if (entry->event.element.qp != object)
			continue;
		vb_list_remove(&entry->node);
		free(entry);
		/* Take its count back, so that the fd does not stay readable for nothing. */
		if (preadv2(ibv->async_fd, &iov, 1, -1, RWF_NOWAIT) < 0)
			continue;
	}
	pthread_mutex_unlock(&ctx->async_lock);
}
