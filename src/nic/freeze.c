/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/freeze.h"

#include "base/clock.h"
#include "nic/nic.h"

enum { WAIT_NS = 2000000 }; /* all senders wait meanwhile */

bool vb_freeze(struct vb_nic *nic, uint64_t from, uint64_t to, bool except_views)
{
	const struct vb_ending ending = {
		.memory = true, .from = from, .to = to, .severed = except_views
	};
	const uint64_t until_ns = vb_now_ns() + WAIT_NS;
	struct vb_grace grace;

	/* Before the look at hazards in vb_grace_begin; pairs with vb_hazard_watch. */
	atomic_fetch_add(&nic->seg.head->revocations, 1);
	vb_grace_begin(nic, &grace, &ending, false);
	while (!vb_grace_settled(&grace)) {
		if (grace.failed || vb_now_ns() > until_ns) {
			vb_grace_drop(&grace);
			vb_thaw(nic);
			return false;
		}
		vb_cpu_relax();
	}
	return true;
}

/* The release pairs with vb_hazard_watch: a sender that finds the count even finds the pages. */
void vb_thaw(struct vb_nic *nic)
{
	atomic_fetch_add(&nic->seg.head->revocations, 1);
}
