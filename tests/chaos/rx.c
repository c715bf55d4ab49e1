/* SPDX-License-Identifier: BSD-2-Clause */
#include "rx.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

void rx_open(struct rx *rx, struct rig *rig, unsigned depth, size_t stride)
{
	*rx = (struct rx){ .depth = depth, .stride = (stride + 63) & ~(size_t)63 };
	rx->ring_size = depth * rx->stride;
	rx->ring = mmap(NULL, rx->ring_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	CHECK(rx->ring != MAP_FAILED, "mmap: %s", strerror(errno));
	rx->mr = ibv_reg_mr(rig->pd, rx->ring, rx->ring_size, IBV_ACCESS_LOCAL_WRITE);
	CHECK(rx->mr, "ibv_reg_mr: %s", strerror(errno));
}

void rx_close(struct rx *rx)
{
	int err = ibv_dereg_mr(rx->mr);

	CHECK(!err, "ibv_dereg_mr: %s", strerror(err));
	munmap(rx->ring, rx->ring_size);
}

static unsigned free_slot(const struct rx *rx)
{
	unsigned i = (unsigned)(rx->posted % rx->depth);

	while (rx->serial[i])
		i = (i + 1) % rx->depth;
	return i;
}

void rx_post(struct rx *rx)
{
	unsigned slot = free_slot(rx);
	uint64_t serial = ++rx->posted;
	struct ibv_sge sge = { (uintptr_t)(rx->ring + slot * rx->stride), (uint32_t)rx->stride,
			       rx->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RX_FLAG | serial << 16 | slot,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct ibv_recv_wr *bad;
	int err;

	rx->serial[slot] = serial;
	rx->busy++;
	err = rx->srq ? ibv_post_srq_recv(rx->srq, &wr, &bad) : ibv_post_recv(rx->qp, &wr, &bad);
	CHECK(!err, "posting receive %llu with %u posted of %u: %s", (unsigned long long)serial,
	      rx->busy - 1, rx->depth, strerror(err));
}

void rx_fill(struct rx *rx)
{
	while (rx->busy < rx->depth)
		rx_post(rx);
}

uint8_t *rx_take(struct rx *rx, const struct ibv_wc *wc)
{
	unsigned slot = (unsigned)(wc->wr_id & 0xffff);
	uint64_t serial = (wc->wr_id & ~RX_FLAG) >> 16;

	CHECK(slot < rx->depth && serial && rx->serial[slot] == serial,
	      "receive %llu (%s) completed twice or was never posted", (unsigned long long)serial,
	      ibv_wc_status_str(wc->status));
	/* With one sender receives complete in post order. */
	CHECK(rx->shared || serial == rx->done + 1, "receive %llu completed before %llu",
	      (unsigned long long)serial, (unsigned long long)rx->done + 1);
	rx->serial[slot] = 0;
	rx->busy--;
	rx->done++;
	return rx->ring + slot * rx->stride;
}
