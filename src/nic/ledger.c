/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "nic/nic.h"
#include "shm/peer.h"

enum { ROOM_FIRST = 16 };

int vb_ledger_open(struct vb_cq *cq)
{
	struct vb_ledger *ledger;

	if (__atomic_load_n(&cq->ledger, __ATOMIC_ACQUIRE))
		return 0;
	ledger = calloc(1, sizeof(*ledger));
	if (!ledger)
		return -ENOMEM;
	atomic_store(&ledger->refs, 1);
	ledger->cq = cq;
	vb_spin_lock(&cq->poll_lock);
	if (!cq->ledger) {
		__atomic_store_n(&cq->ledger, ledger, __ATOMIC_RELEASE);
		cq->is_apart = true;
		ledger = NULL;
	}
	vb_spin_unlock(&cq->poll_lock);
	free(ledger);
	return 0;
}

void vb_ledger_get(struct vb_ledger *ledger)
{
	atomic_fetch_add(&ledger->refs, 1);
}

void vb_ledger_put(struct vb_ledger *ledger)
{
	if (!ledger || atomic_fetch_sub(&ledger->refs, 1) != 1)
		return;
	free(ledger->entries);
	free(ledger);
}

void vb_ledger_close(struct vb_cq *cq)
{
	struct vb_ledger *ledger = cq->ledger;

	if (!ledger)
		return;
	vb_spin_lock(&ledger->lock);
	ledger->cq = NULL;
	vb_spin_unlock(&ledger->lock);
	vb_ledger_put(ledger);
}

/* --- the ring; under poll_lock --- */

static struct vb_ledger_entry *entry_at(const struct vb_ledger *ledger, uint32_t index)
{
	return &ledger->entries[(ledger->first + index) % ledger->room];
}

static bool room_make(struct vb_ledger *ledger)
{
	const uint32_t room = ledger->room ? 2 * ledger->room : ROOM_FIRST;
	struct vb_ledger_entry *entries;

	if (ledger->count < ledger->room)
		return true;
	entries = malloc((size_t)room * sizeof(*entries));
	if (!entries)
		return false;
	for (uint32_t i = 0; i < ledger->count; i++)
		entries[i] = *entry_at(ledger, i);
	free(ledger->entries);
	ledger->entries = entries;
	ledger->room = room;
	ledger->first = 0;
	return true;
}

static void drop_oldest(struct vb_ledger *ledger)
{
	ledger->first = (ledger->first + 1) % ledger->room;
	ledger->count--;
}

void vb_ledger_forget(struct vb_cq *cq, uint32_t qpn)
{
	struct vb_ledger *ledger = cq->ledger;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < vb_ledger_count(cq); i++)
		if (entry_at(ledger, i)->wc.qp_num != qpn)
			*entry_at(ledger, kept++) = *entry_at(ledger, i);
	if (ledger)
		ledger->count = kept;
}

/* No room is left in the CQ: one that ignores overruns loses its oldest completions. */
static void overrun(struct vb_cq *cq)
{
	if (cq->ignore_overrun) {
		drop_oldest(cq->ledger);
		return;
	}
	atomic_store(&cq->shared->overrun, 1);
	vb_peer_attend(cq->nic->self, VB_ATTN_CQ);
}

/* False: there is no completion, or no memory for one. */
static bool take_in(struct vb_cq *cq)
{
	struct vb_ledger *ledger = cq->ledger;
	struct vb_ledger_entry entry;

	if (atomic_load(&cq->shared->overrun) || !room_make(ledger))
		return false;
	cq->tm = (struct ibv_wc_tm_info){ 0 };
	if (vb_cq_poll_queues(cq, 1, &entry.wc) != 1)
		return false;
	entry.tm = cq->tm;
	entry.stamp = cq->stamp;
	atomic_store(&ledger->made, atomic_load(&ledger->made) + 1);
	if (ledger->count >= (uint32_t)cq->ibv.cqe)
		overrun(cq);
	if (ledger->count < (uint32_t)cq->ibv.cqe)
		*entry_at(ledger, ledger->count++) = entry;
	return true;
}

static bool is_reached(struct vb_ledger *ledger, uint32_t made)
{
	return (int32_t)(atomic_load(&ledger->made) - made) >= 0;
}

enum vb_ledger_state vb_ledger_reach(struct vb_ledger *ledger, uint32_t made)
{
	struct vb_cq *cq;

	if (is_reached(ledger, made))
		return VB_LEDGER_REACHED;
	vb_spin_lock(&ledger->lock);
	cq = ledger->cq;
	if (cq) {
		vb_spin_lock(&cq->poll_lock);
		while (!is_reached(ledger, made) && take_in(cq))
			;
		vb_spin_unlock(&cq->poll_lock);
	}
	vb_spin_unlock(&ledger->lock);
	if (is_reached(ledger, made))
		return VB_LEDGER_REACHED;
	return cq ? VB_LEDGER_SHORT : VB_LEDGER_CLOSED;
}

struct vb_ledger_gap vb_ledger_gap(struct vb_ledger *ledger, uint32_t made)
{
	struct vb_ledger_gap gap = { 0 };

	vb_spin_lock(&ledger->lock);
	if (ledger->cq) {
		gap.cq = (uint32_t)(ledger->cq->shared_offset / 64);
		gap.missing = is_reached(ledger, made) ? 0 : made - atomic_load(&ledger->made);
	}
	vb_spin_unlock(&ledger->lock);
	return gap;
}

/* --- polls of the program --- */

static int take(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	struct vb_ledger *ledger = cq->ledger;
	int got = 0;

	for (; got < count && ledger->count; got++) {
		const struct vb_ledger_entry *entry = entry_at(ledger, 0);

		wc[got] = entry->wc;
		cq->tm = entry->tm;
		cq->stamp = entry->stamp;
		drop_oldest(ledger);
	}
	return got;
}

/* The CQ overran: completions that fitted are still there, and no more follow. */
static int what_fitted(const struct vb_cq *cq, int count)
{
	int left = (int)atomic_load(&cq->shared->count);

	if (left > 0)
		return left < count ? left : count;
	vb_explain("ibv_poll_cq: CQ %u has overrun: more completions came than its cqe %d, and no "
		   "more follow; destroy the CQ, and make it as large as the queues that complete "
		   "there",
		   (unsigned)(cq->shared_offset / 64), cq->ibv.cqe);
	return -EIO;
}

int vb_cq_poll_apart(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	int got = cq->ledger ? take(cq, count, wc) : 0, more = count - got;

	if (more && atomic_load_explicit(&cq->shared->overrun, memory_order_relaxed))
		more = what_fitted(cq, more);
	if (more > 0)
		more = vb_cq_poll_queues(cq, more, wc + got);
	if (more < 0)
		return got ? got : more;
	if (cq->ledger)
		atomic_store(&cq->ledger->made, atomic_load(&cq->ledger->made) + (uint32_t)more);
	return got + more;
}
