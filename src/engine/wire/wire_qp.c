/* SPDX-License-Identifier: BSD-2-Clause */
/* The choice of QPs that the wire carries, and their way to it and back. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/wire/listen.h"
#include "engine/wire/wire_impl.h"
#include "nic/choice.h"
#include "nic/lane.h"
#include "nic/lid.h"
#include "nic/migrate.h"
#include "path/fault/fault.h"
#include "path/local/local.h"

enum { ENTER_TRIES = 1000 };

/* The local path may have been in the midst of a message: the message begins anew. */
static void leave_local(struct vb_qp *qp)
{
	vb_local_give_back(qp);
	atomic_store_explicit(&qp->sq.offset, 0, memory_order_relaxed);
}

/* A WQE that waits for its late completion gets it: packets would execute it once more. */
static void end_late(struct vb_qp *qp)
{
	struct vb_notice notice = { 0 };

	if (qp->sq.hold == VB_SQ_LATE)
		qp->sq.hold = VB_SQ_FLOWS;
	if (!qp->pend.executed)
		return;
	vb_path_complete_late(qp, &notice);
	vb_path_tell(qp, &notice);
}

static int adopt_locked(struct vb_lane *lane, struct vb_qp *qp, struct vb_peer *peer)
{
	struct vb_way way = { 0 };
	struct vb_av av;
	int err;

	if (qp->type == IBV_QPT_UD) {
		/* An address that cannot be opened gets no packets: no reason to fail. */
		vb_listen_device(lane, vb_context(qp->ibv.context)->dev);
		return vb_roce_adopt(&lane->roce, qp, NULL);
	}
	end_late(qp);
	av = vb_qp_av(qp);
	err = vb_roce_way(&lane->roce, qp, &av, peer, &way);
	if (err)
		return err;
	err = vb_roce_adopt(&lane->roce, qp, &way);
	if (err)
		vb_way_release(&way);
	else
		leave_local(qp);
	return err;
}

/*
 * Packets for a further lane reach the first one until the kernel knows the lane's socket, and
 * wherever the lane has none. So the first lane listens first.
 */
static void first_listens(struct vb_qp *qp, struct vb_peer *peer)
{
	struct vb_lane *first = vb_lane_first(qp->nic);
	const struct vb_av av = vb_qp_av(qp);

	vb_wire_lock(first);
	if (qp->type == IBV_QPT_UD)
		vb_listen_device(first, vb_context(qp->ibv.context)->dev);
	else
		vb_port_listen_for(first->port, &av, peer);
	vb_wire_unlock(first);
}

int vb_wire_adopt(struct vb_qp *qp, struct vb_peer *peer)
{
	int err;
	struct vb_lane *lane = vb_wire_lane_of(qp, &err);

	if (!lane)
		return err;
	if (lane->number != VB_LANE_FIRST)
		first_listens(qp, peer);
	vb_wire_lock(lane);
	err = adopt_locked(lane, qp, peer);
	vb_wire_unlock(lane);
	if (err)
		vb_explain("QP 0x%06x has no way to its peer: %s", qp->ibv.qp_num, strerror(-err));
	return err;
}

/* The next connection of the QP may have the same PSNs as the one that ends here. */
static void take_back(struct vb_qp *qp, bool connects_again)
{
	struct vb_lane *lane = vb_qp_lane(qp);
	struct vb_wired *wired;

	if (!lane)
		return;
	vb_wire_lock(lane);
	vb_wire_drop_kick(lane, qp);
	if (connects_again && vb_wire_begin(lane))
		vb_wire_receive(lane);
	vb_wire_held_forget(lane, qp->ibv.qp_num);
	wired = atomic_load(&qp->wired);
	if (wired)
		vb_roce_drop(wired);
	vb_wire_unlock(lane);
}

/*
 * The last packets of a QP may lie at another lane of this process, for a QP that is reset as well:
 * its next connection must not take them for its own either.
 */
static void empty_other_lanes(struct vb_nic *nic, unsigned own)
{
	vb_lanes_for(lane, nic)
	{
		if (lane->number == own)
			continue;
		vb_wire_lock(lane);
		if (vb_wire_begin(lane))
			vb_wire_receive(lane);
		vb_wire_unlock(lane);
	}
}

void vb_wire_stop(struct vb_qp *qp, bool connects_again)
{
	for (;;) {
		/* A packet that comes in between may lead to another adoption. */
		take_back(qp, connects_again);
		if (vb_qp_token_try(qp))
			break;
		sched_yield();
	}
	if (connects_again)
		empty_other_lanes(qp->nic, atomic_load(&qp->lane));
}

/* True: one of the two ends wants packets, even if memory could be touched. */
static bool wants_by_packets(const struct vb_qp *qp, struct vb_peer *peer)
{
	const struct vb_qp_entry *entry = vb_peer_qp(peer, qp->attr.dest_qp_num);

	return qp->entry->by_packets || (entry && entry->by_packets);
}

/* The peer, as far as address and number tell. NULL: a process to be asked, or another host. */
static struct vb_peer *known_peer(const struct vb_qp *qp)
{
	const bool own =
		qp->av.local && vb_nic_own_slot(qp->nic, qp->attr.dest_qp_num >> VB_QP_INDEX_BITS);

	return own ? qp->nic->self : NULL;
}

/*
 * True: the QP goes by packets, by its address alone. A process of this host is first asked whether
 * it can be touched.
 */
static bool goes_by_wire(const struct vb_qp *qp)
{
	struct vb_peer *self = known_peer(qp);
	const struct vb_choice_facts facts = {
		.local = qp->av.local,
		.process = self ? VB_PROCESS_SELF : VB_PROCESS_UNASKED,
		.touchable = true,
		.by_packets = self && wants_by_packets(qp, self),
	};

	return vb_choice_is_packets(vb_choose(&facts));
}

void vb_wire_enter(struct vb_qp *qp)
{
	if (qp->type == IBV_QPT_UD) {
		if (!atomic_load(&qp->wired))
			vb_wire_adopt(qp, NULL);
		return;
	}
	if (!goes_by_wire(qp) || !vb_qp_token_try(qp))
		return;
	if (vb_wire_adopt(qp, known_peer(qp)))
		vb_qp_token_release(qp);
}

/* Is the QP connected to this process? Any process on this host can name the QP. */
static bool is_connected_to(const struct vb_qp *qp, const struct vb_peer *peer)
{
	const uint32_t slot = qp->attr.dest_qp_num >> VB_QP_INDEX_BITS;
	struct vb_peer *holder;
	bool same;

	if (peer->slot == slot || peer->head_slot == slot)
		return true;
	holder = vb_nic_peer(qp->nic, slot); /* a process may have several slots */
	same = vb_peer_same(holder, peer);
	vb_peer_put(holder);
	return same;
}

/* True: the QP is connected, on this host, and does not go through memory. */
static bool wants_packets(const struct vb_qp *qp, struct vb_peer *peer)
{
	struct vb_choice_facts facts;

	if (!qp || qp->type == IBV_QPT_UD || !qp->av.local || !is_connected_to(qp, peer))
		return false;
	facts = vb_choice_facts(&qp->av, peer);
	facts.by_packets = facts.touchable && wants_by_packets(qp, peer);
	return vb_choose(&facts) != VB_CHOICE_LOCAL && vb_gate_open(vb_qp_gate(qp));
}

/*
 * The caller has the token. A thread that posted meanwhile found the token taken and left, so its
 * work requests are begun here.
 */
static void adopt_late(struct vb_lane *lane, struct vb_qp *qp, struct vb_peer *peer)
{
	if (!adopt_locked(lane, qp, peer)) {
		vb_roce_post(atomic_load(&qp->wired));
		return;
	}
	vb_qp_token_release(qp);
	atomic_store(&qp->pend.wake_ns, lane->roce.now_ns);
	vb_engine_pend(lane->nic->engine, qp);
}

/* True: the QP reached RTR, and found no way at that moment. */
static bool waits_for_a_way(const struct vb_qp *qp)
{
	return qp->type != IBV_QPT_UD && qp->type != IBV_QPT_RAW_PACKET && qp->entry &&
	       !atomic_load(&qp->wired) && vb_gate_open(vb_qp_gate(qp)) && goes_by_wire(qp);
}

/* False: nic->lock is taken, and its holder may wait for this thread. */
static bool try_enter_again(struct vb_lane *lane)
{
	struct vb_nic *nic = lane->nic;

	if (pthread_mutex_trylock(&nic->lock))
		return false;
	vb_list_for(qp, &nic->qps, struct vb_qp, node) {
		if (atomic_load(&qp->lane) != lane->number || !waits_for_a_way(qp) ||
		    !vb_qp_token_try(qp))
			continue;
		if (!adopt_locked(lane, qp, known_peer(qp)))
			vb_roce_post(atomic_load(&qp->wired));
		else
			vb_qp_token_release(qp);
	}
	pthread_mutex_unlock(&nic->lock);
	return true;
}

static void enter_again(struct vb_lane *lane)
{
	bool done = false;

	for (unsigned i = 0; i < ENTER_TRIES && !done; i++) {
		if (i)
			sched_yield();
		vb_wire_lock(lane);
		done = !vb_wire_begin(lane) || try_enter_again(lane);
		vb_wire_unlock(lane);
	}
}

void vb_wire_enter_again(struct vb_nic *nic)
{
	vb_lanes_for(lane, nic) enter_again(lane);
}

static bool is_repeated(const struct vb_arrival *arrival)
{
	return (arrival->bytes[0] & VB_TRANSPORT_MASK) != VB_TRANSPORT_UC;
}

/*
 * A packet came through a slot socket for a QP that is not on the wire. The sender was the first to
 * find out that the two may not touch each other, or that one of the QPs wants packets.
 */
bool vb_wire_adopt_late(struct vb_lane *lane, const struct vb_arrival *arrival)
{
	struct vb_nic *nic = lane->nic;
	bool known = true;
	uint32_t qpn;
	struct vb_qp *qp;

	if (arrival->length < VB_BTH_LENGTH)
		return true;
	qpn = vb_packet_dest_qpn(arrival->bytes);
	if (vb_roce_find(&lane->roce, qpn))
		return true;
	if (pthread_mutex_trylock(&nic->lock))
		return is_repeated(arrival);
	qp = vb_nic_qp(nic, qpn);
	if (wants_packets(qp, arrival->peer) && atomic_load(&qp->lane) == lane->number) {
		known = vb_qp_token_try(qp);
		if (known)
			adopt_late(lane, qp, arrival->peer);
	}
	pthread_mutex_unlock(&nic->lock);
	return known || is_repeated(arrival);
}

bool vb_wire_aside(struct vb_qp *qp, const struct vb_wqe *wqe, struct vb_peer *peer)
{
	struct vb_lane *lane = vb_qp_lane(qp);
	bool done = true;

	if (!lane)
		return done;
	vb_wire_lock(lane);
	if (vb_wire_begin(lane)) {
		vb_hazard_enter(lane->roce.thread, qp->nic->self->head_slot);
		done = vb_roce_datagram_aside(&lane->roce, qp, wqe, peer);
		vb_hazard_leave(lane->roce.thread);
		vb_tx_flush(&lane->roce.tx);
	}
	vb_wire_unlock(lane);
	return done;
}

/* True: the WQE has the same address handle, and within this host also the same slot. */
static bool is_same_target(const struct vb_wqe *wqe, const struct vb_ah *ah, uint32_t qpn)
{
	return wqe->ah == ah &&
	       (!qpn || wqe->remote_qpn >> VB_QP_INDEX_BITS == qpn >> VB_QP_INDEX_BITS);
}

uint64_t vb_wire_datagrams(struct vb_qp *qp, struct vb_peer *peer, uint32_t end,
			   struct vb_notice *notice)
{
	struct vb_lane *lane = vb_qp_lane(qp);
	const struct vb_ah *ah = vb_sq_wqe(&qp->sq, qp->sq.next)->ah;
	const uint32_t qpn = vb_sq_wqe(&qp->sq, qp->sq.next)->remote_qpn;
	struct vb_report report = { 0 };
	uint64_t wait_ns = 0;

	if (!lane) {
		vb_path_explain(qp, VB_WHY_NOT_THIS_HOST, &report);
		vb_path_complete(qp, VB_OK, &report, notice);
		return 0;
	}
	vb_wire_lock(lane);
	if (vb_wire_begin(lane)) {
		vb_hazard_enter(lane->roce.thread, qp->nic->self->head_slot);
		/* With fault rules one at a time: the rules look at each WQE before it is sent. */
		do
			wait_ns = vb_roce_datagram(&lane->roce, qp, peer, notice);
		while (!wait_ns && !vb_fault_any() && qp->sq.next != end &&
		       is_same_target(vb_sq_wqe(&qp->sq, qp->sq.next), ah, peer ? qpn : 0) &&
		       vb_qp_state(qp) == IBV_QPS_RTS);
		vb_hazard_leave(lane->roce.thread);
		vb_tx_flush(&lane->roce.tx);
	}
	vb_wire_unlock(lane);
	return wait_ns;
}
