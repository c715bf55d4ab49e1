/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/grace.h"

#include <errno.h>
#include <stdlib.h>

#include "base/barrier.h"
#include "base/clock.h"
#include "base/message.h"
#include "nic/qp.h"
#include "nic/stopped.h"

enum {
	SPINS = 1000,
	SLEEP_NS = 50000,
	/* Time before a QP's threads are excused: a thread that waits for a CPU can still leave,
	 * and a QP without threads inside gives more back. */
	QP_PATIENCE_NS = 10000000,
	LOOK_NS = 10000000,
};

static void wait_add(struct vb_grace *grace, struct vb_peer *peer, struct vb_hazard_cell *cell,
		     uint64_t word)
{
	struct vb_grace_wait *more = realloc(grace->waits, (grace->count + 1) * sizeof(*more));

	if (!more) {
		grace->failed = true;
		return;
	}
	vb_peer_get(peer);
	more[grace->count++] = (struct vb_grace_wait){ .peer = peer, .cell = cell, .word = word };
	grace->waits = more;
}

/* May a thread that names this QP be inside the receive queue? A QP that is gone may have had the
 * queue, and an XRC QP may reach any queue of its domain. */
static bool may_use_rq(struct vb_nic *nic, uint32_t qpn, const struct vb_rq *rq)
{
	const struct vb_qp *qp = vb_nic_qp(nic, qpn);

	return !qp || qp->rq == rq || qp->type == IBV_QPT_XRC_RECV;
}

static bool word_concerns(struct vb_nic *nic, const struct vb_ending *ending, uint64_t word)
{
	uint32_t qpn = vb_hazard_qpn(word);

	if (!qpn)
		return true;
	if (ending->rq)
		return may_use_rq(nic, qpn, ending->rq);
	return !ending->qpn || ending->qpn == qpn;
}

static struct vb_hazard_cell *cell_at(struct vb_peer *peer, uint32_t index)
{
	uint64_t offset = atomic_load(&peer->head->hazard_pages[index / VB_HAZARD_PAGE]);
	struct vb_hazard_cell *page =
		offset ? vb_peer_at(peer, offset, VB_HAZARD_PAGE * sizeof(*page)) : NULL;

	return page ? &page[index % VB_HAZARD_PAGE] : NULL;
}

/* Collects the words of one process's threads that name this process. */
static void wait_for_threads_of(struct vb_grace *grace, struct vb_peer *peer, uint32_t slot,
				bool any)
{
	uint32_t count = atomic_load_explicit(&peer->head->hazard_count, memory_order_acquire);
	const struct vb_thread *self = vb_thread_self;
	bool alive = vb_peer_alive(peer);

	for (uint32_t i = 0; i < count && i < VB_HAZARD_PAGES * VB_HAZARD_PAGE; i++) {
		struct vb_hazard_cell *cell = cell_at(peer, i);
		uint64_t word = cell ? atomic_load(&cell->word) : 0;
		uint32_t named = vb_hazard_slot(word);

		/* The caller's own word does not change while the caller waits. */
		if (self && (cell == self->hazard || cell == self->second))
			continue;
		if (!named || (!any && named != slot) ||
		    (!any && !word_concerns(grace->nic, &grace->ending, word)))
			continue;
		if (alive || atomic_load(&cell->copy) & VB_COPY_NOW)
			wait_add(grace, peer, cell, word);
	}
}

void vb_grace_begin(struct vb_nic *nic, struct vb_grace *grace, const struct vb_ending *ending,
		    bool own_too)
{
	uint32_t slot = nic->seg.head->slot;

	*grace = (struct vb_grace){ .nic = nic, .ending = *ending };
	/* After the change of state; pairs with vb_hazard_watch. */
	if (ending->memory)
		atomic_fetch_add(&nic->seg.head->revocations, 2);
	/* The change of state comes before any look at a hazard; pairs with vb_hazard_enter. */
	atomic_thread_fence(memory_order_seq_cst);
	vb_spin_lock(&nic->peers_lock);
	vb_list_for(peer, &nic->peers, struct vb_peer, node) {
		if (peer->head)
			wait_for_threads_of(grace, peer, slot, peer->self && own_too);
	}
	vb_spin_unlock(&nic->peers_lock);
}

void vb_grace_begin_own(struct vb_nic *nic, struct vb_grace *grace)
{
	*grace = (struct vb_grace){ .nic = nic };
	/* As in vb_grace_begin. */
	atomic_thread_fence(memory_order_seq_cst);
	wait_for_threads_of(grace, nic->self, nic->seg.head->slot, true);
}

/* The threads of a killed process end one after the other, and a thread finishes its copy first. */
static bool is_dying_in_copy(const struct vb_grace_wait *wait)
{
	return atomic_load(&wait->cell->copy) & VB_COPY_NOW &&
	       !vb_stopped_for_ever(wait->peer->pid, (pid_t)atomic_load(&wait->cell->tid));
}

static bool is_inside(const struct vb_grace_wait *wait)
{
	return atomic_load(&wait->cell->word) == wait->word &&
	       (vb_peer_alive(wait->peer) || is_dying_in_copy(wait));
}

static void forget_last(struct vb_grace *grace)
{
	vb_peer_put(grace->waits[--grace->count].peer);
}

void vb_grace_drop(struct vb_grace *grace)
{
	while (grace->count)
		forget_last(grace);
	free(grace->waits);
	grace->waits = NULL;
}

bool vb_grace_over(struct vb_grace *grace)
{
	while (grace->count) {
		if (is_inside(&grace->waits[grace->count - 1]))
			return false;
		forget_last(grace);
	}
	vb_grace_drop(grace);
	return !grace->failed;
}

/* --- threads that stay inside --- */

/* After vb_barrier_others: a copy that is not announced yet will notice the revocation. */
static bool may_reach(const struct vb_ending *ending, const struct vb_grace_wait *wait)
{
	const struct vb_hazard_cell *cell = wait->cell;
	uint64_t copy = atomic_load(&cell->copy), from, to;

	if (!(copy & VB_COPY_NOW) || (copy & VB_COPY_MAPPED && ending->severed))
		return false;
	from = atomic_load(&cell->from);
	to = atomic_load(&cell->to);
	if (!ending->all && (from >= ending->to || to <= ending->from) &&
	    atomic_load(&cell->copy) == copy)
		return false;
	return !(copy & VB_COPY_ONE_CALL &&
		 vb_stopped_behind_copy(wait->peer->pid, (pid_t)atomic_load(&cell->tid)) &&
		 atomic_load(&cell->copy) == copy);
}

/* Threads of this process are never excused: they also read the memory as a source of messages. */
static void excuse_threads(struct vb_grace *grace)
{
	unsigned kept = 0;

	grace->looked = true;
	if (!grace->ending.memory || !vb_barrier_others())
		return;
	for (unsigned i = 0; i < grace->count; i++) {
		struct vb_grace_wait *wait = &grace->waits[i];

		if (wait->peer->self || may_reach(&grace->ending, wait)) {
			grace->waits[kept++] = *wait;
			continue;
		}
		grace->inside |= is_inside(wait);
		vb_peer_put(wait->peer);
	}
	grace->count = kept;
}

bool vb_grace_settled(struct vb_grace *grace)
{
	uint64_t now;

	if (vb_grace_over(grace))
		return true;
	now = vb_now_ns();
	if (!grace->look_ns)
		grace->look_ns = now + (grace->ending.qpn ? QP_PATIENCE_NS : 0);
	if (now < grace->look_ns)
		return false;
	grace->look_ns = now + LOOK_NS;
	excuse_threads(grace);
	return vb_grace_over(grace);
}

/* The time at which a call first saw this value of the word. Under peers_lock. */
static uint64_t stuck_since(struct vb_nic *nic, const struct vb_grace_wait *wait, uint64_t now)
{
	for (unsigned i = 0; i < VB_STUCK_MAX; i++)
		if (nic->stuck[i].cell == wait->cell && nic->stuck[i].word == wait->word)
			return nic->stuck[i].since_ns;
	nic->stuck[nic->stuck_next++ % VB_STUCK_MAX] =
		(struct vb_stuck){ .cell = wait->cell, .word = wait->word, .since_ns = now };
	return now;
}

/* A thread without an excuse did not move for the timeout. */
static bool is_hopeless(struct vb_grace *grace, uint64_t timeout_ns)
{
	uint64_t now = vb_now_ns();

	for (unsigned i = 0; grace->looked && i < grace->count; i++) {
		struct vb_grace_wait *wait = &grace->waits[i];

		if (!wait->since_ns) {
			vb_spin_lock(&grace->nic->peers_lock);
			wait->since_ns = stuck_since(grace->nic, wait, now);
			vb_spin_unlock(&grace->nic->peers_lock);
		}
		if (now - wait->since_ns > timeout_ns && is_inside(wait))
			return true;
	}
	return false;
}

int vb_grace_wait(struct vb_grace *grace, unsigned timeout_ms, uint32_t *slot)
{
	uint64_t timeout_ns = timeout_ms * 1000000ull, give_up_ns = vb_now_ns() + timeout_ns;

	for (unsigned turn = 0; turn < SPINS; turn++) {
		if (vb_grace_over(grace))
			return 0;
		vb_cpu_relax();
	}
	while (!vb_grace_settled(grace)) {
		if (is_hopeless(grace, timeout_ns) || vb_now_ns() > give_up_ns) {
			*slot = grace->count ? grace->waits[grace->count - 1].peer->slot : 0;
			return -ETIMEDOUT;
		}
		/* No cancellation point: a post that ends a window waits here. */
		vb_sleep_ns(SLEEP_NS);
	}
	return 0;
}

int vb_grace_pass(struct vb_nic *nic, const struct vb_ending *ending, uint32_t *slot)
{
	struct vb_grace grace;
	int err;

	vb_grace_begin(nic, &grace, ending, true);
	err = vb_grace_wait(&grace, VB_STUCK_PEER_MS, slot);
	if (err)
		vb_grace_drop(&grace);
	return err ? err : grace.inside;
}
