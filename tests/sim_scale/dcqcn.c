/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DCQCN as published: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM
 * 2015, section 3.1, with the parameters of its sections 4 and 5. The paper gives no value for the
 * step of the hyper increase. The rules know no loss: the paper's networks have none.
 */
#include "rules.h"

enum {
	TIMER_NS = 55000,         /* T: step of the rate increase by time */
	ALPHA_NS = 55000,         /* K: alpha decreases without CNPs */
	COUNTER_BYTES = 10000000, /* B: step of the rate increase by bytes */
	FAST_STEPS = 5,           /* F: steps of fast recovery */
	STEPS_MOST = 1000,        /* of a timer that are made up for at once */
};

static const double gain = 1.0 / 256, additive_mbps = 40, hyper_mbps = 400, least_mbps = 1;
double rules_link_mbps = 40000;

static void rate_apply(const struct foreign *f, struct vb_congestion *c)
{
	c->gap_ns = (uint64_t)((f->mtu + 82.0) * 8000 / f->dcqcn.rate);
}

static void init(struct foreign *f, struct vb_congestion *c)
{
	f->dcqcn.rate = f->dcqcn.target = rules_link_mbps;
	f->dcqcn.alpha = 1;
	f->dcqcn.bytes = COUNTER_BYTES;
	c->window_256 = c->window_max << 8;
	rate_apply(f, c);
}

static void increase(struct foreign *f)
{
	const unsigned timer = f->dcqcn.timer_steps, bytes = f->dcqcn.byte_steps;

	if (timer > FAST_STEPS && bytes > FAST_STEPS)
		f->dcqcn.target += hyper_mbps;
	else if (timer > FAST_STEPS || bytes > FAST_STEPS)
		f->dcqcn.target += additive_mbps;
	if (f->dcqcn.target > rules_link_mbps)
		f->dcqcn.target = rules_link_mbps;
	f->dcqcn.rate = (f->dcqcn.rate + f->dcqcn.target) / 2;
}

/* The timers of the paper, made up for when something happens: nothing looks at the rate before. */
static void timers_run(struct foreign *f, uint64_t now_ns)
{
	if (!f->dcqcn.timer_ns)
		f->dcqcn.timer_ns = f->dcqcn.alpha_ns = now_ns + TIMER_NS;
	for (unsigned i = 0; i < STEPS_MOST && f->dcqcn.alpha_ns <= now_ns; i++) {
		f->dcqcn.alpha *= 1 - gain;
		f->dcqcn.alpha_ns += ALPHA_NS;
	}
	for (unsigned i = 0; i < STEPS_MOST && f->dcqcn.timer_ns <= now_ns; i++) {
		f->dcqcn.timer_steps++;
		increase(f);
		f->dcqcn.timer_ns += TIMER_NS;
	}
}

static void acked(struct foreign *f, struct vb_congestion *c, uint32_t packets, uint64_t now_ns)
{
	const uint64_t bytes = (uint64_t)packets * f->mtu;

	timers_run(f, now_ns);
	if (bytes >= f->dcqcn.bytes) {
		f->dcqcn.byte_steps++;
		increase(f);
		f->dcqcn.bytes += COUNTER_BYTES;
	}
	f->dcqcn.bytes -= bytes;
	rate_apply(f, c);
}

static void marked(struct foreign *f, struct vb_congestion *c, uint64_t now_ns)
{
	timers_run(f, now_ns);
	f->dcqcn.target = f->dcqcn.rate;
	f->dcqcn.rate *= 1 - f->dcqcn.alpha / 2;
	if (f->dcqcn.rate < least_mbps)
		f->dcqcn.rate = least_mbps;
	f->dcqcn.alpha = (1 - gain) * f->dcqcn.alpha + gain;
	f->dcqcn.alpha_ns = now_ns + ALPHA_NS;
	f->dcqcn.timer_ns = now_ns + TIMER_NS;
	f->dcqcn.bytes = COUNTER_BYTES;
	f->dcqcn.timer_steps = f->dcqcn.byte_steps = 0;
	rate_apply(f, c);
}

static void lost(struct foreign *f, struct vb_congestion *c, uint64_t now_ns)
{
	(void)f, (void)c, (void)now_ns;
}

static void timeout(struct foreign *f, struct vb_congestion *c)
{
	(void)f, (void)c;
}

const struct foreign_rules rules_dcqcn = { init, acked, marked, lost, timeout };
