/* SPDX-License-Identifier: BSD-2-Clause */
/* The work of pollers and the service thread besides the wire: attention, retries, flushes. */
#include "engine/engine.h"
#include "engine/wire/wire.h"

enum { POLLS_PER_HELP = 32 }; /* empty polls between two looks after the QPs of other CQs */

static void check_flushes(struct vb_nic *nic)
{
	if (!atomic_load(&nic->flushes_pending) || pthread_mutex_trylock(&nic->lock))
		return;
	vb_list_for(qp, &nic->qps, struct vb_qp, node) {
		if (qp->flush_pending)
			vb_qp_flush_check(qp);
	}
	pthread_mutex_unlock(&nic->lock);
}

/* True: it is time for this thread to look after CQs that no thread polls. */
static bool helps_others(void)
{
	static __thread uint32_t polls __attribute__((tls_model("initial-exec")));

	return ++polls % POLLS_PER_HELP == 0;
}

bool vb_engine_progress(struct vb_cq *cq)
{
	struct vb_nic *nic = cq->nic;
	struct vb_engine *engine = nic->engine;
	bool helps = helps_others();
	bool worked = engine && vb_engine_retry_own(cq);

	if (__builtin_expect(atomic_load_explicit(&nic->enable_due, memory_order_relaxed), 0))
		vb_engine_go_on(nic);

	if (!engine ||
	    (!helps && !atomic_load_explicit(&nic->seg.lent->attention, memory_order_relaxed) &&
	     !atomic_load_explicit(&nic->flushes_pending, memory_order_relaxed)))
		return worked;
	if (!vb_spin_try(&engine->progress_lock))
		return true; /* another thread does it, and completions may come of that */
	vb_engine_attend(nic, false);
	if (helps)
		vb_engine_retry_others(nic, cq);
	check_flushes(nic);
	vb_spin_unlock(&engine->progress_lock);
	return true;
}

int vb_engine_count_found(struct vb_cq *cq, int got)
{
	static __thread uint32_t found __attribute__((tls_model("initial-exec")));

	if (++found % VB_FOUND_POLLS == 0 && vb_wire_overdue(cq->nic, vb_engine_lanes(cq)))
		vb_engine_poll(cq);
	return got;
}

bool vb_engine_service(struct vb_engine *engine)
{
	bool polled;

	vb_spin_lock(&engine->progress_lock);
	vb_engine_attend(engine->nic, true);
	polled = vb_engine_retry_all(engine->nic);
	check_flushes(engine->nic);
	vb_spin_unlock(&engine->progress_lock);
	vb_engine_go_on(engine->nic);
	vb_cq_release_due(engine->nic, vb_now_ns());
	return !polled;
}
