/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receive queue, of one QP or shared, and the record of its receives: each slot is either free or
 * posted under a wr_id that was never used before, and each wr_id comes back exactly once.
 */
#ifndef CHAOS_RX_H
#define CHAOS_RX_H

#include "rig.h"
#include "tx.h"

struct rx {
	struct ibv_qp *qp; /* one of the two */
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *ring;
	size_t stride, ring_size;
	unsigned depth;
	uint64_t serial[DEPTH_MAX]; /* 0: free; else the serial it is posted under */
	uint64_t posted, done;
	bool shared;   /* has many senders: a receive that a dying one had taken comes back later */
	unsigned busy; /* receives posted and not yet completed */
};

#define RX_FLAG (1ull << 63)

void rx_open(struct rx *rx, struct rig *rig, unsigned depth, size_t stride);
void rx_close(struct rx *rx);
void rx_post(struct rx *rx);
void rx_fill(struct rx *rx);
/* Checks that this receive was posted and not completed before; gives its buffer. */
uint8_t *rx_take(struct rx *rx, const struct ibv_wc *wc);

#endif
