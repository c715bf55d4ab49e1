/* SPDX-License-Identifier: BSD-2-Clause */
/* NAKs that end a QP, and may come from somebody else than its peer. */
#include "rig_case.h"

enum { PACKETS = 4, SILENCE_NS = 2000000 };

/* A message of some packets, all of them sent. */
static void send_long(void)
{
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_WRITE, PACKETS * RIG_MTU, IBV_SEND_SIGNALED);
	rig.out_head = rig.out_tail;
}

static void nak(uint8_t syndrome, uint32_t psn, uint32_t msn)
{
	struct vb_packet packet = rig_request(VB_OP_ACKNOWLEDGE, psn, 0);

	packet.syndrome = syndrome;
	packet.msn = msn;
	rig_give(&rig, packet);
	rig_turn(&rig);
}

static void one_inside_a_message_that_goes_on_is_forged(void **state)
{
	static const uint8_t syndromes[] = { VB_NAK_ACCESS, VB_NAK_INVALID_REQUEST,
					     VB_NAK_OPERATIONAL };

	(void)state;
	send_long();
	for (unsigned i = 0; i < sizeof(syndromes); i++)
		for (unsigned j = 1; j < PACKETS; j++)
			nak(syndromes[i], RIG_SQ_PSN + j, 0);
	rig_poll_none(&rig);
	rig_take_none(&rig);
	assert_int_equal(rig.wired->counters.naks_doubted, sizeof(syndromes) * (PACKETS - 1));
	rig_ack(&rig, RIG_SQ_PSN + PACKETS - 1, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	/* It is forgotten: silence means silence. */
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED);
	rig_wait_ns(&rig, 100 * SILENCE_NS);
	rig_poll_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN + PACKETS, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

static void one_with_an_msn_that_cannot_be_is_forged(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	nak(VB_NAK_ACCESS, RIG_SQ_PSN, 1000);
	nak(VB_NAK_ACCESS, RIG_SQ_PSN, VB_PSN_MASK);
	rig_poll_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* A NIC counts from wherever it likes: what it said last is what its NAK is compared with. */
static void the_msn_of_the_last_answer_counts(void **state)
{
	struct vb_packet ack = rig_request(VB_OP_ACKNOWLEDGE, RIG_SQ_PSN, 0);

	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	ack.syndrome = VB_CREDITS_NONE;
	ack.msn = VB_PSN_MASK;
	rig_give(&rig, ack);
	rig_sent(&rig, IBV_WC_SUCCESS);
	nak(VB_NAK_ACCESS, RIG_SQ_PSN + 3, 1);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_sent(&rig, IBV_WC_REM_ACCESS_ERR);
}

/* As a NIC in error is. */
static void one_that_is_followed_by_silence_is_true(void **state)
{
	(void)state;
	send_long();
	nak(VB_NAK_ACCESS, RIG_SQ_PSN + 2, 0);
	rig_poll_none(&rig);
	rig_wait_ns(&rig, 10 * SILENCE_NS);
	rig_sent(&rig, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_ERR);
}

static void one_that_is_said_again_when_it_is_asked_for_is_true(void **state)
{
	(void)state;
	send_long();
	nak(VB_NAK_INVALID_REQUEST, RIG_SQ_PSN + 2, 0);
	while (rig.out_head == rig.out_tail)
		rig_wait_ns(&rig, 100000);
	assert_int_equal(rig_take(&rig).psn, RIG_SQ_PSN);
	rig_poll_none(&rig);
	nak(VB_NAK_INVALID_REQUEST, RIG_SQ_PSN + 2, 0);
	rig_sent(&rig, IBV_WC_REM_INV_REQ_ERR);
}

/* It waits no longer than the QP does. */
static void one_is_true_before_the_qp_gives_up(void **state)
{
	(void)state;
	rig.attr.timeout = 1;
	rig.attr.retry_cnt = 0;
	send_long();
	nak(VB_NAK_OPERATIONAL, RIG_SQ_PSN + 1, 7);
	rig_wait_ns(&rig, 1000 * SILENCE_NS);
	rig_sent(&rig, IBV_WC_REM_OP_ERR);
}

static void a_read_is_refused_at_its_request_only(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, PACKETS * RIG_MTU, IBV_SEND_SIGNALED);
	rig_take(&rig);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_FIRST, RIG_SQ_PSN, RIG_MTU);
	nak(VB_NAK_ACCESS, RIG_SQ_PSN + 2, 0);
	rig_poll_none(&rig);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_MIDDLE, RIG_SQ_PSN + 1, RIG_MTU);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_MIDDLE, RIG_SQ_PSN + 2, RIG_MTU);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_LAST, RIG_SQ_PSN + 3, RIG_MTU);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_post(&rig, IBV_WR_RDMA_READ, PACKETS * RIG_MTU, IBV_SEND_SIGNALED);
	nak(VB_NAK_ACCESS, RIG_SQ_PSN + PACKETS, 0);
	rig_sent(&rig, IBV_WC_REM_ACCESS_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(one_inside_a_message_that_goes_on_is_forged),
		TEST_RC(one_with_an_msn_that_cannot_be_is_forged),
		TEST_RC(the_msn_of_the_last_answer_counts),
		TEST_RC(one_that_is_followed_by_silence_is_true),
		TEST_RC(one_that_is_said_again_when_it_is_asked_for_is_true),
		TEST_RC(one_is_true_before_the_qp_gives_up),
		TEST_RC(a_read_is_refused_at_its_request_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
