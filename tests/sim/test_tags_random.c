/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching against a peer and an application that do anything at any time: messages that
 * match, that do not, that break the rules or never end, tags that come and go. Whatever happens,
 * each tag that was added ends once: it completes, it is removed, or it is still in the list.
 */
#include <endian.h>
#include <infiniband/tm_types.h>

#include "nic/tm.h"
#include "rig_case.h"
#include "rng.h"

enum { SEEDS = 600, STEPS = 200, TAGS = 4, HANDLES = 64, TAGGED = 5000, RULE_BREAKERS = 300 };

static struct {
	struct rng rng;
	uint64_t seed;
	uint32_t handles[HANDLES];
	unsigned handle_count;
	int added, removed, ended;
} world;

static uint32_t below(uint32_t end)
{
	return rng_below(&world.rng, end);
}

static bool once_in(uint32_t times)
{
	return !below(times);
}

/* --- the application --- */

static void add_tag(void)
{
	struct ibv_sge sge[2] = {
		{ (uintptr_t)rig.region + 8192, 1000 + below(4000), rig.mr->ibv.lkey },
		{ (uintptr_t)rig.region + 20000, below(100), rig.mr->ibv.lkey },
	};
	struct ibv_ops_wr op = { .opcode = IBV_WR_TAG_ADD,
				 .flags = (once_in(2) ? IBV_OPS_SIGNALED : 0) | IBV_OPS_TM_SYNC };

	sge[1].lkey ^= once_in(RULE_BREAKERS) ? 0x100 : 0;
	op.tm.unexpected_cnt = once_in(3) ? below(5) : rig.srq->tm->unexpected;
	op.tm.add.recv_wr_id = TAGGED;
	op.tm.add.sg_list = sge;
	op.tm.add.num_sge = (int)(1 + below(2));
	op.tm.add.tag = below(TAGS);
	op.tm.add.mask = UINT64_MAX;
	if (vb_tm_post(rig.srq->tm, &op))
		return;
	world.added++;
	world.handles[world.handle_count++ % HANDLES] = op.tm.handle;
}

static bool is_listed(uint32_t handle)
{
	vb_list_for(tag, &rig.srq->tm->tags, struct vb_tag, node)
		if (tag->handle == handle)
			return tag->state == VB_TAG_LISTED || tag->state == VB_TAG_IDLE;
	return false;
}

static void remove_tag(void)
{
	struct ibv_ops_wr op = { .opcode = IBV_WR_TAG_DEL };
	bool listed;

	op.tm.handle = once_in(5) ? below(1 << 20) : world.handles[below(HANDLES)];
	listed = is_listed(op.tm.handle);
	world.removed += !vb_tm_post(rig.srq->tm, &op) && listed;
}

static void poll_all(void)
{
	struct ibv_wc wc;

	while (vb_cq_poll(rig.cq, 1, &wc) == 1)
		world.ended +=
			wc.wr_id == TAGGED && (wc.status || wc.wc_flags & IBV_WC_TM_DATA_VALID);
}

static void receive(void)
{
	if (vb_rq_held(&rig.srq->rq) < rig.srq->rq.depth)
		rig_post_recv(&rig, once_in(RULE_BREAKERS) ? 64 : 4096);
}

static void send_message(void)
{
	if (!vb_sq_full(&rig.qp->sq) && vb_qp_state(rig.qp) == IBV_QPS_RTS)
		rig_post(&rig, IBV_WR_SEND, below(3000), once_in(2) ? IBV_SEND_SIGNALED : 0);
}

static void break_down(void)
{
	rig_modify(&rig, IBV_QPS_ERR);
	vb_roce_post(rig.wired);
	rig_turn(&rig);
}

static void break_down_sometimes(void)
{
	if (once_in(RULE_BREAKERS))
		break_down();
}

/* --- the peer --- */

static uint8_t next_opcode(void)
{
	static const uint8_t begin[] = { VB_OP_SEND_ONLY, VB_OP_SEND_FIRST, VB_OP_SEND_ONLY_IMM,
					 VB_OP_WRITE_ONLY_IMM };
	static const uint8_t go_on[] = { VB_OP_SEND_MIDDLE, VB_OP_SEND_LAST, VB_OP_SEND_LAST_IMM };
	bool within = rig.wired->resp.family == VB_FAMILY_SEND;

	if (once_in(RULE_BREAKERS))
		within = !within;
	return within ? go_on[below(3)] : begin[below(4)];
}

static void message(void)
{
	const uint8_t opcode = next_opcode();
	const bool whole = opcode == VB_OP_SEND_FIRST || opcode == VB_OP_SEND_MIDDLE;
	struct ibv_tmh header = { .opcode = (uint8_t)below(4), .tag = htobe64(below(TAGS)) };
	const struct ibv_rvh data = { htobe64(0x1000), htobe32(0x55),
				      htobe32(once_in(RULE_BREAKERS) ? UINT32_MAX : below(900)) };
	uint32_t length = whole ? RIG_MTU : 16 + below(600), psn = rig.wired->resp.expected_psn;

	if (opcode == VB_OP_SEND_FIRST && header.opcode == IBV_TMH_RNDV)
		header.opcode = IBV_TMH_EAGER;
	if (header.opcode == IBV_TMH_RNDV && opcode != VB_OP_SEND_LAST)
		length = whole ? length : 32 + below(33);
	if (once_in(RULE_BREAKERS)) {
		header.opcode = (uint8_t)below(256);
		length = below(40);
	}
	memcpy(rig.payload, &header, sizeof(header));
	memcpy(rig.payload + sizeof(header), &data, sizeof(data));
	rig_give_op(&rig, opcode, (psn + (once_in(30) ? below(4) - 2 : 0)) & VB_PSN_MASK, length);
	rig_turn(&rig);
}

static void answer_read(const struct vb_packet *request)
{
	uint32_t psn = request->psn, left = request->dma_length;
	bool first = true;

	do {
		uint32_t part = left < RIG_MTU ? left : RIG_MTU;
		bool last = part == left;

		rig_give_response(
			&rig,
			first ? (last ? VB_OP_READ_RESPONSE_ONLY : VB_OP_READ_RESPONSE_FIRST)
			      : (last ? VB_OP_READ_RESPONSE_LAST : VB_OP_READ_RESPONSE_MIDDLE),
			psn++, part);
		left -= part;
		first = false;
	} while (left);
}

static void answer(void)
{
	while (rig.out_head != rig.out_tail) {
		const struct vb_packet packet = rig_take(&rig);

		if (packet.opcode == VB_OP_READ_REQUEST && once_in(RULE_BREAKERS))
			rig_ack(&rig, packet.psn, VB_NAK_ACCESS);
		else if (packet.opcode == VB_OP_READ_REQUEST)
			answer_read(&packet);
		else if (packet.opcode <= VB_OP_SEND_ONLY && !once_in(20))
			rig_ack(&rig, packet.psn, VB_CREDITS_NONE);
		rig_turn(&rig);
	}
}

/* --- */

static void check_end(void)
{
	int left = 0;

	break_down();
	poll_all();
	vb_list_for(tag, &rig.srq->tm->tags, struct vb_tag, node) {
		assert_true(tag->state == VB_TAG_LISTED || tag->state == VB_TAG_IDLE);
		left++;
	}
	assert_int_equal(world.added, world.ended + world.removed + left);
	assert_int_equal(atomic_load(&rig.qp->sq.internal), 0);
}

static void run(uint64_t seed)
{
	static void (*const steps[])(
		void) = { add_tag,  add_tag,      remove_tag, receive,
			  poll_all, send_message, answer,     break_down_sometimes,
			  message,  message,      message };

	memset(&world, 0, sizeof(world));
	world.seed = seed;
	world.rng.state = seed;
	rig_defaults(&rig, IBV_QPT_RC);
	rig.with_srq = rig.with_tags = true;
	rig_open(&rig);
	for (int i = 0; i < STEPS; i++)
		steps[below(sizeof(steps) / sizeof(*steps))]();
	check_end();
	rig_close(&rig);
}

static void each_tag_ends_once(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		run(seed);
}

/* An argument is the one seed to run. */
int main(int count, char **words)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_tag_ends_once) };

	if (count > 1) {
		run(strtoull(words[1], NULL, 10));
		return 0;
	}
	count = cmocka_run_group_tests(tests, NULL, NULL);
	if (count)
		print_message("# seed %llu\n", (unsigned long long)world.seed);
	return count;
}
