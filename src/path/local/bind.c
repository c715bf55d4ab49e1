/* SPDX-License-Identifier: BSD-2-Clause */
/* The other end of an operation: all checks that the wire would make before it takes a packet. */
#include <string.h>

#include "exec/recv.h"
#include "exec/xrc.h"
#include "nic/choice.h"
#include "nic/migrate.h"
#include "nic/profile.h"
#include "path/fault/fault.h"
#include "path/local/step.h"

enum { HAZARD_OPERATIONS = 64 };

/* Names the peer and its QP in the hazard; the thread reads nothing of them before. */
static inline void enter(struct vb_step_context *step, struct vb_peer *peer, uint32_t qpn)
{
	struct vb_thread *thread = step->run->thread;

	if (step->inside != peer || step->inside_qpn != qpn ||
	    ++step->since_hazard >= HAZARD_OPERATIONS) {
		vb_hazard_enter(thread, vb_hazard_name(peer->head_slot, qpn));
		step->inside = peer;
		step->inside_qpn = qpn;
		step->since_hazard = 0;
	}
	vb_hazard_watch(thread, peer);
}

void vb_step_leave(struct vb_step_context *step)
{
	if (step->inside)
		vb_hazard_leave(step->run->thread);
	step->inside = NULL;
}

/* A loopback address stands for every address of this host. */
static bool gid_means(const union ibv_gid *dgid, const union ibv_gid *sgid)
{
	static const uint8_t ipv6_loopback[16] = { [15] = 1 };
	static const uint8_t ipv4_loopback[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };

	return !memcmp(dgid, sgid, sizeof(*dgid)) ||
	       !memcmp(dgid, ipv6_loopback, sizeof(ipv6_loopback)) ||
	       !memcmp(dgid, ipv4_loopback, sizeof(ipv4_loopback));
}

enum vb_verdict vb_step_by_packets(struct vb_step_context *step, struct vb_peer *peer,
				   enum vb_reason why)
{
	step->run->wire_peer = peer;
	step->why = why;
	return VB_VERDICT_PACKETS;
}

static enum vb_verdict silent(struct vb_step_context *step, enum vb_reason why)
{
	step->why = why;
	return VB_VERDICT_SILENT;
}

/* The process that has a slot; an attach begins if it is not known. */
static enum vb_reason slot_peer(struct vb_step_context *step, uint32_t slot, struct vb_peer **found)
{
	struct vb_remote *remote = &step->qp->remote;
	struct vb_peer *peer = vb_nic_peer(step->qp->nic, slot);

	if (!peer) {
		if (slot < VB_SLOT_MIN || slot > VB_SLOT_MAX)
			return VB_WHY_PEER_NO_QP;
		if (vb_nic_slot_refused(step->qp->nic, slot))
			return vb_nic_slot_was_seen(step->qp->nic, slot) ? VB_WHY_PEER_ENDED
									 : VB_WHY_PEER_NO_QP;
		if (!vb_nic_slot_is_busy(step->qp->nic, slot) && step->run->asked_slot != slot)
			step->run->attach_slot = slot;
		return VB_WHY_PEER_ATTACHING;
	}
	if (remote->peer != peer) {
		vb_remote_unbind(remote);
		remote->peer = peer;
	} else {
		vb_peer_put(peer);
	}
	remote->slot = slot;
	*found = peer;
	return VB_OK;
}

static enum vb_reason peer_state(const struct vb_peer *peer)
{
	switch ((enum vb_peer_state)atomic_load_explicit(&peer->state, memory_order_acquire)) {
	case VB_PEER_READY:
	case VB_PEER_NO_PATH:
		return VB_OK;
	case VB_PEER_CONNECTING:
		return VB_WHY_PEER_ATTACHING;
	case VB_PEER_GONE:
		break;
	}
	return VB_WHY_PEER_ENDED;
}

/* The choice was made with the first message, and holds while the peer's memory can be touched. */
static inline bool is_bound(const struct vb_remote *remote)
{
	const struct vb_peer *peer = remote->peer;

	return __builtin_expect(peer && remote->gate &&
					atomic_load_explicit(&peer->state, memory_order_acquire) ==
						VB_PEER_READY &&
					!atomic_load_explicit(&peer->denied, memory_order_relaxed),
				1);
}

/* Makes the choice for an address. HERE: *peer is attached, and can be touched. */
static enum vb_verdict approach(struct vb_step_context *step, const struct vb_av *av, uint32_t qpn,
				struct vb_peer **peer)
{
	struct vb_choice_facts facts = vb_choice_facts(av, NULL);
	enum vb_reason reason = VB_OK;
	enum vb_choice choice;

	if (vb_choice_is_packets(vb_choose(&facts)))
		return vb_step_by_packets(
			step, NULL, av->local ? VB_WHY_PEER_BY_PACKETS : VB_WHY_NOT_THIS_HOST);
	if (!*peer)
		reason = slot_peer(step, qpn >> VB_QP_INDEX_BITS, peer);
	if (!reason)
		reason = peer_state(*peer);
	if (reason)
		return silent(step, reason);
	facts = vb_choice_facts(av, *peer);
	choice = vb_choose(&facts);
	if (choice == VB_CHOICE_LOCAL)
		return VB_VERDICT_HERE;
	if (!vb_choice_is_packets(choice)) /* it has ended at this moment: the next look tells */
		return silent(step, VB_WHY_PEER_ATTACHING);
	return vb_step_by_packets(
		step, *peer, facts.touchable ? VB_WHY_PEER_BY_PACKETS : VB_WHY_PEER_UNTOUCHABLE);
}

/* The same again, now that the entries of both QPs are known. */
static bool entries_want_packets(struct vb_qp *qp, const struct vb_qp_entry *entry)
{
	const struct vb_av av = vb_qp_av(qp);
	struct vb_choice_facts facts = vb_choice_facts(&av, qp->remote.peer);

	facts.by_packets = entry->by_packets || qp->entry->by_packets;
	return vb_choice_is_packets(vb_choose(&facts));
}

static enum vb_reason gate_reason(const struct vb_qp_lent *lent, uint64_t gate)
{
	if (!gate)
		return VB_WHY_PEER_NO_QP;
	if (vb_gate_is_closed(lent, gate))
		return VB_WHY_PEER_IN_ERROR;
	if (vb_gate_open(gate))
		return VB_OK;
	return vb_gate_state(gate) == IBV_QPS_ERR ? VB_WHY_PEER_IN_ERROR : VB_WHY_PEER_NOT_READY;
}

/* Checks that the two ends agree on type, QPNs, GIDs and PSN. */
static enum vb_reason match(struct vb_step_context *step, const struct vb_qp_entry *entry)
{
	struct vb_qp *qp = step->qp;
	const struct vb_av av = vb_qp_av(qp);
	const union ibv_gid sgid = vb_shown_gid(&entry->sgid), dgid = vb_shown_gid(&entry->dgid);

	if (entry->type != (qp->type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : qp->type))
		return VB_WHY_PEER_OTHER_TYPE;
	if (entry->dest_qpn != qp->ibv.qp_num) {
		step->report.have = entry->dest_qpn;
		return VB_WHY_PEER_OTHER_DEST;
	}
	if (!gid_means(&dgid, &av.sgid) || !gid_means(&av.dgid, &sgid))
		return VB_WHY_PEER_OTHER_GID;
	step->report.have = entry->rq_psn;
	step->report.want = qp->attr.sq_psn;
	/* UC takes the PSN of the first packet that comes (IBA 9.8.2.2). */
	if (vb_qp_reliable(qp) && entry->rq_psn != qp->attr.sq_psn)
		return VB_WHY_PEER_OTHER_PSN;
	return VB_OK;
}

/*
 * On a wire neither end knows the other's path MTU. A responder takes a packet that is not the last
 * of its message only if it has the responder's MTU (IBA 9.7.4.1.6). So with different MTUs a
 * message passes only if it is one packet to both.
 */
static uint32_t message_max(const struct vb_qp *qp, const struct vb_qp_entry *entry)
{
	uint8_t here = (uint8_t)qp->attr.path_mtu, there = VB_READ_ONCE(entry->path_mtu);

	return here == there ? UINT32_MAX : 128u << (here < there ? here : there);
}

void vb_step_report_mtu(struct vb_step_context *step)
{
	step->report.have = 128u << (VB_READ_ONCE(step->qp->remote.entry->path_mtu) & 7);
	step->report.want = 128u << step->qp->attr.path_mtu;
	step->report.length = step->wqe->length;
}

static enum vb_reason mtu_differs(struct vb_step_context *step)
{
	if (vb_wr_returns(step->wqe->opcode)) /* a READ fails by its answer */
		return VB_OK;
	vb_step_report_mtu(step);
	return VB_WHY_MTU_DIFFERS;
}

/* Claims the connection for this sender: a second sender would be out of sequence. */
static enum vb_reason claim_connection(struct vb_qp *qp, struct vb_qp_entry *entry, uint64_t gate)
{
	struct vb_qp_lent *lent = qp->remote.lent;
	uint64_t binder = 0;

	if (qp->type == IBV_QPT_UC)
		atomic_store(&lent->binder, qp->epoch);
	else if (!atomic_compare_exchange_strong(&lent->binder, &binder, qp->epoch) &&
		 binder != qp->epoch)
		return VB_WHY_PEER_TAKEN;
	if (vb_gate_state(gate) == IBV_QPS_RTR)
		vb_peer_attend_qp(qp->remote.peer, entry, VB_QP_ATTN_COMM_EST);
	if (vb_mig_state(qp) != IBV_MIG_MIGRATED) /* the peer may not have been attached before */
		vb_peer_attend_qp(qp->remote.peer, entry, VB_QP_ATTN_MIGRATE);
	return VB_OK;
}

/* The value of direct for small SENDs to a QP of the peer. */
static uint64_t direct_name(const struct vb_qp *qp, uint32_t qpn)
{
	const struct vb_remote *remote = &qp->remote;

	if (vb_qp_is_xrc(qp) || remote->peer->self || vb_fault_any() || !vb_profile_sends_plainly())
		return 0;
	return vb_hazard_name(remote->peer->head_slot, qpn) | (remote->many ? VB_DIRECT_MANY : 0) |
	       (remote->shelf ? VB_DIRECT_SHELF : 0);
}

/* Sets the gate that the QP is bound to, and whether a small SEND may take the short way. */
static void set_gate(struct vb_qp *qp, uint64_t gate)
{
	struct vb_remote *remote = &qp->remote;

	remote->gate = gate;
	atomic_store(&remote->direct, gate ? direct_name(qp, qp->attr.dest_qp_num) : 0);
	if (atomic_load(&remote->look_again)) /* pairs with vb_qp_follow_pkey */
		atomic_store(&remote->direct, 0);
}

/*
 * On a wire a message with a wrong P_Key would arrive and be dropped, at each try; a WQE that waits
 * is counted once. The gate that the QP is bound to stays: without it the QP would lose its place
 * in the receive queue.
 */
static enum vb_reason check_pkey(struct vb_step_context *step, uint64_t gate)
{
	struct vb_qp *qp = step->qp;
	struct vb_remote *remote = &qp->remote;

	atomic_store(&remote->look_again, false); /* before the key is read */
	step->report.have = vb_gate_pkey(gate);
	step->report.want = vb_qp_pkey(qp);
	if (vb_pkey_fits(vb_gate_pkey(gate), vb_qp_pkey(qp)))
		return VB_OK;
	if (qp->pend.why != VB_PEND_UNREADY)
		atomic_fetch_add(&remote->lent->bad_pkey, 1);
	atomic_store(&remote->look_again, true);
	atomic_store(&remote->direct, 0);
	return VB_WHY_PEER_OTHER_PKEY;
}

/* Finds the entry of a QP, and the part of it that senders write; NULL: no such QP. */
static struct vb_qp_entry *find_entry(struct vb_remote *remote, uint32_t qpn)
{
	struct vb_qp_entry *entry = vb_peer_qp(remote->peer, qpn);

	remote->lent = entry ? vb_peer_qp_lent(remote->peer, entry) : NULL;
	return remote->lent ? entry : NULL;
}

/* For the first operation to this connection of the peer, or after a change of its state. */
static enum vb_verdict bind_slowly(struct vb_step_context *step)
{
	struct vb_remote *remote = &step->qp->remote;
	struct vb_qp_entry *entry = remote->entry;
	bool known = remote->gate;
	enum vb_reason reason;
	uint64_t gate;

	if (!entry)
		entry = remote->entry = find_entry(remote, step->qp->attr.dest_qp_num);
	if (!entry)
		return silent(step, VB_WHY_PEER_NO_QP);
	gate = atomic_load(&entry->gate);
	reason = gate_reason(remote->lent, gate);
	if (reason == VB_WHY_PEER_NOT_READY || reason == VB_WHY_PEER_NO_QP) {
		atomic_store(&remote->lent->waiting, 1);
		gate = atomic_load(&entry->gate);
		reason = gate_reason(remote->lent, gate);
	}
	if (!reason)
		reason = check_pkey(step, gate);
	if (reason)
		return silent(step, reason);
	if (known && vb_gate_epoch(remote->gate) == vb_gate_epoch(gate)) {
		set_gate(step->qp, gate); /* RTR to RTS and the like */
		return VB_VERDICT_HERE;
	}
	set_gate(step->qp, 0);
	/* Another connection: a message begins anew, and the owner has taken back its receive. */
	if (!vb_qp_is_xrc(step->qp)) {
		remote->holds_taken = false;
		atomic_store_explicit(&step->qp->sq.offset, 0, memory_order_relaxed);
	}
	reason = match(step, entry);
	if (!reason && entries_want_packets(step->qp, entry))
		return vb_step_by_packets(step, remote->peer, VB_WHY_PEER_BY_PACKETS);
	if (!reason)
		reason = claim_connection(step->qp, entry, gate);
	/* The receives of XRC are found for each message. */
	if (!reason && !vb_qp_is_xrc(step->qp) && !vb_recv_resolve(remote))
		reason = VB_WHY_PEER_NO_QP;
	if (reason)
		return silent(step, reason);
	remote->message_max = message_max(step->qp, entry);
	remote->keeps_head = step->qp->type == IBV_QPT_UC;
	if (!remote->many)
		remote->next_recv = remote->keeps_head ? atomic_load(&remote->rq_lent->head) : 0;
	vb_apart_begin(remote);
	remote->shelf = NULL;
	remote->shelf_wishes = 0;
	/* The values read above belong to this epoch only if the gate is still the same. The fence
	 * keeps these loads before that of the gate; pairs with the fence in vb_grace_begin, which
	 * lies between a gate that closes and new values. */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load(&entry->gate) != gate)
		return silent(step, VB_WHY_PEER_NOT_READY);
	set_gate(step->qp, gate);
	return VB_VERDICT_HERE;
}

static enum vb_reason follow_receives(struct vb_remote *remote)
{
	return vb_recv_follow(remote) ? VB_OK : VB_WHY_PEER_NOT_READY;
}

/* Finds the receives of a connection: those of its QP, or of the SRQ that the WQE names. */
static enum vb_reason receives(struct vb_step_context *step)
{
	uint32_t slot;
	enum vb_reason reason;

	if (__builtin_expect(step->qp->type != IBV_QPT_XRC_SEND, 1))
		return follow_receives(&step->qp->remote);
	reason = vb_xrc_aim(&step->qp->remote, step->run->thread, step->wqe->srqn, &slot);
	if (!slot)
		return reason;
	if (vb_nic_slot_refused(step->qp->nic, slot))
		return VB_WHY_SRQ_UNKNOWN;
	step->run->attach_slot = slot;
	return reason;
}

enum vb_verdict vb_step_bind(struct vb_step_context *step)
{
	struct vb_remote *remote = &step->qp->remote;
	struct vb_peer *peer = remote->peer;
	enum vb_verdict verdict = VB_VERDICT_HERE;
	enum vb_reason reason;

	if (__builtin_expect(
		    atomic_load_explicit(&step->qp->migration.astray, memory_order_relaxed), 0)) {
		step->report.want = vb_qp_patience_ns(step->qp) / 1000000;
		return silent(step, VB_WHY_PEER_SILENT);
	}
	if (!is_bound(remote)) {
		const struct vb_av av = vb_qp_av(step->qp);

		verdict = approach(step, &av, step->qp->attr.dest_qp_num, &peer);
		if (verdict)
			return verdict;
	}
	enter(step, peer, step->qp->attr.dest_qp_num);
	if (!vb_peer_alive(peer))
		return silent(step, VB_WHY_PEER_ENDED);
	if (__builtin_expect(vb_hazard_is_frozen(step->run->thread), 0))
		return VB_VERDICT_BUSY;
	/* The gate holds state and epoch: an equal gate means that neither has changed. */
	if (__builtin_expect(
		    !remote->gate ||
			    atomic_load_explicit(&remote->look_again, memory_order_relaxed) ||
			    atomic_load_explicit(&remote->entry->gate, memory_order_acquire) !=
				    remote->gate,
		    0))
		verdict = bind_slowly(step);
	if (__builtin_expect(verdict, 0))
		return verdict;
	reason = step->wqe->length > remote->message_max ? mtu_differs(step) : VB_OK;
	if (!reason)
		reason = receives(step);
	return __builtin_expect(reason, 0) ? silent(step, reason) : VB_VERDICT_HERE;
}

static enum vb_reason bind_datagram_slowly(struct vb_step_context *step, uint32_t qpn)
{
	struct vb_remote *remote = &step->qp->remote;
	enum vb_reason reason;
	uint64_t gate;

	vb_remote_forget_gate(remote);
	remote->entry = find_entry(remote, qpn);
	gate = remote->entry ? atomic_load(&remote->entry->gate) : 0;
	reason = gate_reason(remote->lent, gate);
	if (reason)
		return reason;
	if (remote->entry->type != IBV_QPT_UD)
		return VB_WHY_PEER_OTHER_TYPE;
	if (!vb_recv_resolve(remote))
		return VB_WHY_PEER_NO_QP;
	atomic_thread_fence(memory_order_acquire); /* as in bind_slowly */
	if (atomic_load(&remote->entry->gate) != gate)
		return VB_WHY_PEER_NO_QP;
	remote->gate = gate;
	/* Each datagram compares the P_Keys, so the short way need not be closed for them. */
	atomic_store(&remote->direct, direct_name(step->qp, qpn));
	return VB_OK;
}

/* Checked for each datagram: the QP's own P_Key may have changed since the last one. */
static enum vb_reason check_datagram_pkey(struct vb_step_context *step)
{
	struct vb_remote *remote = &step->qp->remote;
	const uint16_t theirs = vb_gate_pkey(remote->gate), own = vb_qp_pkey(step->qp);

	if (__builtin_expect(vb_pkey_fits(theirs, own), 1))
		return VB_OK;
	step->report.have = theirs;
	step->report.want = own;
	atomic_fetch_add(&remote->lent->bad_pkey, 1);
	return VB_WHY_PEER_OTHER_PKEY;
}

/* The peer that datagrams went to last, if this one is for the same process. */
static struct vb_peer *last_peer(const struct vb_remote *remote, uint32_t qpn)
{
	struct vb_peer *peer = remote->peer;

	if (!peer || remote->slot != qpn >> VB_QP_INDEX_BITS)
		return NULL;
	return atomic_load(&peer->state) != VB_PEER_GONE ? peer : NULL;
}

/* Asked for each datagram: a region that the sender cannot reach may be registered at any time. */
static bool target_wants_packets(const struct vb_av *av, const struct vb_remote *remote)
{
	struct vb_choice_facts facts;

	if (__builtin_expect(
		    !atomic_load_explicit(&remote->entry->by_packets, memory_order_relaxed), 1))
		return false;
	facts = vb_choice_facts(av, remote->peer);
	facts.by_packets = true;
	return vb_choice_is_packets(vb_choose(&facts));
}

enum vb_verdict vb_step_bind_datagram(struct vb_step_context *step, uint32_t qpn)
{
	struct vb_remote *remote = &step->qp->remote;
	const struct vb_av *av = &step->wqe->ah->av;
	struct vb_peer *peer = last_peer(remote, qpn);
	enum vb_reason reason = VB_OK;

	if (!peer || !av->local || !is_bound(remote)) {
		enum vb_verdict verdict = approach(step, av, qpn, &peer);

		if (verdict)
			return verdict;
	}
	enter(step, peer, qpn);
	if (!vb_peer_alive(peer))
		return silent(step, VB_WHY_PEER_ENDED);
	if (!remote->gate || remote->entry->qpn != qpn ||
	    atomic_load_explicit(&remote->entry->gate, memory_order_acquire) != remote->gate)
		reason = bind_datagram_slowly(step, qpn);
	if (!reason && target_wants_packets(av, remote))
		return vb_step_by_packets(step, peer, VB_WHY_PEER_BY_PACKETS);
	if (!reason)
		reason = check_datagram_pkey(step);
	if (!reason)
		reason = follow_receives(remote);
	return __builtin_expect(reason, 0) ? silent(step, reason) : VB_VERDICT_HERE;
}
