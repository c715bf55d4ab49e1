/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/roce/lateness.h"

enum { MORE_NS = 1000 };

static struct vb_told *told_at(struct vb_lateness *late, uint32_t psn)
{
	return &late->told[psn % VB_TOLD_MAX];
}

static void learn(struct vb_lateness *late, uint64_t late_ns)
{
	if (late_ns > VB_LATENESS_MOST_NS)
		late_ns = VB_LATENESS_MOST_NS;
	if (late_ns > late->ns)
		late->ns = late_ns;
}

void vb_lateness_told(struct vb_lateness *late, uint32_t psn)
{
	if (told_at(late, psn)->psn_1 != psn + 1)
		*told_at(late, psn) = (struct vb_told){ .psn_1 = psn + 1 };
}

void vb_lateness_filled(struct vb_lateness *late, uint32_t psn, uint64_t late_ns, bool asks)
{
	struct vb_told *told = told_at(late, psn);

	if (told->psn_1 != psn + 1) {
		if (!asks)
			learn(late, late_ns);
		return;
	}
	told->late_ns = late_ns < VB_LATENESS_MOST_NS ? (uint32_t)late_ns : VB_LATENESS_MOST_NS;
	told->original = !asks;
}

/* If the repetition came first, the other copy was even later. */
void vb_lateness_twice(struct vb_lateness *late, uint32_t psn, bool asks)
{
	struct vb_told *told = told_at(late, psn);

	if (told->psn_1 != psn + 1)
		return;
	if (told->original || !asks)
		learn(late, (told->late_ns > late->ns ? told->late_ns : late->ns) + MORE_NS);
	told->psn_1 = 0;
}
