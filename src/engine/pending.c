/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queues that wait are tried again: by threads that poll their CQ, now and then by threads
 * that poll another CQ, and by the service thread where neither does.
 */
#include "base/clock.h"
#include "engine/engine.h"
#include "engine/wire/wire.h"
#include "nic/cross.h"
#include "nic/waiters.h"

enum { POLLER_RETRIES = 16 }; /* a poll must stay short, however many QPs wait */

/*
 * Pollers that tried a moment ago try again, and the service thread looks whether they do. That
 * they tried may be old news: their last try may have come after the last look, and the thread has
 * gone to sleep since, because no queue waited.
 */
static bool pollers_are_watched(const struct vb_engine *engine, const struct vb_qp *qp)
{
	return atomic_load_explicit(&qp->send_cq->waiters.tried_by, memory_order_relaxed) &&
	       atomic_load(&engine->service_wake_ns) <= vb_now_ns() + VB_POLLED_LOOK_NS;
}

void vb_engine_pend(struct vb_engine *engine, struct vb_qp *qp)
{
	uint64_t wake_ns = atomic_load(&qp->pend.wake_ns);

	vb_waiters_add(qp);
	/* Pairs with sleep_time: the service thread says when it wakes, then looks at the lists. */
	atomic_thread_fence(memory_order_seq_cst);
	if (wake_ns < atomic_load(&engine->service_wake_ns) && !pollers_are_watched(engine, qp))
		vb_nic_ring(engine->nic);
}

/* Under retry_lock. Returns the number of tries. */
static unsigned retry(struct vb_waiters *waiters, unsigned most, bool service)
{
	unsigned count = atomic_load(&waiters->count), i;

	for (i = 0; i < count && i < most; i++) {
		struct vb_qp *qp = vb_waiters_pop(waiters);
		uint32_t end;

		if (!qp)
			break;
		/* If another thread has the token, it puts the QP back if that still waits. */
		if (vb_qp_on_wire(qp))
			vb_wire_kick(qp);
		else if (vb_qp_token_take(qp, &end))
			vb_engine_execute(qp, end, service);
	}
	return i;
}

/* By a poller: false, if another thread tries the QPs of this list now. */
static bool try_some(struct vb_waiters *waiters, uint32_t by)
{
	unsigned tries;

	if (!vb_spin_try(&waiters->retry_lock))
		return false;
	tries = retry(waiters, POLLER_RETRIES, false);
	/* Only the holder of the lock adds; a count that the service thread takes may be lost. */
	atomic_store_explicit(&waiters->tried,
			      atomic_load_explicit(&waiters->tried, memory_order_relaxed) + tries,
			      memory_order_relaxed);
	vb_spin_unlock(&waiters->retry_lock);
	if (!(atomic_load_explicit(&waiters->tried_by, memory_order_relaxed) & by))
		atomic_fetch_or(&waiters->tried_by, by);
	return true;
}

bool vb_engine_retry_own(struct vb_cq *cq)
{
	return atomic_load_explicit(&cq->waiters.count, memory_order_relaxed) &&
	       try_some(&cq->waiters, VB_TRIED_BY_OWN);
}

void vb_engine_retry_others(struct vb_nic *nic, const struct vb_cq *own)
{
	for (struct vb_waiters *at = vb_waiters_walk(nic, NULL, false); at;
	     at = vb_waiters_walk(nic, at, false))
		if (at != &own->waiters &&
		    !(atomic_load_explicit(&at->tried_by, memory_order_relaxed) &
		      VB_TRIED_BY_OWN) &&
		    atomic_load_explicit(&at->count, memory_order_relaxed))
			try_some(at, VB_TRIED_BY_OTHER);
}

/* False: another thread has the lock, and may have passed a list already. */
static bool retry_enabled(struct vb_nic *nic)
{
	struct vb_engine *engine = nic->engine;

	if (!vb_spin_try(&engine->progress_lock))
		return false;
	for (struct vb_waiters *at = vb_waiters_walk(nic, NULL, false); at;
	     at = vb_waiters_walk(nic, at, false))
		if (atomic_load_explicit(&at->count, memory_order_relaxed))
			try_some(at, VB_TRIED_BY_OTHER);
	vb_spin_unlock(&engine->progress_lock);
	return true;
}

/* A queue that goes on may enable others: the outermost call goes on with those, too. */
void vb_engine_go_on(struct vb_nic *nic)
{
	static __thread bool is_inside __attribute__((tls_model("initial-exec")));
	uint32_t due;

	if (is_inside)
		return;
	is_inside = true;
	while ((due = atomic_exchange(&nic->enable_due, 0))) {
		if (due & VB_ENABLE_WAKE)
			vb_engine_wake_waiters(nic);
		if (due & VB_ENABLE_SENDS && !retry_enabled(nic)) {
			vb_nic_ring(nic);
			break;
		}
	}
	is_inside = false;
}

/* A program that polls now and then does not keep up. */
static bool pollers_keep_up(struct vb_waiters *waiters)
{
	uint32_t tried = atomic_exchange(&waiters->tried, 0);

	atomic_store(&waiters->tried_by, 0);
	return tried && tried >= atomic_load(&waiters->count);
}

bool vb_engine_retry_all(struct vb_nic *nic)
{
	bool all = true, any = false;

	for (struct vb_waiters *at = vb_waiters_walk(nic, NULL, false); at;
	     at = vb_waiters_walk(nic, at, !at->keeps_up)) {
		any = true;
		at->keeps_up = pollers_keep_up(at);
		if (at->keeps_up)
			continue;
		all = false;
		vb_spin_lock(&at->retry_lock);
		retry(at, UINT32_MAX, true);
		vb_spin_unlock(&at->retry_lock);
	}
	return any && all;
}

uint64_t vb_engine_next_wake_ns(struct vb_engine *engine, uint64_t now_ns)
{
	struct vb_nic *nic = engine->nic;
	uint64_t next_ns = VB_NEVER_NS;

	vb_spin_lock(&nic->waiting_lock);
	vb_list_for(waiters, &nic->waiting_cqs, struct vb_waiters, node) {
		uint64_t wake_ns = waiters->keeps_up ? now_ns + VB_POLLED_LOOK_NS
						     : vb_waiters_next_ns(waiters);

		if (wake_ns < next_ns)
			next_ns = wake_ns;
	}
	vb_spin_unlock(&nic->waiting_lock);
	return next_ns;
}
