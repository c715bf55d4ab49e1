/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes: each side names the other, and says its own part. */
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

static void finish(struct rig *rig)
{
	rig_tell(rig);
	waitpid(rig->child, NULL, 0);
}

static void await_end(struct rig *rig)
{
	rig_await(rig);
}

/* Until its QP has failed, or there is nobody to answer. */
static void serve_failure(struct rig *rig)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	do {
		if (ibv_query_qp(rig->far_side.qp, &attr, IBV_QP_STATE, &init))
			rig_fail("ibv_query_qp");
	} while (attr.qp_state != IBV_QPS_ERR);
	rig_await(rig);
}

/* The far side of a failing request looks at its CQ until the near side is done. */
static void serve_short(struct rig *rig)
{
	rig_recv(&rig->far_side, 7, (uintptr_t)rig->far_side.buffer, 30, rig->far_side.mr->lkey);
	rig_tell(rig);
	rig_wait(&rig->far_side);
	serve_failure(rig);
}

static void far_short(void)
{
	const struct rig_plan plan = rig_plan();
	struct rig rig;

	rig_open_two(&rig, &plan, serve_short);
	rig_await(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, rig_sge(&rig.near, 40));
	rig_wait(&rig.near);
	finish(&rig);
}

static void far_right(void)
{
	struct rig_plan plan = rig_plan();
	struct rig rig;

	plan.far_access = 0;
	rig_open_two(&rig, &plan, serve_failure);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, rig_sge(&rig.near, 40));
	rig_wait(&rig.near);
	finish(&rig);
}

static void far_psn(void)
{
	struct rig_plan plan = rig_plan();
	struct rig rig;

	plan.timeout = 17;
	plan.sq_psn = 1234;
	rig_open_two(&rig, &plan, await_end);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, rig_sge(&rig.near, 40));
	if (rig_wait(&rig.near) != IBV_WC_RETRY_EXC_ERR)
		rig_fail("another status");
	finish(&rig);
}

static void far_init(void)
{
	struct rig_plan plan = rig_plan();
	struct rig rig;

	plan.timeout = 17;
	plan.far_state = IBV_QPS_INIT;
	rig_open_two(&rig, &plan, await_end);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, rig_sge(&rig.near, 40));
	if (rig_wait(&rig.near) != IBV_WC_RETRY_EXC_ERR)
		rig_fail("another status");
	finish(&rig);
}

static void far_number(void)
{
	struct rig_plan plan = rig_plan();
	struct rig rig;

	plan.timeout = 17;
	plan.dest_xor = 0x77;
	rig_open_two(&rig, &plan, await_end);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, rig_sge(&rig.near, 40));
	if (rig_wait(&rig.near) != IBV_WC_RETRY_EXC_ERR)
		rig_fail("another status");
	finish(&rig);
}

/* The near side takes its own rkey for that of the far side. */
static void far_own_key(void)
{
	const struct rig_plan plan = rig_plan();
	struct rig rig;

	rig_open_two(&rig, &plan, serve_failure);
	rig.far.rkey = rig.near.mr->rkey;
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, rig_sge(&rig.near, 40));
	if (rig_wait(&rig.near) != IBV_WC_REM_ACCESS_ERR)
		rig_fail("another status");
	finish(&rig);
}

/* The near side takes its own QP number for that of the far side. */
static void far_itself(void)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct rig_plan plan = rig_plan();
	struct rig rig;

	plan.timeout = 17;
	plan.sq_psn = 1234;
	rig_open_two(&rig, &plan, await_end);
	if (ibv_modify_qp(rig.near.qp, &reset, IBV_QP_STATE))
		rig_fail("the near QP cannot be reset");
	rig.far.qpn = rig.near.qp->qp_num;
	rig_connect(&rig.near, &plan, &rig.far, true);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, rig_sge(&rig.near, 40));
	if (rig_wait(&rig.near) != IBV_WC_RETRY_EXC_ERR)
		rig_fail("another status");
	finish(&rig);
}

/* The far side connects to another number than that of the near QP, or as another type. */
static void far_again(struct rig *rig, const struct rig_plan *plan, uint32_t xor)
{
	struct rig_far to = rig->far;
	struct rig_side side = { .context = rig->far_side.context };

	to.qpn ^= xor;
	rig_side_open(&side, plan);
	rig_connect(&side, plan, &to, false);
	if (write(rig->socket, &side.qp->qp_num, sizeof(side.qp->qp_num)) < 0)
		rig_fail("the other process is gone");
	rig_await(rig);
}

static void serve_other(struct rig *rig)
{
	const struct rig_plan plan = rig_plan();

	far_again(rig, &plan, 0x400);
}

static void serve_type(struct rig *rig)
{
	struct rig_plan plan = rig_plan();

	plan.type = IBV_QPT_UC;
	far_again(rig, &plan, 0);
}

/* The near QP is connected to the number that the far side tells later. */
static void near_again(void (*serve)(struct rig *rig))
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct rig_plan plan = rig_plan();
	struct rig rig;

	plan.timeout = 17;
	rig_open_two(&rig, &plan, serve);
	if (read(rig.socket, &rig.far.qpn, sizeof(rig.far.qpn)) != sizeof(rig.far.qpn) ||
	    ibv_modify_qp(rig.near.qp, &reset, IBV_QP_STATE))
		rig_fail("the near QP cannot be reset");
	rig_connect(&rig.near, &plan, &rig.far, true);
	rig_post(&rig, IBV_WR_SEND, 8, rig_sge(&rig.near, 40));
	if (rig_wait(&rig.near) != IBV_WC_RETRY_EXC_ERR)
		rig_fail("another status");
	finish(&rig);
}

static void far_other(void)
{
	near_again(serve_other);
}

static void far_type(void)
{
	near_again(serve_type);
}

static void far_gone(void)
{
	struct rig_plan plan = rig_plan();
	struct rig rig;

	rig_open_two(&rig, &plan, await_end);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 7, rig_sge(&rig.near, 40));
	rig_wait(&rig.near);
	finish(&rig);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, rig_sge(&rig.near, 40));
	if (rig_wait(&rig.near) != IBV_WC_RETRY_EXC_ERR)
		rig_fail("another status");
}

#define PEER "\\(pid [0-9]+, explain\\)"
/* Of who has come by himself: by process once this one has met it. */
#define COMER "\\((pid [0-9]+, explain|at [^)]+)\\)"

#define RECEIVE "QP 0x[0-9a-f]{6}, receive wr_id 7, for a message of QP 0x[0-9a-f]{6} " COMER ": "

const struct rig_case rig_pair_cases[] = {
	{ "both sides of a receive that is too short",
	  far_short,
	  { "SEND wr_id 8: the message has 40 bytes, the receive posted at QP 0x[0-9a-f]{6} " PEER
	    " has room for 30",
	    "QP 0x[0-9a-f]{6} has failed: it refused a request of QP 0x[0-9a-f]{6} " COMER
	    ": the message did not fit into the receive",
	    RECEIVE "the receive has room for 30 bytes, and 40 came" },
	  { "QP 0x[0-9a-f]{6} refuses a SEND of QP 0x[0-9a-f]{6} " PEER
	    ": the message has 40 bytes",
	    "SEND wr_id 8: QP 0x[0-9a-f]{6} " PEER " answered with a NAK, invalid request",
	    RECEIVE "the receive has room for 30 bytes, and more came" } },
	{ "both sides of a WRITE that is not allowed",
	  far_right,
	  { "RDMA_WRITE wr_id 8: qp_access_flags of QP 0x[0-9a-f]{6} " PEER
	    " lack IBV_ACCESS_REMOTE_WRITE \\(they have none\\)",
	    "it refused a request of QP 0x[0-9a-f]{6} " COMER
	    ": its qp_access_flags lack IBV_ACCESS_REMOTE_WRITE \\(they have none\\)" },
	  { "QP 0x[0-9a-f]{6} refuses a WRITE of QP 0x[0-9a-f]{6} " PEER
	    ": qp_access_flags of QP 0x[0-9a-f]{6} lack IBV_ACCESS_REMOTE_WRITE" } },
	{ "both sides of an rkey of the wrong process",
	  far_own_key,
	  { "RDMA_WRITE wr_id 8: no memory region of the peer has rkey 0x[0-9a-f]{8}: it is of a "
	    "region of the process that sends",
	    "QP 0x[0-9a-f]{6} has failed: it refused a request of .*: no memory region of this "
	    "process has rkey 0x" },
	  { "wr_id 8: QP 0x[0-9a-f]{6} " PEER " answered with a NAK, remote access error: .*; a "
	    "region of this process has that rkey",
	    "QP 0x[0-9a-f]{6} refuses a WRITE of .*: no memory region of this process has rkey" } },
	{ "a QP that is connected to itself",
	  far_itself,
	  { "RDMA_WRITE wr_id 8: QP 0x[0-9a-f]{6} \\(this QP itself\\) expects PSN" },
	  { "\\(this QP itself\\)" } },
	{ "both sides of a PSN that does not fit",
	  far_psn,
	  { "QP 0x[0-9a-f]{6} " PEER " expects PSN 1000 \\(its rq_psn\\), this QP starts at 1234" },
	  { "QP 0x[0-9a-f]{6} drops packets of QP 0x[0-9a-f]{6} " PEER
	    ": it expects PSN 1000 \\(its rq_psn\\), and 1234 came first",
	    "QP 0x[0-9a-f]{6}: QP 0x[0-9a-f]{6} answers that it expects PSN 1000 \\(its "
	    "rq_psn\\), this QP began with PSN 1234",
	    "RDMA_WRITE wr_id 8: no answer from QP 0x[0-9a-f]{6} " PEER } },
	{ "both sides of a QP that is not ready",
	  far_init,
	  { "QP 0x[0-9a-f]{6} " PEER " is in INIT: it did not reach RTR in time" },
	  { "a packet from [^ ]+ for QP 0x[0-9a-f]{6} is dropped: the QP is in INIT, and receives "
	    "from RTR on",
	    "RDMA_WRITE wr_id 8: no answer from QP 0x[0-9a-f]{6} " PEER } },
	{ "both sides of a wrong QP number",
	  far_number,
	  { "there is no QP 0x[0-9a-f]{6} " PEER
	    ": that process has destroyed it, or its number is wrong" },
	  { "a packet from [^ ]+ for QP 0x[0-9a-f]{6} is dropped: this process has no such QP",
	    "QP 0x[0-9a-f]{6}: QP 0x[0-9a-f]{6} has never answered; nothing comes from its "
	    "host" } },
	{ "a peer that is connected to another QP",
	  far_other,
	  { "QP 0x[0-9a-f]{6} " PEER " is connected to QP 0x[0-9a-f]{6}, not to this one" },
	  { "QP 0x[0-9a-f]{6} has never answered; answers come from its host for QP "
	    "0x[0-9a-f]{6}, which this process does not have: the peer may be connected to that "
	    "number" } },
	{ "a peer of another type",
	  far_type,
	  { "QP 0x[0-9a-f]{6} " PEER " has another transport type" },
	  { "a packet from [^ ]+ for QP 0x[0-9a-f]{6} is dropped: it is RC SEND_ONLY, and the "
	    "QP is of type UC" } },
	{ "the process of the peer has ended",
	  far_gone,
	  { "the process that owned QP 0x[0-9a-f]{6} \\(pid [0-9]+\\) has ended" },
	  { "the process that owned QP 0x[0-9a-f]{6} \\(pid [0-9]+\\) has ended" } },
	{ 0 },
};
