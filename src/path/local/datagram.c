/* SPDX-License-Identifier: BSD-2-Clause */
/* SEND on a UD QP: each work request has a target of its own. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "exec/copy.h"
#include "exec/recv.h"
#include "net/gid.h"
#include "path/local/step.h"
#include "wire/grh.h"

enum {
	UDP_BTH_DETH_ICRC = 8 + 12 + 8 + 4,
	IMMEDIATE = 4,
};

void vb_datagram_grh(const struct vb_av *av, uint32_t length, bool imm, uint8_t *out)
{
	uint32_t padded = (length + 3) & ~3u;
	struct vb_grh grh = {
		.sgid = av->sgid,
		.dgid = av->dgid,
		.flow_label = av->flow_label,
		.traffic_class = av->traffic_class,
		.hop_limit = av->hop_limit,
		.payload_length = (uint16_t)(padded + UDP_BTH_DETH_ICRC + (imm ? IMMEDIATE : 0)),
		.infiniband = av->dlid,
	};

	if (av->grh)
		vb_grh_emit(&grh, out);
	else
		memset(out, 0, VB_GRH_SIZE);
}

static void grh_of(const struct vb_step_context *step, uint8_t out[VB_GRH_SIZE])
{
	vb_datagram_grh(&step->wqe->ah->av, step->wqe->length, vb_wr_has_imm(step->wqe->opcode),
			out);
}

static uint8_t sl_of(const struct vb_av *av)
{
	if (av->dlid) /* InfiniBand */
		return av->sl;
	return vb_gid_is_ipv4(&av->dgid) ? VB_GRH_SL_IPV4 : VB_GRH_SL_IPV6;
}

void vb_datagram_address(const struct vb_av *av, struct vb_message *message)
{
	message->wc_flags |= av->grh ? IBV_WC_GRH : 0;
	message->sl = sl_of(av);
	message->slid = av->slid;
}

static void message_of(const struct vb_step_context *step, struct vb_message *message)
{
	const struct vb_wqe *wqe = step->wqe;
	bool imm = vb_wr_has_imm(wqe->opcode);

	*message = (struct vb_message){
		.length = wqe->length + VB_GRH_SIZE,
		.imm = imm ? wqe->imm : 0,
		.src_qpn = step->qp->ibv.qp_num,
		.wc_opcode = IBV_WC_RECV & 0xff,
		.wc_flags = imm ? IBV_WC_WITH_IMM : 0,
		.solicited = wqe->solicited,
		.event_later = true,
	};
	vb_datagram_address(&wqe->ah->av, message);
}

static bool ride_along(const struct vb_step_context *step, uint8_t *out)
{
	grh_of(step, out);
	return vb_step_gather(step, out + VB_GRH_SIZE);
}

static enum vb_reason place(struct vb_step_context *step, const struct vb_claim *claim)
{
	struct vb_thread *thread = step->run->thread;
	struct vb_iov local = { thread->local, 0, VB_IOV_MAX, 0 };
	struct vb_iov remote = { thread->remote, 0, VB_IOV_MAX, 0 };
	const struct vb_recv_sges *list = vb_recv_sges(&step->qp->remote, claim);
	uint8_t grh[VB_GRH_SIZE];
	ssize_t copied;

	grh_of(step, grh);
	vb_iov_add(&local, grh, sizeof(grh));
	vb_iov_slice(&local, step->sge, step->sge_count, 0, step->wqe->length);
	vb_iov_slice(&remote, list->sge, vb_recv_sge_count(&step->qp->remote, list), 0,
		     local.bytes);
	copied = vb_step_copy(step, VB_TO_TARGET, &local, &remote);
	if (vb_step_copy_refused(copied))
		return vb_step_copy_refused(copied);
	return copied == (ssize_t)local.bytes ? VB_OK : VB_WHY_RECV_MEMORY;
}

/* Repeats the copy if the peer takes other things away. VB_WHY_PEER_NOT_READY: the QP has
 * changed. */
static enum vb_reason place_surely(struct vb_step_context *step, struct vb_claim *claim)
{
	struct vb_remote *remote = &step->qp->remote;
	enum vb_reason reason;

	while ((reason = place(step, claim)) == VB_WHY_PEER_NOT_READY) {
		do /* the peer moves its memory, for a moment */
			vb_hazard_watch(step->run->thread, remote->peer);
		while (vb_hazard_is_frozen(step->run->thread) && vb_peer_alive(remote->peer) &&
		       !sched_yield());
		if (atomic_load(&remote->entry->gate) != remote->gate)
			return VB_WHY_PEER_NOT_READY;
		claim->word = atomic_load(&claim->cell->word);
		reason = vb_recv_check(remote, claim, step->wqe->length + VB_GRH_SIZE, false);
		if (reason)
			return reason;
	}
	return reason;
}

/* The WQE of a datagram that was put aside is complete already. */
static enum vb_step finish(struct vb_step_context *step, enum vb_reason reason)
{
	if (step->aside && vb_captured())
		vb_step_capture(step, reason);
	return step->aside ? VB_STEP_NEXT : vb_step_complete(step, reason);
}

/* Nothing of the datagram arrived: it is tried again, goes by packets, or is lost. */
static enum vb_step not_placed(struct vb_step_context *step, enum vb_reason reason)
{
	if (reason == VB_WHY_PEER_NOT_READY)
		return step->aside ? VB_STEP_PEND : VB_STEP_AGAIN;
	if (reason == VB_WHY_PEER_UNTOUCHABLE && step->aside) {
		atomic_store(&step->qp->remote.peer->denied, true); /* the next try finds it */
		return VB_STEP_PEND;
	}
	if (step->aside)
		return VB_STEP_NEXT;
	return reason == VB_WHY_PEER_ENDED ? vb_step_unanswered(step, reason)
					   : vb_step_denied(step);
}

static enum vb_step deliver(struct vb_step_context *step, struct vb_claim *claim, uint8_t *ride)
{
	struct vb_remote *remote = &step->qp->remote;
	struct vb_message message;
	enum vb_reason reason = VB_OK, done;
	bool lost;

	message_of(step, &message);
	if (!(ride ? ride_along(step, ride) : vb_path_present(step->sge, step->sge_count, false))) {
		vb_recv_unclaim(remote, claim);
		return finish(step, VB_WHY_LOCAL_MEMORY);
	}
	if (!ride)
		reason = place_surely(step, claim);
	if (reason == VB_WHY_PEER_NOT_READY || reason == VB_WHY_PEER_ENDED ||
	    reason == VB_WHY_PEER_UNTOUCHABLE) {
		vb_recv_unclaim(remote, claim);
		return not_placed(step, reason);
	}
	claim->cell->where = !ride                          ? VB_PAYLOAD_PLACED
			     : ride == claim->cell->payload ? VB_PAYLOAD_INLINE
							    : VB_PAYLOAD_SPILL;
	step->receive = claim->index;
	done = vb_recv_complete(remote, claim, &message, reason, &lost);
	if (done || reason)
		return vb_step_refuse(step, done ? done : reason, done != VB_WHY_TARGET_CQ_OVERRUN);
	finish(step, VB_OK);
	if (!lost)
		vb_local_wake_target(step->qp, message.solicited);
	return VB_STEP_NEXT;
}

static enum vb_step drop(struct vb_step_context *step, enum vb_reason reason)
{
	return vb_step_refuse(step, reason, true);
}

enum vb_step vb_step_to_target(struct vb_step_context *step)
{
	struct vb_remote *remote = &step->qp->remote;
	uint32_t qkey = vb_qp_datagram_qkey(step->qp, step->wqe->remote_qkey);
	uint32_t length = step->wqe->length + VB_GRH_SIZE;
	struct vb_claim claim = { .fit = length };
	enum vb_reason reason;
	uint8_t *ride;

	step->report.want = qkey;
	if (atomic_load_explicit(&remote->entry->qkey, memory_order_relaxed) != qkey) {
		step->report.have = atomic_load(&remote->entry->qkey);
		atomic_fetch_add(&remote->lent->bad_qkey, 1);
		return drop(step, VB_WHY_DROP_QKEY);
	}
	if (!vb_recv_claim(remote, &claim))
		return vb_step_no_receive(step);
	if (claim.too_short) {
		step->report.have = claim.cell->posted_length;
		return drop(step, VB_WHY_DROP_SHORT);
	}
	ride = remote->peer->self ? NULL : vb_recv_ride(remote, &claim, length);
	reason = vb_recv_check(remote, &claim, length, ride);
	if (reason) {
		struct vb_message message;
		bool lost;

		message_of(step, &message);
		vb_recv_complete(remote, &claim, &message, reason, &lost);
		return drop(step, reason);
	}
	return deliver(step, &claim, ride);
}

enum vb_step vb_step_datagram(struct vb_step_context *step)
{
	struct vb_wqe *wqe = step->wqe;
	enum vb_verdict verdict;
	enum vb_reason reason;

	if (wqe->foreign_ah)
		return vb_step_complete(step, VB_WHY_UD_ADDRESS);
	step->report.want = step->qp->datagram_max;
	if (wqe->length > step->qp->datagram_max)
		return vb_step_complete(step, VB_WHY_UD_LENGTH);
	reason = vb_step_local(step, wqe, 0);
	if (reason)
		return vb_step_complete(step, reason);
	verdict = vb_step_bind_datagram(step, wqe->remote_qpn);
	/* The target has answered: datagrams that were put aside go first, which is soon. */
	if (vb_sq_has_aside(&step->qp->sq) && !vb_step_is_attaching(step, verdict) &&
	    vb_step_is_behind(step))
		return vb_step_busy(step);
	if (verdict)
		return vb_step_not_here(step, verdict);
	return vb_step_to_target(step);
}
