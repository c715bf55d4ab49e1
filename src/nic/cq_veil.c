/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/cq_veil.h"

#include "base/adversary.h"
#include "base/clock.h"
#include "nic/cq.h"

enum {
	HIDDEN_NS_MAX = 6000000,
	EVENT_US_MAX = 1000,
	EVENT_COMPLETIONS = 16,
	NOBODY = 0, /* the draw of a CQ's style */
};

static bool is_armed(const struct vb_cq *cq)
{
	return atomic_load(&cq->shared->armed) != VB_CQ_UNARMED;
}

static bool has_completions(struct vb_cq *cq)
{
	bool any;

	vb_spin_lock(&cq->poll_lock);
	any = vb_cq_waiting(cq);
	vb_spin_unlock(&cq->poll_lock);
	return any;
}

/* Under the veil's lock, as the functions up to vb_veil_hides. */
static void decide(struct vb_cq *cq)
{
	struct vb_veil *veil = &cq->veil;
	uint64_t bits;

	veil->state = VB_VEIL_OFF;
	if (!vb_adversary_draws(VB_DEED_POLL_EMPTY, cq->ibv.handle, veil->count++, &bits))
		return;
	veil->late_ns = vb_adversary_time_ns(bits, HIDDEN_NS_MAX);
	veil->state = VB_VEIL_WAITS;
}

static void hide(struct vb_cq *cq, uint64_t now_ns)
{
	struct vb_veil *veil = &cq->veil;

	veil->until_ns = now_ns + veil->late_ns;
	veil->state = VB_VEIL_HIDES;
	vb_adversary_note(VB_DEED_POLL_EMPTY, 0, 0,
			  "CQ %u: completion %llu and those after it hide for %llu us",
			  cq->ibv.handle, (unsigned long long)veil->count,
			  (unsigned long long)veil->late_ns / 1000);
}

static bool hides_now(struct vb_cq *cq)
{
	struct vb_veil *veil = &cq->veil;
	const uint64_t now_ns = vb_now_ns();

	if (veil->gone || is_armed(cq))
		return false;
	if (veil->state == VB_VEIL_UNDECIDED)
		decide(cq);
	if (veil->state == VB_VEIL_WAITS && has_completions(cq))
		hide(cq, now_ns);
	if (veil->state == VB_VEIL_HIDES && now_ns >= veil->until_ns)
		veil->state = VB_VEIL_OFF;
	return veil->state == VB_VEIL_HIDES;
}

bool vb_veil_hides(struct vb_cq *cq)
{
	bool hides;

	vb_spin_lock(&cq->veil.lock);
	hides = hides_now(cq);
	vb_spin_unlock(&cq->veil.lock);
	return hides;
}

/* A completion that came while another one hid comes out with it. */
void vb_veil_polled(struct vb_cq *cq)
{
	vb_spin_lock(&cq->veil.lock);
	if (cq->veil.state != VB_VEIL_HIDES)
		cq->veil.state = VB_VEIL_UNDECIDED;
	vb_spin_unlock(&cq->veil.lock);
}

/* --- events --- */

/* For a completion that nobody has polled: its poll may come before the event is taken. */
static void extra_event(struct vb_cq *cq, uint64_t bits)
{
	(void)bits;
	if (!cq->channel || !has_completions(cq) || !vb_cq_disarm(cq->shared, true))
		return;
	vb_adversary_note(VB_DEED_EVENT_EXTRA, 0, 0,
			  "CQ %u: an event for completions that were there before the arm",
			  cq->ibv.handle);
	vb_cq_fire(cq, 1);
}

int vb_veil_req_notify(struct vb_cq *cq, bool solicited_only)
{
	const bool before = has_completions(cq);
	uint64_t bits;
	int err;

	vb_spin_lock(&cq->veil.lock);
	cq->veil.state = VB_VEIL_OFF;
	err = vb_cq_req_notify(cq, solicited_only);
	if (!err && before && !solicited_only &&
	    vb_adversary_draws(VB_DEED_EVENT_EXTRA, cq->ibv.handle, cq->veil.count++, &bits))
		extra_event(cq, bits);
	vb_spin_unlock(&cq->veil.lock);
	return err;
}

void vb_veil_end(struct vb_cq *cq)
{
	vb_spin_lock(&cq->veil.lock);
	cq->veil.gone = true;
	vb_spin_unlock(&cq->veil.lock);
}

void vb_veil_begin(struct vb_cq *cq)
{
	uint64_t bits;

	if (!cq->channel || !vb_adversary_draws(VB_DEED_EVENT_LATE, cq->ibv.handle, NOBODY, &bits))
		return;
	vb_cq_moderate(cq, EVENT_COMPLETIONS, (uint16_t)(1 + bits % EVENT_US_MAX));
	vb_adversary_note(VB_DEED_EVENT_LATE, 0, 0, "CQ %u: events come %u us after completions",
			  cq->ibv.handle, (unsigned)(1 + bits % EVENT_US_MAX));
}
