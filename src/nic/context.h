/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts: opened devices, and their asynchronous events. */
#ifndef VB_NIC_CONTEXT_H
#define VB_NIC_CONTEXT_H

#include "abi/verbs.h"
#include "base/event_fd.h"
#include "base/list.h"
#include "nic/device.h"
#include "nic/nic.h"

struct vb_context {
#if !VB_HEADER_HAS_BUF
	void *newer_ops[VB_ABI_MISSING_OPS]; /* of verbs; the header does not have them */
#endif
	struct verbs_context verbs; /* the application's ibv_context is its last member */
	struct vb_device *dev;
	struct vb_export *export;     /* behind cmd_fd (import.h); NULL: nothing can be shared */
	struct vb_event_fd *async_fd; /* its lock protects async_events */
	struct vb_list async_events;  /* events that no thread has fetched yet */
	_Atomic uint32_t objects;     /* count of objects that still refer to the context */
	bool closed;         /* by the application: vb_context_release frees it (src/verbs) */
	uint32_t fatal_told; /* last failure of the device that was reported; under nic->lock */
};

static inline struct vb_context *vb_context(struct ibv_context *ibv)
{
	return vb_container(ibv, struct vb_context, verbs.context);
}

/* An object that may outlive the application's context is gone; the last one takes it along. */
void vb_context_release(struct vb_context *ctx);

/* --- asynchronous events (async.c) --- */

int vb_async_init(struct vb_context *ctx);
void vb_async_close(struct vb_context *ctx); /* closes the descriptor only */
void vb_async_free(struct vb_context *ctx);
/* After fork, in the child: drops the parent's events and makes a descriptor of its own. */
void vb_async_own(struct vb_context *ctx);
/* taken counts the fetched events of the object: the application must acknowledge each of them. */
void vb_async_raise(struct ibv_context *ibv, enum ibv_event_type type, void *object,
		    _Atomic uint32_t *taken);
/* Takes the oldest event. Blocks, or -EAGAIN if the descriptor is nonblocking. */
int vb_async_take(struct ibv_context *ibv, struct ibv_async_event *event);
/* Removes the events of an object that ends. Fetched events must still be acknowledged. */
void vb_async_purge(struct ibv_context *ibv, const void *object);

#endif
