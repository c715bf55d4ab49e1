/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shelf of a target's receive queue. Its owner makes one for a sender whose messages would
 * often ride there; then the short way (fast_send.c) puts them there.
 */
#include "path/local/step.h"

enum { WISHES = 16 }; /* messages after which a shelf pays */

static bool would_ride(const struct vb_step_context *step)
{
	const struct vb_remote *remote = &step->qp->remote;

	return step->wqe->length > VB_SPILL && step->wqe->length <= VB_SHELF_PLACE &&
	       step->qp->type == IBV_QPT_RC && !remote->many &&
	       atomic_load_explicit(&remote->direct, memory_order_relaxed);
}

/* Another thread may close the short way at this moment, until the QP is bound anew. */
static void shelf_use(struct vb_remote *remote)
{
	uint64_t direct = atomic_load(&remote->direct);

	if (direct)
		atomic_compare_exchange_strong(&remote->direct, &direct, direct | VB_DIRECT_SHELF);
}

static void shelf_find(struct vb_remote *remote)
{
	uint64_t offset = atomic_load_explicit(&remote->rq->shelf, memory_order_acquire);

	if (!offset)
		return;
	remote->shelf = vb_peer_lent_at(remote->home, offset, VB_SHELF_PLACES * VB_SHELF_PLACE);
	remote->shelf_next = remote->shelf_left =
		atomic_load_explicit(&remote->rq->shelf_left, memory_order_acquire);
	if (remote->shelf)
		shelf_use(remote);
}

void vb_step_shelf_wish(struct vb_step_context *step)
{
	struct vb_remote *remote = &step->qp->remote;

	if (!would_ride(step) || remote->shelf)
		return;
	if (remote->shelf_wishes++ > WISHES)
		shelf_find(remote);
	else if (remote->shelf_wishes == WISHES)
		vb_peer_attend_qp(remote->peer, remote->entry, VB_QP_ATTN_SHELF);
}
