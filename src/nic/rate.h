/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rates: the codes of static rates, and the rate that a QP keeps on the wire. The rate of a QP is
 * the slower of its limit (ibv_modify_qp_rate_limit) and the static rate of its path. Datagrams
 * have the static rate of their address handle. Frames of raw packet QPs have the limit of the QP.
 */
#ifndef VB_NIC_RATE_H
#define VB_NIC_RATE_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct vb_qp;

struct vb_rate {
	enum ibv_rate code;
	int multiple; /* of 2.5 Gb/s; -1: the rate is no multiple */
	int mbps;
};

/* Never NULL: without a match the code is IBV_RATE_MAX, and the numbers are -1. */
const struct vb_rate *vb_rate_by_code(int code);
const struct vb_rate *vb_rate_by_multiple(int multiple);
const struct vb_rate *vb_rate_by_mbps(int mbps);

/* The slower of two rates; 0 is no rate. */
static inline uint32_t vb_rate_slower(uint32_t a_kbps, uint32_t b_kbps)
{
	if (!a_kbps || !b_kbps)
		return a_kbps | b_kbps;
	return a_kbps < b_kbps ? a_kbps : b_kbps;
}

/* --- keeping to a rate --- */

/* Each packet costs the time that it takes at its rate. */
struct vb_rate_paid {
	uint64_t until_ns; /* time until which the packets sent take */
	uint32_t kbps;     /* the QP's rate at that payment */
};

/* The packets sent may be ahead of the clock by this time, one burst. */
uint64_t vb_rate_burst_ns(const struct vb_qp *qp, uint32_t kbps);
/* 0: a packet may leave now; or the time at which to try again. */
uint64_t vb_rate_wait_ns(const struct vb_qp *qp, struct vb_rate_paid *paid, uint32_t kbps,
			 uint64_t now_ns);
void vb_rate_pay(struct vb_rate_paid *paid, uint32_t size, uint32_t kbps);

/* --- the rate of a QP --- */

/* Sets the application's limit; 0: none. burst_bytes 0: the default. */
void vb_qp_limit_rate(struct vb_qp *qp, uint32_t kbps, uint32_t burst_bytes);
/* Computes the rate anew: the limit or the path has changed. Under state_lock. */
void vb_qp_settle_rate(struct vb_qp *qp);

#endif
