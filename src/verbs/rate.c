/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversions between codes of static rates, multiples of 2.5 Gb/s and Mb/s. */
#include "nic/rate.h"

#include "base/symver.h"

VB_PUBLIC int ibv_rate_to_mult(enum ibv_rate rate)
{
	return vb_rate_by_code((int)rate)->multiple;
}

VB_PUBLIC enum ibv_rate mult_to_ibv_rate(int mult)
{
	/* -1 is "none" in the table, not a multiple to look for. */
	return mult > 0 ? vb_rate_by_multiple(mult)->code : IBV_RATE_MAX;
}

VB_PUBLIC int ibv_rate_to_mbps(enum ibv_rate rate)
{
	return vb_rate_by_code((int)rate)->mbps;
}

VB_PUBLIC enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	return vb_rate_by_mbps(mbps)->code;
}
