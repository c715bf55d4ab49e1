/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Static rates: the codes of the address vector, as multiples of 2.5 Gb/s and in Mb/s. The lanes of
 * FDR and EDR run at 14.0625 and 25.78125 Gb/s: such rates are no multiples (-1).
 */
#include "nic/rate.h"

#include <stddef.h>

#include "nic/qp.h"

static const struct vb_rate rates[] = {
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

static const struct vb_rate unknown = { IBV_RATE_MAX, -1, -1 };

#define FIND(field, value)                                            \
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) \
		if ((int)rates[i].field == (value))                   \
			return &rates[i];                             \
	return &unknown

const struct vb_rate *vb_rate_by_code(int code)
{
	FIND(code, code);
}

const struct vb_rate *vb_rate_by_multiple(int multiple)
{
	FIND(multiple, multiple);
}

const struct vb_rate *vb_rate_by_mbps(int mbps)
{
	FIND(mbps, mbps);
}

/* --- of a QP --- */

void vb_qp_settle_rate(struct vb_qp *qp)
{
	atomic_store(&qp->rate_kbps, vb_rate_slower(qp->limit_kbps, qp->av.rate_kbps));
}

void vb_qp_limit_rate(struct vb_qp *qp, uint32_t kbps, uint32_t burst_bytes)
{
	vb_spin_lock(&qp->state_lock);
	qp->limit_kbps = kbps;
	atomic_store(&qp->rate_burst_bytes, burst_bytes);
	vb_qp_settle_rate(qp);
	vb_spin_unlock(&qp->state_lock);
}
