/* SPDX-License-Identifier: BSD-2-Clause */
/* The waits of a requester whose peer had no receive posted. */
#ifndef VB_WIRE_RNR_H
#define VB_WIRE_RNR_H

#include <stdint.h>

#include "base/adversary.h"

enum { VB_RNR_RETRY_FOREVER = 7 }; /* the value of rnr_retry without a limit; less is a count */

/*
 * Tries count only after this time. A receiver in software posts its next receive when it gets a
 * CPU, and the sender may be on that CPU. As with silence, less than 200 ms is no evidence. The
 * adversary counts every try, as a NIC does.
 */
static inline uint64_t vb_rnr_grace_ns(void)
{
	return vb_adversary_on() ? 0 : 200000000;
}

/* The five bits of min_rnr_timer and of RNR NAKs, IBA table 45: 10, 20, 30, 40, 60, 80 us ... */
static inline uint64_t vb_rnr_timer_ns(uint8_t code)
{
	code &= 31;
	if (code < 2)
		return code ? 10000 : 655360000; /* 1 is the shortest wait, 0 the longest */
	return (code & 1 ? 30000ull : 20000ull) << (code - 2) / 2;
}

#endif
