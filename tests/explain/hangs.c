/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that hang: after a second, one sentence says what they wait for. */
#include <stddef.h>

#include "rig.h"

enum { HANG_MS = 3000 };

static void open_patient(struct rig *rig, struct rig_plan *plan)
{
	plan->rnr_retry = 7;
	rig_open(rig, plan);
}

static void no_receive(void)
{
	struct rig_plan plan = rig_plan();
	struct rig rig;

	open_patient(&rig, &plan);
	rig_post(&rig, IBV_WR_SEND, 2, rig_sge(&rig.near, 8));
	rig_poll_ms(&rig.near, HANG_MS);
}

static void no_receive_for_imm(void)
{
	struct rig_plan plan = rig_plan();
	struct rig rig;

	open_patient(&rig, &plan);
	rig_post(&rig, IBV_WR_RDMA_WRITE_WITH_IMM, 2, rig_sge(&rig.near, 8));
	rig_poll_ms(&rig.near, HANG_MS);
}

static void wrong_number(void)
{
	struct rig_plan plan = rig_plan();
	struct rig rig;

	plan.timeout = 0;
	plan.dest_xor = 0x77;
	rig_open(&rig, &plan);
	rig_post(&rig, IBV_WR_SEND, 2, rig_sge(&rig.near, 8));
	rig_poll_ms(&rig.near, HANG_MS);
}

static void unsignalled(void)
{
	struct rig_plan plan = rig_plan();
	struct ibv_send_wr *bad, wr = { .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE };
	struct rig rig;

	rig_open(&rig, &plan);
	wr.wr.rdma.remote_addr = rig.far.addr;
	wr.wr.rdma.rkey = rig.far.rkey;
	if (ibv_post_send(rig.near.qp, &wr, &bad))
		rig_fail("ibv_post_send");
	rig_poll_ms(&rig.near, HANG_MS);
}

/* The service thread alone tries. */
static void no_receive_asleep(void)
{
	struct rig_plan plan = rig_plan();
	struct ibv_send_wr *bad, wr = { .wr_id = 2, .opcode = IBV_WR_SEND };
	struct rig rig;

	open_patient(&rig, &plan);
	if (ibv_post_send(rig.near.qp, &wr, &bad))
		rig_fail("ibv_post_send");
	rig_poll_ms(&rig.far_side, HANG_MS);
}

/* The completion lies in a CQ that no thread polls. */
static void other_cq(void)
{
	const struct rig_plan plan = rig_plan();
	struct rig_side watched;
	struct rig rig;

	rig_open(&rig, &plan);
	watched = rig.near;
	watched.cq = ibv_create_cq(rig.near.context, 4, NULL, NULL, 0);
	if (!watched.cq)
		rig_fail("ibv_create_cq");
	rig_post(&rig, IBV_WR_RDMA_WRITE, 2, rig_sge(&rig.near, 8));
	rig_poll_ms(&watched, HANG_MS);
}

#define WAITS "QP 0x[0-9a-f]{6}, SEND wr_id 2 has waited 1 s: "
#define TWICE "has waited 1 s.*2 times"

const struct rig_case rig_hang_cases[] = {
	{ "a SEND that finds no receive, for ever",
	  no_receive,
	  { WAITS "QP 0x[0-9a-f]{6} \\(this process\\) has posted no receive \\(rnr_retry 7: for "
		  "ever\\)" },
	  { WAITS "QP 0x[0-9a-f]{6} .*has posted no receive \\(rnr_retry 7: for ever\\)" },
	  TWICE },
	{ "a WRITE with immediate data that finds no receive",
	  no_receive_for_imm,
	  { "RDMA_WRITE_WITH_IMM wr_id 2 has waited 1 s: .*has posted no receive" },
	  { "RDMA_WRITE_WITH_IMM wr_id 2 has waited 1 s: .*has posted no receive" } },
	{ "a SEND that finds no receive while no thread polls",
	  no_receive_asleep,
	  { WAITS ".*has posted no receive" },
	  { WAITS ".*has posted no receive" } },
	{ "a wrong QP number and no timeout",
	  wrong_number,
	  { WAITS "there is no QP 0x[0-9a-f]{6}.*\\(timeout 0: for ever\\)" },
	  { WAITS ".*no answer from QP 0x[0-9a-f]{6}.*\\(timeout 0: for ever\\)",
	    "a packet from .* for QP 0x[0-9a-f]{6} is dropped: this process has no such QP" } },
	{ "a poll for a send that is not signalled",
	  unsignalled,
	  { "QP 0x[0-9a-f]{6}, RDMA_WRITE wr_id 2 is done for 1 s, and makes no completion: it was "
	    "posted without IBV_SEND_SIGNALED" },
	  { "RDMA_WRITE wr_id 2 is done for 1 s, and makes no completion" } },
	{ "a poll of another CQ",
	  other_cq,
	  { "CQ [0-9]+ holds 1 completion for 1 s, and no thread polls it; CQ [0-9]+ is polled, "
	    "and has none" },
	  { "CQ [0-9]+ holds 1 completion for 1 s, and no thread polls it; CQ [0-9]+ is polled" } },
	{ 0 },
};
