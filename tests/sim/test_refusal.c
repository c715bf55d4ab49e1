/* SPDX-License-Identifier: BSD-2-Clause */
/* What the responder of RC refuses, and what it does not even look at. */
#include "rig_case.h"

static void a_misaligned_atomic_is_an_invalid_request(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_give_atomic(&rig, RIG_RQ_PSN, 4, 1);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_ERR);
	assert_true(rig_event(&rig, IBV_EVENT_QP_REQ_ERR));
}

/* Its address is aligned, the memory there is not: the region begins elsewhere than it says. */
static void nor_is_one_of_a_region_with_another_start(void **state)
{
	struct vb_packet packet = rig_request(VB_OP_FETCH_ADD, RIG_RQ_PSN, 0);
	struct vb_mr_spec spec = { .length = 64,
				   .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC };
	struct vb_mr *mr;

	(void)state;
	rig_open(&rig);
	spec.addr = (uintptr_t)rig.region + 4;
	assert_int_equal(vb_mr_register(rig.pd, &spec, &mr), 0);
	packet.va = 8;
	packet.swap_add = 1;
	packet.rkey = mr->ibv.rkey;
	rig_give(&rig, packet);
	rig_turn(&rig);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN);
	assert_int_equal(vb_mr_deregister(mr), 0);
}

/* Four resources: a fifth READ while four wait to be answered is a mistake of the requester. */
static void too_many_reads_are_an_invalid_request(void **state)
{
	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < 5; i++)
		rig_give_read(&rig, RIG_RQ_PSN + i, 0, 8);
	rig_turn(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_take_op(&rig, VB_OP_READ_RESPONSE_ONLY);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN + 4);
	assert_int_equal(rig_refusal(&rig).want, 5);
	assert_int_equal(rig_refusal(&rig).have, 4);
}

enum { TURN = VB_TURN_PACKETS, READ_LENGTH = RIG_REGION };

/* A READ that needs more than one turn, of a region of its own, when the first turn is over. */
static struct vb_mr *half_read(struct vb_packet *packet)
{
	struct vb_mr_spec spec = {
		.length = READ_LENGTH,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct vb_mr *mr;

	rig.attr.path_mtu = IBV_MTU_512;
	rig_open(&rig);
	*packet = rig_request(VB_OP_READ_REQUEST, RIG_RQ_PSN, 0);
	spec.addr = spec.iova = packet->va = (uintptr_t)rig.region;
	assert_int_equal(vb_mr_register(rig.pd, &spec, &mr), 0);
	packet->rkey = mr->ibv.rkey;
	packet->dma_length = READ_LENGTH;
	rig_give(&rig, *packet);
	vb_hazard_enter(rig.roce.thread, rig.roce.nic->self->head_slot);
	assert_true(vb_reply_run(rig.wired));
	vb_hazard_leave(rig.roce.thread);
	return mr;
}

static void memory_that_goes_away_is_refused_where_the_answer_ends(void **state)
{
	struct vb_packet packet;
	struct vb_mr *mr = half_read(&packet);

	(void)state;
	assert_int_equal(vb_mr_deregister(mr), 0);
	rig_turn(&rig);
	for (unsigned i = 0; i < TURN; i++)
		assert_int_equal(rig_take(&rig).psn, RIG_RQ_PSN + i);
	rig_take_nak(&rig, VB_NAK_ACCESS, RIG_RQ_PSN + TURN);
	assert_int_equal(rig_refusal(&rig).key, packet.rkey);
	assert_true(rig_refusal(&rig).addr == packet.va + TURN * 512);
	assert_int_equal(rig_refusal(&rig).length, READ_LENGTH - TURN * 512);
	assert_true(rig_event(&rig, IBV_EVENT_QP_ACCESS_ERR));
}

/* Who shuts down takes the QP to ERR, then the memory away: its peer is not blamed for that. */
static void a_qp_in_error_reads_no_further(void **state)
{
	struct vb_packet packet;
	struct vb_mr *mr = half_read(&packet);

	(void)state;
	rig_modify(&rig, IBV_QPS_ERR);
	assert_int_equal(vb_mr_deregister(mr), 0);
	rig_turn(&rig);
	for (unsigned i = 0; i < TURN; i++)
		assert_int_equal(rig_take(&rig).psn, RIG_RQ_PSN + i);
	rig_take_none(&rig);
}

/* Whatever region there is: the longest message has 2^31 bytes. */
static void a_write_beyond_the_longest_message_is_an_invalid_request(void **state)
{
	struct vb_packet packet = rig_request(VB_OP_WRITE_FIRST, RIG_RQ_PSN, RIG_MTU);

	(void)state;
	rig_open(&rig);
	packet.va = (uintptr_t)rig.region;
	packet.rkey = rig.mr->ibv.rkey;
	packet.dma_length = 0x80000001;
	rig_give(&rig, packet);
	rig_turn(&rig);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN);
}

static void a_bad_rkey_is_refused_behind_the_answers(void **state)
{
	struct vb_packet packet = rig_request(VB_OP_WRITE_ONLY, RIG_RQ_PSN + 3, 8);

	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	rig_give_read(&rig, RIG_RQ_PSN, 0, 3 * RIG_MTU);
	packet.va = (uintptr_t)rig.region;
	packet.rkey = rig.mr->ibv.rkey ^ 0x100;
	packet.dma_length = 8;
	rig_give(&rig, packet);
	rig_turn(&rig);
	rig_take_op(&rig, VB_OP_READ_RESPONSE_FIRST);
	rig_take_op(&rig, VB_OP_READ_RESPONSE_MIDDLE);
	rig_take_op(&rig, VB_OP_READ_RESPONSE_LAST);
	rig_take_nak(&rig, VB_NAK_ACCESS, RIG_RQ_PSN + 3);
	assert_true(rig_event(&rig, IBV_EVENT_QP_ACCESS_ERR));
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_ERR);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_WR_FLUSH_ERR);
}

/* Its requester would take the loss of the NAK for silence, and tell of a timeout. */
static void a_refusal_is_repeated(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	rig_post_recv(&rig, 64);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	rig_received(&rig, 8);
	rig_take_op(&rig, VB_OP_ACKNOWLEDGE);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 1, 100);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN + 1);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_LOC_LEN_ERR);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8); /* the ACK was lost as well */
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN + 1);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 1, 100);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN + 1);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 2, 8);
	rig_give(&rig, rig_request(VB_TRANSPORT_CNP | VB_OP_CNP, 0, 0));
	rig_turn(&rig);
	rig_take_none(&rig);
	rig_poll_none(&rig);
	assert_false(rig_event(&rig, IBV_EVENT_QP_REQ_ERR));
}

static void give_invalidation(uint8_t operation, uint32_t psn, uint32_t length)
{
	struct vb_packet packet = rig_request(operation, psn, length);

	packet.invalidate_rkey = 0x12345678;
	rig_give(&rig, packet);
	rig_turn(&rig);
}

static void acknowledged(uint32_t psn)
{
	struct vb_packet ack = rig_take_op(&rig, VB_OP_ACKNOWLEDGE);

	assert_int_equal(ack.psn, psn);
	assert_true(ack.syndrome <= VB_CREDITS_NONE);
}

/* The message has arrived, and its sender is not to blame (IBA class J). */
static void an_invalidation_in_vain_is_acknowledged_and_then_fails_the_qp(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 2 * RIG_MTU);
	rig_post_recv(&rig, 64);
	rig_give_op(&rig, VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU);
	rig_take(&rig);
	give_invalidation(VB_OP_SEND_LAST_INVALIDATE, RIG_RQ_PSN + 1, 8);
	acknowledged(RIG_RQ_PSN + 1);
	assert_int_equal(rig_refusal(&rig).key, 0x12345678);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_ERR);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_WR_FLUSH_ERR);
	rig_take_none(&rig);
}

/* Its sender may have lost the ACK; what follows is nobody's business any more. */
static void and_acknowledged_again(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	give_invalidation(VB_OP_SEND_ONLY_INVALIDATE, RIG_RQ_PSN, 8);
	acknowledged(RIG_RQ_PSN);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_REM_INV_REQ_ERR);
	give_invalidation(VB_OP_SEND_ONLY_INVALIDATE, RIG_RQ_PSN, 8);
	acknowledged(RIG_RQ_PSN);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 1, 8);
	rig_take_none(&rig);
	rig_poll_none(&rig);
	vb_roce_drop(rig.wired);
	rig.wired = NULL;
	acknowledged(RIG_RQ_PSN);
}

/* The peer may have begun anew with the same QP and PSNs when a second refusal arrives. */
static void a_qp_that_goes_refuses_nobody(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_give_atomic(&rig, RIG_RQ_PSN, 4, 1);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN);
	vb_roce_drop(rig.wired);
	rig.wired = NULL;
	rig_take_none(&rig);
}

/* Who moves its QP to ERR itself refuses nobody. */
static void a_qp_in_error_is_silent(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_modify(&rig, IBV_QPS_ERR);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	rig_take_none(&rig);
}

static void a_region_without_the_right_is_refused(void **state)
{
	struct vb_packet packet = rig_request(VB_OP_READ_REQUEST, RIG_RQ_PSN, 0);

	(void)state;
	rig_open(&rig);
	packet.va = (uintptr_t)rig.region;
	packet.rkey = rig.mr_deaf->ibv.rkey;
	packet.dma_length = 8;
	rig_give(&rig, packet);
	rig_turn(&rig);
	rig_take_nak(&rig, VB_NAK_ACCESS, RIG_RQ_PSN);
}

/* Where keys differ it is told which mistake it was. */
static void an_lkey_is_refused_as_what_it_is(void **state)
{
	struct vb_packet packet = rig_request(VB_OP_READ_REQUEST, RIG_RQ_PSN, 0);
	struct vb_mr_spec spec = { .length = 64, .access = IBV_ACCESS_REMOTE_READ };
	struct vb_mr *mr;

	(void)state;
	rig_open(&rig);
	spec.addr = spec.iova = packet.va = (uintptr_t)rig.region;
	rig.roce.nic->distinct_keys = true;
	assert_int_equal(vb_mr_register(rig.pd, &spec, &mr), 0);
	packet.rkey = mr->ibv.lkey;
	packet.dma_length = 8;
	rig_give(&rig, packet);
	rig_turn(&rig);
	rig_take_nak(&rig, VB_NAK_ACCESS, RIG_RQ_PSN);
	assert_int_equal(rig_refusal(&rig).reason, VB_WHY_RKEY_IS_LKEY);
	assert_int_equal(rig_refusal(&rig).key, mr->ibv.lkey);
	assert_int_equal(vb_mr_deregister(mr), 0);
}

/* The QP's own rights come before the key. */
static void a_qp_without_the_right_says_invalid_request(void **state)
{
	struct vb_packet packet = rig_request(VB_OP_WRITE_ONLY, RIG_RQ_PSN, 8);

	(void)state;
	rig.attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	rig_open(&rig);
	packet.rkey = 0xdeadbeef;
	packet.dma_length = 8;
	rig_give(&rig, packet);
	rig_turn(&rig);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN);
	assert_true(rig_event(&rig, IBV_EVENT_QP_REQ_ERR));
}

static void a_message_too_long_fails_both_sides(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, RIG_MTU);
	rig_post_recv(&rig, 4096);
	rig_give_op(&rig, VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU);
	rig_take(&rig);
	rig_give_op(&rig, VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 1);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN + 1);
	assert_int_equal(rig_refusal(&rig).length, RIG_MTU + 1);
	assert_int_equal(rig_refusal(&rig).have, RIG_MTU);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_ERR);
}

static void lengths_must_fit_the_mtu(uint8_t operation, uint32_t length)
{
	rig_open(&rig);
	rig_post_recv(&rig, 8192);
	if (operation == VB_OP_SEND_LAST) {
		rig_give_op(&rig, VB_OP_SEND_FIRST, RIG_RQ_PSN - 0, RIG_MTU);
		rig_take(&rig);
		rig_give_op(&rig, operation, RIG_RQ_PSN + 1, length);
	} else {
		rig_give_op(&rig, operation, RIG_RQ_PSN, length);
	}
	assert_int_equal(rig_take(&rig).syndrome, VB_NAK_INVALID_REQUEST);
	assert_int_equal(rig_refusal(&rig).length, length);
	assert_int_equal(rig_refusal(&rig).want, RIG_MTU);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_ERR);
}

static void a_first_packet_is_not_shorter_than_the_mtu(void **state)
{
	(void)state;
	lengths_must_fit_the_mtu(VB_OP_SEND_FIRST, RIG_MTU - 4);
}

static void an_only_packet_is_not_longer_than_the_mtu(void **state)
{
	(void)state;
	lengths_must_fit_the_mtu(VB_OP_SEND_ONLY, RIG_MTU + 4);
}

static void a_last_packet_is_not_empty(void **state)
{
	(void)state;
	lengths_must_fit_the_mtu(VB_OP_SEND_LAST, 0);
}

static void a_middle_packet_needs_a_first(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 8192);
	rig_give_op(&rig, VB_OP_SEND_MIDDLE, RIG_RQ_PSN, RIG_MTU);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN);
}

/* Sequence comes before everything that would be fatal. */
static void a_bad_packet_behind_a_gap_is_only_a_gap(void **state)
{
	struct vb_packet packet = rig_request(VB_OP_WRITE_ONLY, RIG_RQ_PSN + 1, 8);

	(void)state;
	rig_open(&rig);
	packet.rkey = 0xdeadbeef;
	packet.dma_length = 8;
	rig_give(&rig, packet);
	rig_wait_ns(&rig, 1000000);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_RTS);
}

/* --- what does not come from the peer --- */

static void dropped(enum vb_packet_drop reason)
{
	uint64_t before = rig.roce.drops[reason];

	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	assert_int_equal(rig.roce.drops[reason], before + 1);
	rig_take_none(&rig);
	rig_poll_none(&rig);
	assert_int_equal(rig.wired->resp.expected_psn, RIG_RQ_PSN);
}

static void another_address_changes_nothing(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	rig.back.src[3] = 77;
	vb_icrc_flow_init(&rig.back);
	dropped(VB_PACKET_DROP_ADDRESS);
}

static void another_pkey_changes_nothing(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	rig.pkey = 0x8001;
	dropped(VB_PACKET_DROP_PKEY);
	rig.pkey = 0x7fff; /* a limited member, to a full one */
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	rig_received(&rig, 8);
}

static void another_qpn_changes_nothing(void **state)
{
	struct vb_packet packet = rig_request(VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);

	(void)state;
	rig_open(&rig);
	packet.dest_qpn = rig.qp->ibv.qp_num ^ 1;
	rig_give(&rig, packet);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_UNKNOWN_QP], 1);
	rig_take_none(&rig);
}

static void another_transport_changes_nothing(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	rig_give(&rig, rig_request(VB_TRANSPORT_UC | VB_OP_SEND_ONLY, RIG_RQ_PSN, 8));
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_TRANSPORT], 1);
	rig_poll_none(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(a_misaligned_atomic_is_an_invalid_request),
		TEST_RC(nor_is_one_of_a_region_with_another_start),
		TEST_RC(too_many_reads_are_an_invalid_request),
		TEST_RC(memory_that_goes_away_is_refused_where_the_answer_ends),
		TEST_RC(a_qp_in_error_reads_no_further),
		TEST_RC(a_write_beyond_the_longest_message_is_an_invalid_request),
		TEST_RC(a_bad_rkey_is_refused_behind_the_answers),
		TEST_RC(a_refusal_is_repeated),
		TEST_RC(an_invalidation_in_vain_is_acknowledged_and_then_fails_the_qp),
		TEST_RC(and_acknowledged_again),
		TEST_RC(a_qp_that_goes_refuses_nobody),
		TEST_RC(a_qp_in_error_is_silent),
		TEST_RC(a_region_without_the_right_is_refused),
		TEST_RC(an_lkey_is_refused_as_what_it_is),
		TEST_RC(a_qp_without_the_right_says_invalid_request),
		TEST_RC(a_message_too_long_fails_both_sides),
		TEST_RC(a_first_packet_is_not_shorter_than_the_mtu),
		TEST_RC(an_only_packet_is_not_longer_than_the_mtu),
		TEST_RC(a_last_packet_is_not_empty),
		TEST_RC(a_middle_packet_needs_a_first),
		TEST_RC(a_bad_packet_behind_a_gap_is_only_a_gap),
		TEST_RC(another_address_changes_nothing),
		TEST_RC(another_pkey_changes_nothing),
		TEST_RC(another_qpn_changes_nothing),
		TEST_RC(another_transport_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
