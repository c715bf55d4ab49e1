/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Windows as those of TCP with ECN (RFC 5681, RFC 3168): a packet more per round trip, or twice as
 * many below the threshold; half as many after a loss or a mark, once per round trip; one after
 * silence.
 */
#include "rules.h"

enum { START = 10, ROUND_TRIP_NS = 50000 };

static void apply(struct foreign *f, struct vb_congestion *c)
{
	if (f->halving.window < 1)
		f->halving.window = 1;
	if (f->halving.window > c->window_max)
		f->halving.window = c->window_max;
	c->window_256 = (uint32_t)(f->halving.window * 256);
}

static void init(struct foreign *f, struct vb_congestion *c)
{
	f->halving.window = START;
	f->halving.threshold = c->window_max;
	apply(f, c);
}

static void acked(struct foreign *f, struct vb_congestion *c, uint32_t packets, uint64_t now_ns)
{
	(void)now_ns;
	if (f->halving.window < f->halving.threshold)
		f->halving.window += packets;
	else
		f->halving.window += packets / f->halving.window;
	apply(f, c);
}

static void cut(struct foreign *f, struct vb_congestion *c, uint64_t now_ns)
{
	const uint64_t pause_ns = c->rtt_ns ? c->rtt_ns : ROUND_TRIP_NS;

	if (f->halving.cut_ns && now_ns - f->halving.cut_ns < pause_ns)
		return;
	f->halving.cut_ns = now_ns;
	f->halving.window /= 2;
	f->halving.threshold = f->halving.window > 2 ? f->halving.window : 2;
	apply(f, c);
}

static void timeout(struct foreign *f, struct vb_congestion *c)
{
	f->halving.threshold = f->halving.window / 2 > 2 ? f->halving.window / 2 : 2;
	f->halving.window = 1;
	apply(f, c);
}

const struct foreign_rules rules_halving = { init, acked, cut, cut, timeout };
