/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion decisions that are not ours. The linker puts rules.c in front of the functions of
 * path/roce/congestion.h (--wrap, see meson.build): the libraries have no hook for it. Windows
 * leave as window_256 and rates as gap_ns of struct vb_congestion, where the requester looks.
 */
#ifndef VB_TESTS_SIM_SCALE_RULES_H
#define VB_TESTS_SIM_SCALE_RULES_H

#include "scale.h"

/* The state of one QP. */
struct foreign {
	const struct vb_congestion *owner;
	uint32_t mtu;
	union {
		struct {
			double rate, target, alpha;       /* Mb/s */
			uint64_t alpha_ns, timer_ns;      /* next time of each timer */
			uint64_t bytes;                   /* until the next step of the counter */
			unsigned timer_steps, byte_steps; /* since the last decrease */
		} dcqcn;
		struct {
			double window, threshold; /* packets */
			uint64_t cut_ns;
		} halving;
	};
};

struct foreign_rules {
	void (*init)(struct foreign *f, struct vb_congestion *c);
	void (*acked)(struct foreign *f, struct vb_congestion *c, uint32_t packets,
		      uint64_t now_ns);
	void (*marked)(struct foreign *f, struct vb_congestion *c, uint64_t now_ns);
	void (*lost)(struct foreign *f, struct vb_congestion *c, uint64_t now_ns);
	void (*timeout)(struct foreign *f, struct vb_congestion *c);
};

extern const struct foreign_rules rules_dcqcn, rules_halving;
/* The rate at which a flow under DCQCN begins: that of its link. */
extern double rules_link_mbps;

#endif
