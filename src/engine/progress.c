/* SPDX-License-Identifier: BSD-2-Clause */
/* What pollers and the service thread do beside the wire: attention, retries, flushes. */
#include "engine/engine.h"

enum { POLLER_RETRIES = 16 }; /* a poll must stay short, whatever waits */

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

static void progress_locked(struct vb_nic *nic, unsigned retries, bool service)
{
	vb_engine_attend(nic, service);
	vb_engine_retry(nic->engine, retries, service);
	check_flushes(nic);
}

void vb_engine_progress(struct vb_nic *nic)
{
	struct vb_engine *engine = nic->engine;

	if (!engine || !vb_spin_try(&engine->progress_lock))
		return;
	progress_locked(nic, POLLER_RETRIES, false);
	atomic_store_explicit(&engine->polled, 1, memory_order_relaxed);
	vb_spin_unlock(&engine->progress_lock);
}

bool vb_engine_service(struct vb_engine *engine)
{
	bool polled = atomic_exchange(&engine->polled, 0);

	vb_spin_lock(&engine->progress_lock);
	progress_locked(engine->nic, polled ? 0 : UINT32_MAX, true);
	vb_spin_unlock(&engine->progress_lock);
	vb_cq_release_due(engine->nic, vb_now_ns());
	return !polled;
}
