/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder of XRC: each request names an SRQ, and is for the receives and the PD of that SRQ.
 * The SRQ may be in another process of this host that shares the domain. Then this process acts as
 * a sender of this host would, if the kernel lets it.
 */
#include "exec/xrc.h"

#include "exec/copy.h"
#include "exec/recv.h"
#include "path/roce/roce.h"

bool vb_responder_bind_xrc(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;
	struct vb_peer *self = wired->roce->nic->self;

	if (resp->bound)
		return true;
	resp->own.peer = resp->answers.peer = self;
	vb_peer_get(self);
	vb_peer_get(self);
	resp->own.entry = resp->answers.entry = wired->qp->entry;
	resp->own.lent = resp->answers.lent = wired->qp->lent;
	resp->bound = true;
	return true;
}

enum vb_reason vb_responder_aim(struct vb_wired *wired, struct vb_remote *remote, uint32_t srqn)
{
	struct vb_roce *roce = wired->roce;
	uint32_t slot;
	enum vb_reason reason = vb_xrc_aim(remote, roce->thread, srqn, &slot);

	if (!slot || !roce->sink.attach)
		return reason;
	return roce->sink.attach(roce->sink.arg, slot) ? reason : VB_WHY_SRQ_UNKNOWN;
}

bool vb_responder_aim_again(struct vb_wired *wired)
{
	struct vb_remote *own = &wired->resp.own;
	bool held = own->holds_taken;
	uint64_t gate = own->srq_gate;

	/* A receive that was taken is gone with its SRQ. */
	return own->srq && !vb_responder_aim(wired, own, own->srqn) && own->srq_gate == gate &&
	       own->holds_taken == held;
}

/* --- memory of the process that has the SRQ, if that is another one --- */

bool vb_home_scatter(struct vb_wired *wired, const struct vb_recv_sges *list, uint32_t offset,
		     const struct vb_packet *packet)
{
	struct vb_thread *thread = wired->roce->thread;
	struct vb_iov local = { thread->local, 0, VB_IOV_MAX, 0 };
	struct vb_iov remote = { thread->remote, 0, VB_IOV_MAX, 0 };

	if (!packet->payload_length)
		return true;
	vb_iov_add(&local, (void *)(uintptr_t)packet->payload, packet->payload_length);
	vb_iov_slice(&remote, list->sge, vb_recv_sge_count(&wired->resp.own, list), offset,
		     packet->payload_length);
	return vb_copy(wired->resp.own.home, VB_TO_TARGET, &local, &remote) ==
	       (ssize_t)packet->payload_length;
}

bool vb_home_write(struct vb_wired *wired, uint64_t address, const struct vb_packet *packet)
{
	struct vb_thread *thread = wired->roce->thread;
	struct vb_iov local = { thread->local, 0, VB_IOV_MAX, 0 };
	struct vb_iov remote = { thread->remote, 0, VB_IOV_MAX, 0 };
	const struct ibv_sge from = { .addr = (uintptr_t)packet->payload,
				      .length = packet->payload_length };

	if (!packet->payload_length)
		return true;
	vb_iov_slice_ordered(&local, &from, 1, 0, packet->payload_length, address);
	vb_iov_add_remote(&remote, address, packet->payload_length);
	return vb_copy(wired->resp.own.home, VB_TO_TARGET_IN_ORDER, &local, &remote) ==
	       (ssize_t)packet->payload_length;
}

bool vb_home_read(struct vb_wired *wired, uint64_t address, uint32_t length, uint8_t *out)
{
	struct vb_thread *thread = wired->roce->thread;
	struct vb_iov local = { thread->local, 0, VB_IOV_MAX, 0 };
	struct vb_iov remote = { thread->remote, 0, VB_IOV_MAX, 0 };

	vb_iov_add(&local, out, length);
	vb_iov_add_remote(&remote, address, length);
	return vb_copy(wired->resp.answers.home, VB_FROM_TARGET, &local, &remote) ==
	       (ssize_t)length;
}
