/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Static rates: the codes of the address vector, as multiples of 2.5 Gb/s and in Mb/s. The lanes of
 * FDR and EDR run at 14.0625 and 25.78125 Gb/s: such rates are no multiples (-1).
 */
#include "nic/rate.h"

#include <stddef.h>

#include "nic/qp.h"

enum {
	BURST_DEFAULT_BYTES = 32 << 10,
	BURST_DEFAULT_NS = 200000, /* a burst lasts at least as long as a timer may be late */
};

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

/* --- keeping to a rate --- */

static uint64_t bytes_time_ns(uint64_t bytes, uint32_t kbps)
{
	return bytes * 8000000 / kbps;
}

uint64_t vb_rate_burst_ns(const struct vb_qp *qp, uint32_t kbps)
{
	uint32_t burst = atomic_load(&qp->rate_burst_bytes);
	uint64_t burst_ns = bytes_time_ns(burst ? burst : (uint32_t)BURST_DEFAULT_BYTES, kbps);

	return burst || burst_ns > BURST_DEFAULT_NS ? burst_ns : BURST_DEFAULT_NS;
}

uint64_t vb_rate_wait_ns(const struct vb_qp *qp, struct vb_rate_paid *paid, uint32_t kbps,
			 uint64_t now_ns)
{
	uint64_t burst_ns = vb_rate_burst_ns(qp, kbps);
	uint32_t own_kbps = atomic_load_explicit(&qp->rate_kbps, memory_order_relaxed);

	/* A time that was paid at another rate of the QP does not count. */
	if (paid->until_ns < now_ns || paid->kbps != own_kbps)
		paid->until_ns = now_ns;
	paid->kbps = own_kbps;
	/* The timer waits for half a burst, not for each packet. */
	return paid->until_ns > now_ns + burst_ns ? paid->until_ns - burst_ns / 2 : 0;
}

void vb_rate_pay(struct vb_rate_paid *paid, uint32_t size, uint32_t kbps)
{
	paid->until_ns += bytes_time_ns(size, kbps);
}

/* --- of a QP --- */

void vb_qp_settle_rate(struct vb_qp *qp)
{
	/* Relaxed: the executor takes the old rate or the new one. */
	atomic_store_explicit(&qp->rate_kbps, vb_rate_slower(qp->limit_kbps, qp->av.rate_kbps),
			      memory_order_relaxed);
}

void vb_qp_limit_rate(struct vb_qp *qp, uint32_t kbps, uint32_t burst_bytes)
{
	vb_spin_lock(&qp->state_lock);
	qp->limit_kbps = kbps;
	atomic_store(&qp->rate_burst_bytes, burst_bytes);
	vb_qp_settle_rate(qp);
	vb_spin_unlock(&qp->state_lock);
}
