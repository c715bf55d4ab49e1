/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows that cannot be bound; sends that are flushed. */
#include <stddef.h>

#include "rig.h"

/* Binds a window of the near side, of 64 bytes behind the start of a region of 4,096. */
static void bind(int region_access, uint64_t behind)
{
	const struct rig_plan plan = rig_plan();
	struct ibv_mw_bind request = { .wr_id = 3, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mr *region;
	struct ibv_mw *window;
	struct rig rig;

	rig_open(&rig, &plan);
	region = ibv_reg_mr(rig.near.pd, rig.near.buffer, 4096, region_access);
	window = ibv_alloc_mw(rig.near.pd, IBV_MW_TYPE_1);
	if (!region || !window)
		rig_fail("a region and a window");
	request.bind_info = (struct ibv_mw_bind_info){ region, (uintptr_t)rig.near.buffer + behind,
						       64, IBV_ACCESS_REMOTE_WRITE };
	if (ibv_bind_mw(rig.near.qp, window, &request) || rig_wait(&rig.near) != IBV_WC_MW_BIND_ERR)
		rig_fail("another status");
}

static void no_right(void)
{
	bind(RIG_ALL, 0);
}

static void outside(void)
{
	bind(RIG_ALL | IBV_ACCESS_MW_BIND, 4090);
}

static void bound_region(void)
{
	const struct rig_plan plan = rig_plan();
	struct ibv_mw_bind request = { .wr_id = 3, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mr *region;
	struct rig rig;

	rig_open(&rig, &plan);
	region = ibv_reg_mr(rig.near.pd, rig.near.buffer, 4096, RIG_ALL | IBV_ACCESS_MW_BIND);
	request.bind_info = (struct ibv_mw_bind_info){ region, (uintptr_t)rig.near.buffer, 64,
						       IBV_ACCESS_REMOTE_WRITE };
	if (ibv_bind_mw(rig.near.qp, ibv_alloc_mw(rig.near.pd, IBV_MW_TYPE_1), &request) ||
	    rig_wait(&rig.near) || !ibv_dereg_mr(region))
		rig_fail("a region with a window");
}

/* The first send fails, the second is flushed. */
static void flushed(void)
{
	const struct rig_plan plan = rig_plan();
	struct rig rig;

	rig_open(&rig, &plan);
	rig.far.rkey ^= 0x100;
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, rig_sge(&rig.near, 8));
	rig_wait(&rig.near);
	rig_post(&rig, IBV_WR_RDMA_READ, 9, rig_sge(&rig.near, 8));
	if (rig_wait(&rig.near) != IBV_WC_WR_FLUSH_ERR)
		rig_fail("another status");
}

static void moved_to_error(void)
{
	const struct rig_plan plan = rig_plan();
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct rig rig;

	rig_open(&rig, &plan);
	if (ibv_modify_qp(rig.near.qp, &attr, IBV_QP_STATE))
		rig_fail("ibv_modify_qp");
	rig_post(&rig, IBV_WR_SEND, 9, rig_sge(&rig.near, 8));
	if (rig_wait(&rig.near) != IBV_WC_WR_FLUSH_ERR)
		rig_fail("another status");
}

#define BOTH(...)           \
	{ __VA_ARGS__ },    \
	{                   \
		__VA_ARGS__ \
	}
#define FLUSHED " wr_id 9 is flushed, and so are all behind it: the QP is in ERR"

const struct rig_case rig_window_cases[] = {
	{ "a window of a region without the right", no_right,
	  BOTH("BIND_MW wr_id 3: the region with lkey 0x[0-9a-f]{8} was registered without "
	       "IBV_ACCESS_MW_BIND") },
	{ "a window outside of its region", outside,
	  BOTH("BIND_MW wr_id 3: 64 bytes at 0x[0-9a-f]+ are not inside the region with lkey "
	       "0x[0-9a-f]{8} \\(4096 bytes at 0x[0-9a-f]+\\)") },
	{ "a region that has a window",
	  bound_region,
	  { "ibv_dereg_mr: memory windows are bound to the region with lkey 0x[0-9a-f]{8}" },
	  .never = ": a memory window is bound" },
	{ "a send behind one that has failed", flushed,
	  BOTH("RDMA_READ" FLUSHED " since RDMA_WRITE wr_id 8 failed") },
	{ "a send to a QP that the program moved to ERR", moved_to_error,
	  BOTH("SEND" FLUSHED ": the program or its connection manager moved it there") },
	{ 0 },
};
