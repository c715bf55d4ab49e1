/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that look like an earlier one: less of them is looked at, and nothing is missed. */
#include "rig_case.h"

enum { LENGTH = 8 };

static uint32_t next_psn;

static bool is_known(void)
{
	for (unsigned i = 0; i < VB_KNOWN; i++)
		if (rig.roce.known[i].wired)
			return true;
	return false;
}

/* One small message has come: the next ones look like it. */
static void begin(void)
{
	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_post_recv(&rig, LENGTH);
	next_psn = RIG_RQ_PSN;
	rig_give_op(&rig, VB_OP_SEND_ONLY, next_psn++, LENGTH);
	rig_received(&rig, LENGTH);
	assert_true(is_known());
}

static void the_next_messages_arrive(void **state)
{
	begin();
	for (unsigned i = 1; i < 4; i++) {
		memset(rig.payload, (int)i, LENGTH);
		rig_give_op(&rig, VB_OP_SEND_ONLY, next_psn++, LENGTH);
		rig_received(&rig, LENGTH);
	}
	rig_turn(&rig);
	while (rig.out_head != rig.out_tail)
		assert_int_equal(rig_take(&rig).opcode, VB_OP_ACKNOWLEDGE);
}

static void a_message_of_another_length_arrives(void **state)
{
	begin();
	rig_give_op(&rig, VB_OP_SEND_ONLY, next_psn++, LENGTH - 4);
	rig_received(&rig, LENGTH - 4);
	rig_give_op(&rig, VB_OP_SEND_ONLY, next_psn++, LENGTH);
	rig_received(&rig, LENGTH);
}

static void a_damaged_packet_is_dropped(void **state)
{
	begin();
	rig.damaged = true;
	rig_give_op(&rig, VB_OP_SEND_ONLY, next_psn, LENGTH);
	rig.damaged = false;
	rig_poll_none(&rig);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_ICRC], 1);
	rig_give_op(&rig, VB_OP_SEND_ONLY, next_psn++, LENGTH);
	rig_received(&rig, LENGTH);
}

static void reserved_bits_mean_nothing(void **state)
{
	begin();
	rig.reserved = 0x7f;
	for (unsigned i = 1; i < 3; i++) {
		rig_give_op(&rig, VB_OP_SEND_ONLY, next_psn++, LENGTH);
		rig_received(&rig, LENGTH);
		assert_int_equal(rig.roce.reserved, i);
	}
	rig.reserved = 0;
	rig_give_op(&rig, VB_OP_SEND_ONLY, next_psn++, LENGTH);
	rig_received(&rig, LENGTH);
	assert_int_equal(rig.roce.reserved, 2);
}

static void another_pkey_is_refused(void **state)
{
	begin();
	atomic_store(&rig.qp->pkey, 0x1234);
	rig_give_op(&rig, VB_OP_SEND_ONLY, next_psn++, LENGTH);
	rig_poll_none(&rig);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_PKEY], 1);
}

static void a_stranger_is_refused(void **state)
{
	begin();
	rig.back.src[3] ^= 1;
	vb_icrc_flow_init(&rig.back);
	rig_give_op(&rig, VB_OP_SEND_ONLY, next_psn++, LENGTH);
	rig_poll_none(&rig);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_ADDRESS], 1);
}

static void a_qp_that_fails_takes_no_more(void **state)
{
	begin();
	assert_true(vb_qp_enter_error(rig.qp));
	rig_give_op(&rig, VB_OP_SEND_ONLY, next_psn++, LENGTH);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_STATE], 1);
}

static void acks_end_messages(void **state)
{
	rig_open(&rig);
	for (unsigned i = 0; i < 3; i++) {
		rig_post(&rig, IBV_WR_SEND, LENGTH, IBV_SEND_SIGNALED);
		rig_take_op(&rig, VB_OP_SEND_ONLY);
		rig_ack(&rig, RIG_SQ_PSN + i, VB_CREDITS_NONE);
		rig_sent(&rig, IBV_WC_SUCCESS);
		assert_true(is_known());
	}
}

static void a_nak_is_no_ack(void **state)
{
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, LENGTH, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_SEND_ONLY);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_post(&rig, IBV_WR_SEND, LENGTH, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_SEND_ONLY);
	rig_ack(&rig, RIG_SQ_PSN + 1, VB_NAK_INVALID_REQUEST);
	rig_sent(&rig, IBV_WC_REM_INV_REQ_ERR);
}

static void a_reserved_syndrome_is_malformed(void **state)
{
	acks_end_messages(state);
	rig_post(&rig, IBV_WR_SEND, LENGTH, IBV_SEND_SIGNALED);
	rig_ack(&rig, RIG_SQ_PSN + 3, 0x80);
	rig_poll_none(&rig);
	assert_int_equal(rig.roce.flaws[VB_PACKET_SYNDROME], 1);
}

static void a_qp_that_goes_is_forgotten(void **state)
{
	begin();
	vb_roce_forget_sequel(rig.wired);
	assert_false(is_known());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(the_next_messages_arrive),
		TEST_RC(a_message_of_another_length_arrives),
		TEST_RC(a_damaged_packet_is_dropped),
		TEST_RC(reserved_bits_mean_nothing),
		TEST_RC(another_pkey_is_refused),
		TEST_RC(a_stranger_is_refused),
		TEST_RC(a_qp_that_fails_takes_no_more),
		TEST_RC(acks_end_messages),
		TEST_RC(a_nak_is_no_ack),
		TEST_RC(a_reserved_syndrome_is_malformed),
		TEST_RC(a_qp_that_goes_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
