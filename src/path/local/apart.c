/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receives of a connection ran out, and its owner posts them again one by one. A sender that
 * takes each as soon as it is posted meets the owner in every cell: its looks, and those of its
 * CPU at the cells behind, take the lines away that the owner is about to write. Both are then
 * several times slower. So the sender looks at a cell further on, and goes on once that is posted.
 * The owner may never post so many: the sender waits for a short time only, and for fewer the next
 * time.
 */
#include "base/clock.h"
#include "exec/recv.h"
#include "path/local/step.h"

enum {
	DISTANCE_MAX = 64,
	POST_NS = 1024,    /* an owner that takes longer for a receive is not waited for */
	STEADY_WAITS = 16, /* that end as hoped: then the distance grows */
};

static uint32_t distance_max(const struct vb_remote *remote)
{
	uint32_t quarter = (remote->mask + 1) / 4;

	return quarter < DISTANCE_MAX ? quarter : DISTANCE_MAX;
}

void vb_apart_begin(struct vb_remote *remote)
{
	remote->apart = (struct vb_apart){ .distance = distance_max(remote) };
}

/* A hint: the sender checks each cell that it takes. */
static bool is_far_posted(const struct vb_remote *remote)
{
	uint32_t index = remote->next_recv + remote->apart.distance;
	uint64_t word = atomic_load_explicit(&remote->cells[index & remote->mask].word,
					     memory_order_relaxed);

	return vb_cell_index(word) == index && vb_cell_state(word) == VB_CELL_POSTED;
}

static void farther(struct vb_remote *remote)
{
	uint32_t distance = 2 * remote->apart.distance + 1, max = distance_max(remote);

	remote->apart.distance = distance < max ? distance : max;
}

bool vb_apart_waits(struct vb_remote *remote, uint64_t now_ns)
{
	struct vb_apart *apart = &remote->apart;

	if (!apart->until_ns)
		return false;
	apart->far_posted = is_far_posted(remote);
	return !apart->far_posted && now_ns < apart->until_ns;
}

void vb_apart_missed(struct vb_remote *remote, uint64_t now_ns)
{
	remote->apart.until_ns = now_ns + remote->apart.distance * POST_NS;
}

void vb_apart_found(struct vb_remote *remote)
{
	struct vb_apart *apart = &remote->apart;

	if (!apart->until_ns)
		return;
	apart->until_ns = 0;
	if (!apart->far_posted && apart->distance) {
		apart->distance /= 2;
		apart->steady_waits = 0;
	} else if (++apart->steady_waits == STEADY_WAITS) {
		farther(remote);
		apart->steady_waits = 0;
	}
}

/* The service thread, and the last look of all, do not wait. UC drops what waits for long. */
static bool may_wait(const struct vb_step_context *step)
{
	return vb_qp_reliable(step->qp) && !step->run->service && !step->qp->pend.rnr_looked_again;
}

bool vb_step_claim(struct vb_step_context *step, struct vb_claim *claim)
{
	struct vb_remote *remote = &step->qp->remote;

	if (remote->many)
		return vb_recv_claim(remote, claim);
	if (remote->apart.until_ns && may_wait(step) && vb_apart_waits(remote, vb_now_ns()))
		return false;
	if (!vb_recv_claim(remote, claim)) {
		vb_apart_missed(remote, vb_now_ns());
		return false;
	}
	vb_apart_found(remote);
	return true;
}
