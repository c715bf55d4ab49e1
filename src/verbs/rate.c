/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Static rates: the codes of the address vector, as multiples of 2.5 Gb/s and in Mb/s. The lanes
 * of FDR and EDR run at 14.0625 and 25.78125 Gb/s: rates that are not multiples have none (-1).
 */
#include <infiniband/verbs.h>
#include <stddef.h>

#include "verbs/symver.h"

struct rate {
	enum ibv_rate code;
	int multiple;
	int mbps;
};

static const struct rate rates[] = {
	/* SDR, DDR and QDR */
	{ IBV_RATE_2_5_GBPS, 1, 2500 },
	{ IBV_RATE_5_GBPS, 2, 5000 },
	{ IBV_RATE_10_GBPS, 4, 10000 },
	{ IBV_RATE_20_GBPS, 8, 20000 },
	{ IBV_RATE_30_GBPS, 12, 30000 },
	{ IBV_RATE_40_GBPS, 16, 40000 },
	{ IBV_RATE_60_GBPS, 24, 60000 },
	{ IBV_RATE_80_GBPS, 32, 80000 },
	{ IBV_RATE_120_GBPS, 48, 120000 },
	/* FDR: one, four, eight and twelve lanes */
	{ IBV_RATE_14_GBPS, -1, 14062 },
	{ IBV_RATE_56_GBPS, -1, 56250 },
	{ IBV_RATE_112_GBPS, -1, 112500 },
	{ IBV_RATE_168_GBPS, -1, 168750 },
	/* EDR */
	{ IBV_RATE_25_GBPS, -1, 25781 },
	{ IBV_RATE_100_GBPS, -1, 103125 },
	{ IBV_RATE_200_GBPS, -1, 206250 },
	{ IBV_RATE_300_GBPS, -1, 309375 },
	/* two lanes of FDR, then HDR and NDR: the multiple is rounded */
	{ IBV_RATE_28_GBPS, 11, 28125 },
	{ IBV_RATE_50_GBPS, 20, 53125 },
	{ IBV_RATE_400_GBPS, 160, 425000 },
	{ IBV_RATE_600_GBPS, 240, 637500 },
	{ IBV_RATE_800_GBPS, 320, 850000 },
	{ IBV_RATE_1200_GBPS, 480, 1275000 },
};

static const struct rate unknown = { IBV_RATE_MAX, -1, -1 };

#define FIND(field, value)                                            \
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) \
		if (rates[i].field == (value))                        \
			return &rates[i];                             \
	return &unknown

static const struct rate *by_code(enum ibv_rate code)
{
	FIND(code, code);
}

static const struct rate *by_multiple(int multiple)
{
	FIND(multiple, multiple);
}

static const struct rate *by_mbps(int mbps)
{
	FIND(mbps, mbps);
}

VB_PUBLIC int ibv_rate_to_mult(enum ibv_rate rate)
{
	return by_code(rate)->multiple;
}

VB_PUBLIC enum ibv_rate mult_to_ibv_rate(int mult)
{
	/* -1 is "none" in the table, not a multiple to look for. */
	return mult > 0 ? by_multiple(mult)->code : IBV_RATE_MAX;
}

VB_PUBLIC int ibv_rate_to_mbps(enum ibv_rate rate)
{
	return by_code(rate)->mbps;
}

VB_PUBLIC enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	return by_mbps(mbps)->code;
}
