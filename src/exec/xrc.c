/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/xrc.h"

#include "exec/recv.h"

void vb_xrc_unaim(struct vb_remote *remote)
{
	if (remote->home != remote->peer)
		vb_peer_put(remote->home);
	remote->home = NULL;
	remote->srq = NULL;
	remote->srq_gate = 0;
	remote->holds_taken = false;
	remote->key_cache = (struct vb_key_cache){ 0 };
}

/* Finds the process that has the SRQ, with a reference unless it is the process of the QP. */
static enum vb_reason home_find(struct vb_remote *remote, struct vb_nic *nic, uint32_t srqn,
				uint32_t *slot, struct vb_peer **home)
{
	uint32_t wanted = srqn >> VB_QP_INDEX_BITS;

	*home = remote->peer;
	if (remote->peer->head_slot == wanted)
		return VB_OK;
	*home = vb_nic_peer(nic, wanted);
	if (*home == remote->peer) /* another slot of that process: SRQs have the first one */
		vb_peer_put(*home);
	if (*home)
		return VB_OK;
	if (wanted < VB_SLOT_MIN || wanted > VB_SLOT_MAX)
		return VB_WHY_SRQ_UNKNOWN;
	*slot = wanted;
	return VB_WHY_PEER_ATTACHING;
}

static enum vb_reason home_state(const struct vb_peer *home)
{
	switch ((enum vb_peer_state)atomic_load_explicit(&home->state, memory_order_acquire)) {
	case VB_PEER_READY:
		return VB_OK;
	case VB_PEER_CONNECTING:
		return VB_WHY_PEER_ATTACHING;
	case VB_PEER_NO_PATH:
		return VB_WHY_SRQ_UNTOUCHABLE;
	case VB_PEER_GONE:
		break;
	}
	return VB_WHY_SRQ_UNKNOWN;
}

/* On VB_OK the thread is inside both processes. */
static enum vb_reason home_enter(const struct vb_remote *remote, struct vb_thread *thread)
{
	if (remote->home == remote->peer)
		return VB_OK;
	if (!vb_hazard_enter_second(thread, remote->home->head_slot))
		return VB_WHY_PEER_NOT_READY;
	return vb_peer_alive(remote->home) ? VB_OK : VB_WHY_SRQ_UNKNOWN;
}

static enum vb_reason srq_resolve(struct vb_remote *remote, uint32_t srqn)
{
	struct vb_srq_entry *srq = vb_peer_srq(remote->home, srqn);
	uint64_t gate = srq ? atomic_load(&srq->gate) : 0;

	if (!gate)
		return VB_WHY_SRQ_UNKNOWN;
	if (!vb_xrcd_same(&srq->xrcd, &remote->entry->xrcd))
		return VB_WHY_SRQ_DOMAIN;
	remote->srq = srq;
	if (!vb_recv_resolve(remote))
		return VB_WHY_SRQ_UNKNOWN;
	/* The values belong to this gate only if it is still the same. Pairs with the fence in
	 * vb_grace_begin, which lies between a gate that closes and new values. */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load(&srq->gate) != gate)
		return VB_WHY_SRQ_UNKNOWN;
	remote->srqn = srqn;
	remote->srq_gate = gate;
	return VB_OK;
}

static enum vb_reason aim_anew(struct vb_remote *remote, struct vb_thread *thread, uint32_t srqn,
			       uint32_t *slot)
{
	enum vb_reason reason;
	struct vb_peer *home;

	vb_xrc_unaim(remote);
	reason = home_find(remote, thread->nic, srqn, slot, &home);
	if (reason)
		return reason;
	remote->home = home;
	reason = home_state(home);
	if (!reason)
		reason = home_enter(remote, thread);
	if (!reason)
		reason = srq_resolve(remote, srqn);
	if (reason)
		vb_xrc_unaim(remote);
	return reason;
}

enum vb_reason vb_xrc_aim(struct vb_remote *remote, struct vb_thread *thread, uint32_t srqn,
			  uint32_t *slot)
{
	enum vb_reason reason = VB_WHY_SRQ_UNKNOWN;

	*slot = 0;
	if (remote->srq && remote->srqn == srqn)
		reason = home_enter(remote, thread);
	/* The gate is read inside the hazards: while the gate is the same, the SRQ exists. */
	if (reason || atomic_load(&remote->srq->gate) != remote->srq_gate)
		reason = aim_anew(remote, thread, srqn, slot);
	if (reason)
		return reason;
	return vb_recv_follow(remote) ? VB_OK : VB_WHY_PEER_NOT_READY;
}
