/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that fail: the numbers of a limit, the state that the object is in. */
#include <errno.h>
#include <stddef.h>

#include "rig.h"

static void begin(struct rig *rig)
{
	const struct rig_plan plan = rig_plan();

	rig_open(rig, &plan);
}

static void expect_error(int got, int wanted)
{
	if (got != wanted)
		rig_fail("another error than expected");
}

static int post_sges(struct rig *rig, int count, int flags, uint32_t length)
{
	struct ibv_sge sge[8];
	struct ibv_send_wr *bad, wr = { .wr_id = 3,
					.sg_list = sge,
					.num_sge = count,
					.opcode = IBV_WR_SEND,
					.send_flags = (unsigned)flags };

	for (int i = 0; i < count; i++)
		sge[i] = rig_sge(&rig->near, length);
	return ibv_post_send(rig->near.qp, &wr, &bad);
}

static void many_sges(void)
{
	struct rig rig;

	begin(&rig);
	expect_error(post_sges(&rig, 7, IBV_SEND_SIGNALED, 8), EINVAL);
}

static void long_inline(void)
{
	struct rig rig;

	begin(&rig);
	expect_error(post_sges(&rig, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE, 2000), EINVAL);
}

static void send_in_init(void)
{
	struct rig_plan plan = rig_plan();
	struct rig rig = { 0 };

	rig_side_open(&rig.near, &plan);
	plan.far_state = IBV_QPS_INIT;
	rig_connect(&rig.near, &plan, &rig.far, false);
	expect_error(post_sges(&rig, 1, IBV_SEND_SIGNALED, 8), EINVAL);
}

static void full_send_queue(void)
{
	struct rig rig;
	int err = 0;

	begin(&rig);
	for (int i = 0; i < 1000 && !err; i++)
		err = post_sges(&rig, 1, IBV_SEND_SIGNALED, 0);
	expect_error(err, ENOMEM);
}

static void unsignaled_queue(void)
{
	struct rig rig;
	int err = 0;

	begin(&rig);
	for (int i = 0; i < 1000 && !err; i++)
		err = post_sges(&rig, 1, 0, 0);
	expect_error(err, ENOMEM);
}

static void full_receive_queue(void)
{
	struct rig rig;
	struct ibv_sge sge;
	struct ibv_recv_wr *bad, wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 };
	int err = 0;

	begin(&rig);
	sge = rig_sge(&rig.near, 8);
	for (int i = 0; i < 100000 && !err; i++)
		err = ibv_post_recv(rig.near.qp, &wr, &bad);
	expect_error(err, ENOMEM);
	wr.num_sge = 77;
	expect_error(ibv_post_recv(rig.near.qp, &wr, &bad), EINVAL);
}

static void large_queues(void)
{
	const struct rig_plan plan = rig_plan();
	struct rig_side side = { 0 };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 10000000, .max_send_sge = 1 } };

	rig_side_open(&side, &plan);
	init.send_cq = init.recv_cq = side.cq;
	if (ibv_create_qp(side.pd, &init))
		rig_fail("a QP of ten million entries");
	if (ibv_create_cq(side.context, 100000000, NULL, NULL, 0))
		rig_fail("a CQ of a hundred million entries");
	if (ibv_reg_mr(side.pd, side.buffer, RIG_BYTES, IBV_ACCESS_REMOTE_WRITE))
		rig_fail("remote write without local write");
	if (ibv_reg_mr(side.pd, (void *)4096, 8192, IBV_ACCESS_LOCAL_WRITE))
		rig_fail("memory that does not exist");
}

static void srq_limits(void)
{
	struct ibv_srq_init_attr large = { .attr = { .max_wr = 100000000, .max_sge = 1 } };
	struct ibv_srq_init_attr wide = { .attr = { .max_wr = 4, .max_sge = 1000 } };
	struct rig rig;

	begin(&rig);
	if (ibv_create_srq(rig.near.pd, &large) || ibv_create_srq(rig.near.pd, &wide))
		rig_fail("an SRQ beyond the limits");
}

static void no_group(void)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e } };
	struct rig rig;

	begin(&rig);
	expect_error(ibv_attach_mcast(rig.near.qp, &group, 0), EINVAL);
}

static void modify_values(void)
{
	struct ibv_qp_attr attr = { .min_rnr_timer = 40 };
	struct rig rig;

	begin(&rig);
	expect_error(ibv_modify_qp(rig.near.qp, &attr, IBV_QP_MIN_RNR_TIMER), EINVAL);
}

static void no_objects(void)
{
	const struct rig_plan plan = rig_plan();
	struct ibv_parent_domain_init_attr domain = { 0 };
	struct ibv_alloc_dm_attr memory = { .length = 4096, .log_align_req = 40 };
	struct rig_side side = { 0 };

	rig_side_open(&side, &plan);
	if (ibv_alloc_parent_domain(side.context, &domain))
		rig_fail("a parent domain without PD");
	if (ibv_alloc_dm(side.context, &memory))
		rig_fail("an alignment of 2^40 bytes");
	expect_error(ibv_dealloc_pd(side.pd), EBUSY);
}

static void strange_posts(void)
{
	struct ibv_qp_attr attr = { .qp_state = 55 };
	struct ibv_send_wr *bad, wr = { .wr_id = 3, .opcode = IBV_WR_SEND, .send_flags = 1 << 12 };
	struct rig rig;

	begin(&rig);
	expect_error(ibv_post_send(rig.near.qp, &wr, &bad), EINVAL);
	wr.opcode = 99;
	expect_error(ibv_post_send(rig.near.qp, &wr, &bad), EINVAL);
	expect_error(ibv_modify_qp(rig.near.qp, &attr, IBV_QP_STATE), EINVAL);
}

static void long_message(void)
{
	struct rig rig;

	begin(&rig);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, rig_sge(&rig.near, 0x90000000));
	if (rig_wait(&rig.near) != IBV_WC_LOC_LEN_ERR)
		rig_fail("another status");
}

#define CALL "ibv_post_send: QP 0x[0-9a-f]{6} wr_id 3: "

const struct rig_case rig_call_cases[] = {
	{ "more elements than the queue takes",
	  many_sges,
	  { CALL "7 SGEs, max_send_sge of the QP is [0-9]+" } },
	{ "more inline data than the queue takes",
	  long_inline,
	  { CALL "2000 bytes inline, max_inline_data of the QP is [0-9]+" } },
	{ "a send to a QP that is not connected",
	  send_in_init,
	  { CALL "the QP is in INIT, and sends from RTS on" } },
	{ "a send queue that is full",
	  full_send_queue,
	  { "ibv_post_send: QP 0x[0-9a-f]{6}: all [0-9]+ entries \\(max_send_wr\\) are in use; an "
	    "entry is free again when a completion" } },
	{ "a send queue that is full, and nothing is signaled",
	  unsignaled_queue,
	  { "all [0-9]+ entries \\(max_send_wr\\) are in use; none of them is signaled "
	    "\\(IBV_SEND_SIGNALED\\)" } },
	{ "a receive queue that is full",
	  full_receive_queue,
	  { "ibv_post_recv: QP 0x[0-9a-f]{6} wr_id 3: all [0-9]+ entries \\(max_recv_wr\\) are in "
	    "use",
	    "ibv_post_recv: QP 0x[0-9a-f]{6} wr_id 3: 77 SGEs, max_recv_sge of the queue is "
	    "[0-9]+" } },
	{ "limits of the device",
	  large_queues,
	  { "ibv_create_qp: max_send_wr 10000000 is more than the device's [0-9]+",
	    "ibv_create_cq: cqe 100000000 must be 1 to [0-9]+",
	    "memory region: IBV_ACCESS_REMOTE_WRITE and IBV_ACCESS_REMOTE_ATOMIC need ",
	    "memory region: the range 0x1000 \\+ 8192 is not writable memory of this process" } },
	{ "limits of an SRQ",
	  srq_limits,
	  { "ibv_create_srq: max_wr 100000000 must be 1 to [0-9]+",
	    "ibv_create_srq: max_sge 1000 is more than the device's [0-9]+" } },
	{ "a group, and a QP that is not UD",
	  no_group,
	  { "ibv_attach_mcast: QP 0x[0-9a-f]{6} is not a UD QP" } },
	{ "objects that are not there, and those that keep a PD",
	  no_objects,
	  { "ibv_alloc_parent_domain: the PD is NULL",
	    "ibv_alloc_dm: .*length 4096 must be 1 to [0-9]+ .*log_align_req 40 at most [0-9]+",
	    "ibv_dealloc_pd: 2 objects still belong to the PD: 1 MR, 1 QP" } },
	{ "a flag, an opcode and a state that nobody knows",
	  strange_posts,
	  { CALL "send_flags 0x1000: IBV_SEND flags beyond 0x[0-9a-f]+ are not supported",
	    CALL "opcode 99 \\(.*\\) is not one of this device",
	    "ibv_modify_qp: QP 0x[0-9a-f]{6}: qp_state 55 is no state of a QP" } },
	{ "a message that is too long",
	  long_message,
	  { "RDMA_WRITE wr_id 8: the message has 2415919104 bytes, max_msg_sz is 2147483648" },
	  { "RDMA_WRITE wr_id 8: the message has 2415919104 bytes, max_msg_sz is 2147483648" } },
	{ "an attribute that is too large",
	  modify_values,
	  { "ibv_modify_qp: QP 0x[0-9a-f]{6}: min_rnr_timer is 40, at most 31 is allowed" } },
	{ 0 },
};
