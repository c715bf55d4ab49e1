/* SPDX-License-Identifier: BSD-2-Clause */
/* The work of pollers and the service thread besides the wire: attention, retries, flushes. */
#include "engine/engine.h"
#include "engine/wire/wire.h"

enum { POLLER_RETRIES = 16 }; /* a poll must stay short, however many QPs wait */

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

static unsigned progress_locked(struct vb_nic *nic, unsigned retries, bool service)
{
	unsigned retried;

	vb_engine_attend(nic, service);
	retried = vb_engine_retry(nic->engine, retries, service);
	check_flushes(nic);
	return retried;
}

void vb_engine_progress(struct vb_nic *nic)
{
	struct vb_engine *engine = nic->engine;

	if (!engine || !vb_spin_try(&engine->progress_lock))
		return;
	atomic_fetch_add_explicit(&engine->retried, progress_locked(nic, POLLER_RETRIES, false),
				  memory_order_relaxed);
	vb_spin_unlock(&engine->progress_lock);
}

int vb_engine_count_found(struct vb_nic *nic, int got)
{
	static __thread uint32_t found __attribute__((tls_model("initial-exec")));

	if (++found % VB_FOUND_POLLS == 0 && vb_wire_overdue(atomic_load(&nic->wire)))
		vb_engine_poll(nic);
	return got;
}

/* True: pollers have retried every waiting QP. A program that polls now and then has not. */
static bool pollers_keep_up(struct vb_engine *engine)
{
	uint32_t retried = atomic_exchange(&engine->retried, 0);

	return retried && retried >= atomic_load(&engine->pending_count);
}

bool vb_engine_service(struct vb_engine *engine)
{
	bool polled = pollers_keep_up(engine);

	vb_spin_lock(&engine->progress_lock);
	progress_locked(engine->nic, polled ? 0 : UINT32_MAX, true);
	vb_spin_unlock(&engine->progress_lock);
	vb_cq_release_due(engine->nic, vb_now_ns());
	return !polled;
}
