/* SPDX-License-Identifier: BSD-2-Clause */
/* Work that peers leave to the owner of a segment: it fails its QPs and raises its events. */
#include <stdio.h>

#include "base/cancel.h"
#include "base/config.h"
#include "base/log.h"
#include "engine/engine.h"
#include "exec/reason.h"
#include "nic/far_words.h"
#include "nic/key_words.h"
#include "nic/migrate.h"
#include "path/complete.h"

enum { WHY_WORDS = 256 };
static_assert((int)WHY_WORDS >= (int)VB_KEY_WORDS && (int)WHY_WORDS >= VB_ACCESS_WORDS + 96, "");

/* The owner knows its key, or the rights of its QP: the words for what was missing there. */
static const char *why_words(const struct vb_qp *qp, enum vb_reason reason, unsigned access,
			     char text[WHY_WORDS])
{
	const struct vb_key_use use = { .home = qp->nic->self,
					.key = atomic_load(&qp->lent->refused_key),
					.as_rkey = true,
					.pd = qp->pd->id,
					.qpn = qp->ibv.qp_num,
					.access = access };
	char words[VB_ACCESS_WORDS];
	unsigned has;

	switch (reason) {
	case VB_WHY_RKEY_UNKNOWN:
	case VB_WHY_RKEY_IS_LKEY:
	case VB_WHY_RKEY_PD:
	case VB_WHY_RKEY_RIGHT:
		return vb_key_words(&use, text) ? text : vb_reason_brief(reason);
	case VB_WHY_RKEY_RANGE:
		snprintf(text, WHY_WORDS, "the range is not inside the region of rkey 0x%08x",
			 use.key);
		return text;
	case VB_WHY_QP_RIGHT:
		has = atomic_load(&qp->entry->access);
		snprintf(text, WHY_WORDS, "its qp_access_flags lack %s (they have %s)",
			 vb_access_name(access & ~has), vb_access_words(has, words));
		return text;
	default:
		return vb_reason_brief(reason);
	}
}

/*
 * The peer's process knows the numbers of a request by the local path. The protocol core has
 * explained a request that came in packets.
 */
static void explain_target(const struct vb_qp *qp, enum vb_reason reason, unsigned access)
{
	char peer[VB_FAR_WORDS], text[WHY_WORDS];

	if (reason == VB_WHY_INJECTED_FATAL) {
		vb_explain_work("QP 0x%06x has failed with its device: a fault rule",
				qp->ibv.qp_num);
		return;
	}
	if (!vb_reason_row(reason)->target_fails || atomic_load(&qp->wired))
		return;
	vb_explain_work("QP 0x%06x has failed: it refused a request of QP 0x%06x%s: %s",
			qp->ibv.qp_num, qp->attr.dest_qp_num,
			vb_config_explain() ? vb_far_words(qp, NULL, peer) : "",
			vb_config_explain() ? why_words(qp, reason, access, text)
					    : vb_reason_brief(reason));
}

/* True: the send queue has to be looked at, because it is to be flushed or may go on. */
static bool attend_qp(struct vb_qp *qp)
{
	uint32_t bits = atomic_exchange(&qp->lent->attention, 0);
	enum vb_reason reason = bits & 0xff;
	bool moved = false;

	if (bits & VB_QP_ATTN_COMM_EST)
		vb_qp_raise(qp, IBV_EVENT_COMM_EST);
	if (bits & VB_QP_ATTN_MIGRATE)
		moved = vb_migrate_look(qp);
	if (bits & VB_QP_ATTN_SHELF && qp->rq)
		vb_rq_shelf_make(qp->rq);
	if (!(bits & VB_QP_ATTN_FAIL) || reason >= VB_REASON_COUNT)
		return moved;
	explain_target(qp, reason, bits >> VB_QP_ATTN_ACCESS_SHIFT);
	if (!qp->failure.since_ns)
		qp->failure = (struct vb_failure){ .since_ns = vb_now_ns(),
						   .reason = (uint8_t)reason,
						   .status = VB_FAILURE_OF_PEER };
	if (!vb_qp_enter_error(qp))
		return false;
	if (vb_reason_row(reason)->event && !(bits & VB_QP_ATTN_QUIET))
		vb_qp_raise(qp, vb_reason_row(reason)->event);
	return true;
}

/* A QP index stands for one QP in each slot of the process. */
static void attend_index(struct vb_nic *nic, unsigned index)
{
	for (unsigned s = 0; s < nic->slot_count; s++) {
		struct vb_qp *qp = nic->slots[s].indexes->qps[index];

		if (qp && qp->entry && atomic_load(&qp->lent->attention) && attend_qp(qp)) {
			atomic_store(&qp->pend.wake_ns, 0);
			vb_engine_pend(nic->engine, qp);
		}
	}
}

static void attend_qps(struct vb_nic *nic)
{
	for (unsigned i = 0; i < VB_ATTENTION_WORDS; i++) {
		uint64_t word = atomic_exchange(&nic->seg.lent->qp_attention[i], 0);

		for (; word; word &= word - 1)
			attend_index(nic, i * 64 + (unsigned)__builtin_ctzll(word));
	}
}

static void attend_locked(struct vb_nic *nic, uint32_t bits)
{
	if (bits & VB_ATTN_QP)
		attend_qps(nic);
	if (bits & VB_ATTN_MAP) /* a thread of the program does it, in its next call */
		atomic_store(&nic->map_wanted, 1);
	if (bits & VB_ATTN_CQ)
		vb_list_for(cq, &nic->cqs, struct vb_cq, node)
			vb_cq_collect_fired(cq);
	if (bits & VB_ATTN_ENDED)
		vb_list_for(cq, &nic->cqs, struct vb_cq, node)
			vb_cq_look_again(cq);
	if (bits & VB_ATTN_SRQ)
		vb_rq_collect_all_returned(nic);
	if (bits & VB_ATTN_SRQ)
		vb_list_for(srq, &nic->srqs, struct vb_srq, node) {
			vb_srq_collect_limit(srq);
			vb_srq_collect_damage(srq);
		}
}

static void attend(struct vb_nic *nic, bool service)
{
	while (atomic_load(&nic->seg.lent->attention)) {
		/* A poller does not wait for a control call: the service thread does it. */
		if (service) {
			pthread_mutex_lock(&nic->lock);
		} else if (pthread_mutex_trylock(&nic->lock)) {
			vb_nic_ring(nic);
			return;
		}
		attend_locked(nic, atomic_exchange(&nic->seg.lent->attention, 0));
		pthread_mutex_unlock(&nic->lock);
	}
}

void vb_engine_attend(struct vb_nic *nic, bool service)
{
	if (atomic_load(&nic->seg.lent->attention)) {
		VB_NO_CANCEL_WITHIN; /* polling is no cancellation point */

		attend(nic, service);
	}
}

void vb_engine_wake_waiters(struct vb_nic *nic)
{
	vb_spin_lock(&nic->peers_lock);
	vb_list_for(peer, &nic->peers, struct vb_peer, node) {
		if (!peer->self && atomic_load(&peer->state) == VB_PEER_READY)
			vb_peer_attend(peer, VB_ATTN_RETRY);
	}
	vb_spin_unlock(&nic->peers_lock);
	if (nic->engine && atomic_load(&nic->waiting))
		vb_nic_ring(nic);
}
