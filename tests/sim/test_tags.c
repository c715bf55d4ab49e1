/* SPDX-License-Identifier: BSD-2-Clause */
/* Tag matching, packet by packet: what a message that never ends leaves behind. */
#include <endian.h>
#include <infiniband/tm_types.h>

#include "nic/tm.h"
#include "rig_case.h"

enum { TAG = 0x77, HEADER = sizeof(struct ibv_tmh) };

static void open_tags(void)
{
	rig.with_srq = rig.with_tags = true;
	rig_open(&rig);
}

static uint32_t add(uint64_t tag)
{
	struct ibv_sge sge = { (uintptr_t)rig.region + 8192, 4 * RIG_MTU, rig.mr->ibv.lkey };
	struct ibv_ops_wr op = { .opcode = IBV_WR_TAG_ADD };

	op.tm.add.recv_wr_id = tag;
	op.tm.add.sg_list = &sge;
	op.tm.add.num_sge = 1;
	op.tm.add.tag = tag;
	op.tm.add.mask = UINT64_MAX;
	assert_int_equal(vb_tm_post(rig.srq->tm, &op), 0);
	return op.tm.handle;
}

static int post_op(enum ibv_ops_wr_opcode opcode, uint32_t handle, uint32_t unexpected)
{
	struct ibv_ops_wr op = { .opcode = opcode, .flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC };

	op.tm.handle = handle;
	op.tm.unexpected_cnt = unexpected;
	return vb_tm_post(rig.srq->tm, &op);
}

static void give_tagged(uint8_t operation, uint32_t psn, uint8_t opcode, uint64_t tag,
			uint32_t length)
{
	const struct ibv_tmh header = { .opcode = opcode, .tag = htobe64(tag) };

	memcpy(rig.payload, &header, sizeof(header));
	rig_give_op(&rig, operation, psn, length);
	rig_turn(&rig);
}

static void fail_qp(void)
{
	rig_modify(&rig, IBV_QPS_ERR);
	vb_roce_post(rig.wired);
	rig_turn(&rig);
}

static struct ibv_wc expect(enum ibv_wc_opcode opcode, enum ibv_wc_status status, unsigned flags)
{
	struct ibv_wc wc = rig_poll(&rig);

	assert_int_equal(wc.opcode, opcode);
	assert_int_equal(wc.status, status);
	if (status == IBV_WC_SUCCESS)
		assert_int_equal(wc.wc_flags, flags);
	return wc;
}

static void a_message_of_several_packets_is_matched_once(void **state)
{
	struct ibv_wc wc;

	(void)state;
	open_tags();
	add(TAG);
	add(TAG);
	give_tagged(VB_OP_SEND_FIRST, RIG_RQ_PSN, IBV_TMH_EAGER, TAG, RIG_MTU);
	rig_give_op(&rig, VB_OP_SEND_MIDDLE, RIG_RQ_PSN + 1, RIG_MTU);
	rig_poll_none(&rig);
	rig_give_op(&rig, VB_OP_SEND_LAST, RIG_RQ_PSN + 2, 5);
	wc = expect(IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
	assert_int_equal(wc.byte_len, 2 * RIG_MTU + 5 - HEADER);
	assert_memory_equal(rig.region + 8192, rig.payload + HEADER, RIG_MTU - HEADER);
	assert_memory_equal(rig.region + 8192 + RIG_MTU - HEADER, rig.payload, RIG_MTU);
	rig_poll_none(&rig);
}

/* A duplicate of what was matched takes no second tag. */
static void a_duplicate_matches_nothing(void **state)
{
	(void)state;
	open_tags();
	add(TAG);
	add(TAG);
	give_tagged(VB_OP_SEND_ONLY, RIG_RQ_PSN, IBV_TMH_EAGER, TAG, 64);
	expect(IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
	give_tagged(VB_OP_SEND_ONLY, RIG_RQ_PSN, IBV_TMH_EAGER, TAG, 64);
	rig_poll_none(&rig);
}

static void a_tag_whose_message_never_ends_is_there_for_others(void **state)
{
	(void)state;
	open_tags();
	add(TAG);
	give_tagged(VB_OP_SEND_FIRST, RIG_RQ_PSN, IBV_TMH_EAGER, TAG, RIG_MTU);
	assert_null(vb_tm_match(rig.srq->tm, TAG));
	fail_qp();
	assert_non_null(vb_tm_match(rig.srq->tm, TAG));
	rig_poll_none(&rig);
}

/* It was told that a message had it: so it hears of it, whatever becomes of the message. */
static void a_removal_that_came_too_late_is_followed_by_a_completion(void **state)
{
	uint32_t handle;

	(void)state;
	open_tags();
	handle = add(TAG);
	give_tagged(VB_OP_SEND_FIRST, RIG_RQ_PSN, IBV_TMH_EAGER, TAG, RIG_MTU);
	assert_int_equal(post_op(IBV_WR_TAG_DEL, handle, 0), 0);
	expect(IBV_WC_TM_DEL, IBV_WC_TM_ERR, 0);
	fail_qp();
	assert_int_equal(expect(IBV_WC_TM_RECV, IBV_WC_WR_FLUSH_ERR, 0).wr_id, TAG);
	assert_null(vb_tm_match(rig.srq->tm, TAG));
}

/* Tags wait from its first packet on; they must not wait for ever. */
static void an_unexpected_message_that_never_ends_is_not_counted(void **state)
{
	(void)state;
	open_tags();
	rig_post_recv(&rig, 4096);
	give_tagged(VB_OP_SEND_FIRST, RIG_RQ_PSN, IBV_TMH_EAGER, TAG, RIG_MTU);
	add(TAG);
	assert_null(vb_tm_match(rig.srq->tm, TAG));
	fail_qp();
	assert_non_null(vb_tm_match(rig.srq->tm, TAG));
}

static void a_message_without_a_receive_matches_when_it_comes_again(void **state)
{
	(void)state;
	open_tags();
	give_tagged(VB_OP_SEND_ONLY, RIG_RQ_PSN, IBV_TMH_EAGER, TAG, 64);
	rig_take_nak(&rig, VB_SYNDROME_RNR | 12, RIG_RQ_PSN);
	add(TAG);
	give_tagged(VB_OP_SEND_ONLY, RIG_RQ_PSN, IBV_TMH_EAGER, TAG, 64);
	expect(IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
}

static void give_rendezvous(uint32_t psn, uint32_t length)
{
	const struct ibv_rvh header = { htobe64(0x1000), htobe32(0x55), htobe32(length) };

	memcpy(rig.payload + HEADER, &header, sizeof(header));
	give_tagged(VB_OP_SEND_ONLY, psn, IBV_TMH_RNDV, TAG, HEADER + sizeof(header));
}

/* The sender may use its memory again as soon as it has the FIN: not before it was read. */
static void a_fin_follows_the_last_byte(void **state)
{
	struct vb_packet packet;

	(void)state;
	open_tags();
	add(TAG);
	give_rendezvous(RIG_RQ_PSN, RIG_MTU + 1);
	expect(IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_MATCH);
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(packet.va, 0x1000);
	assert_int_equal(packet.rkey, 0x55);
	assert_int_equal(packet.dma_length, RIG_MTU + 1);
	rig_take_op(&rig, VB_OP_ACKNOWLEDGE);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_FIRST, RIG_SQ_PSN, RIG_MTU);
	rig_turn(&rig);
	rig_take_none(&rig);
	rig_poll_none(&rig);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_LAST, RIG_SQ_PSN + 1, 1);
	rig_turn(&rig);
	expect(IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_DATA_VALID);
	packet = rig_take_op(&rig, VB_OP_SEND_ONLY);
	assert_int_equal(packet.payload_length, HEADER);
	assert_int_equal(packet.payload[0], IBV_TMH_FIN);
	rig_ack(&rig, RIG_SQ_PSN + 2, VB_CREDITS_NONE);
	rig_poll_none(&rig);
}

static void a_rendezvous_is_flushed_with_its_qp(void **state)
{
	(void)state;
	open_tags();
	add(TAG);
	give_rendezvous(RIG_RQ_PSN, RIG_MTU);
	expect(IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_MATCH);
	fail_qp();
	assert_int_equal(expect(IBV_WC_TM_RECV, IBV_WC_WR_FLUSH_ERR, 0).wr_id, TAG);
	rig_poll_none(&rig);
	assert_int_equal(atomic_load(&rig.qp->sq.internal), 0);
}

/* Its entries are few: who comes when they are used up is asked to come again. */
static void rendezvous_without_room_come_again(void **state)
{
	enum { ROOM = 32 };
	const uint32_t last = RIG_RQ_PSN + ROOM;

	(void)state;
	open_tags();
	for (uint32_t psn = RIG_RQ_PSN; psn < last; psn++) {
		add(TAG);
		give_rendezvous(psn, 0);
		if (psn == RIG_RQ_PSN)
			rig_take_op(&rig, VB_OP_READ_REQUEST);
		rig_take_op(&rig, VB_OP_ACKNOWLEDGE);
		expect(IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_MATCH);
	}
	add(TAG);
	give_rendezvous(last, 0);
	rig_take_nak(&rig, VB_SYNDROME_RNR | 12, last);
	rig_poll_none(&rig);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, 0);
	rig_turn(&rig);
	expect(IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_DATA_VALID);
	rig_take_op(&rig, VB_OP_SEND_ONLY);
	rig_ack(&rig, RIG_SQ_PSN + 1, VB_CREDITS_NONE);
	rig_turn(&rig);
	give_rendezvous(last, 0);
	expect(IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_MATCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(a_message_of_several_packets_is_matched_once),
		TEST_RC(a_duplicate_matches_nothing),
		TEST_RC(a_tag_whose_message_never_ends_is_there_for_others),
		TEST_RC(a_removal_that_came_too_late_is_followed_by_a_completion),
		TEST_RC(an_unexpected_message_that_never_ends_is_not_counted),
		TEST_RC(a_message_without_a_receive_matches_when_it_comes_again),
		TEST_RC(a_fin_follows_the_last_byte),
		TEST_RC(a_rendezvous_is_flushed_with_its_qp),
		TEST_RC(rendezvous_without_room_come_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
