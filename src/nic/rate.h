/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rates: the codes of static rates, and the rate that a QP keeps on the wire. The rate of a QP is
 * the slower of its limit (ibv_modify_qp_rate_limit) and the static rate of its path. Datagrams
 * have the static rate of their address handle.
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

/* Sets the application's limit; 0: none. burst_bytes 0: the default. */
void vb_qp_limit_rate(struct vb_qp *qp, uint32_t kbps, uint32_t burst_bytes);
/* Computes the rate anew: the limit or the path has changed. Under state_lock. */
void vb_qp_settle_rate(struct vb_qp *qp);

#endif
