/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A message that is copied in several pieces holds a receive of a shared queue until its end. If
 * the message will not be finished, the receive goes back to the queue, for other senders.
 */
#include "exec/recv.h"
#include "exec/xrc.h"
#include "path/local/local.h"

/* XRC: the gate of the SRQ tells. Else the SRQ exists as long as the peer's QP, which uses it. */
static bool queue_is_there(struct vb_qp *qp, struct vb_thread *thread)
{
	struct vb_remote *remote = &qp->remote;
	uint64_t gate = remote->srq_gate;
	uint32_t slot;

	if (vb_qp_is_xrc(qp))
		return remote->srq && !vb_xrc_aim(remote, thread, remote->srqn, &slot) &&
		       remote->srq_gate == gate && remote->holds_taken;
	return remote->gate && vb_recv_follow(remote) &&
	       vb_gate_epoch(atomic_load(&remote->entry->gate)) == vb_gate_epoch(remote->gate);
}

void vb_local_give_back(struct vb_qp *qp)
{
	struct vb_remote *remote = &qp->remote;
	struct vb_thread *thread = remote->holds_taken ? vb_thread_get() : NULL;
	struct vb_claim claim = { 0 };

	if (!thread)
		return;
	vb_hazard_enter(thread, vb_hazard_name(remote->peer->head_slot, remote->entry->qpn));
	if (queue_is_there(qp, thread) && vb_recv_claim(remote, &claim))
		vb_recv_unclaim(remote, &claim);
	remote->holds_taken = false;
	vb_hazard_leave(thread);
}
