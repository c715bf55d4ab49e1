/* SPDX-License-Identifier: BSD-2-Clause */
/* Promises of XRC on the wire, with a peer that is played by hand. */
#include "nic/xrcd.h"
#include "rig_case.h"

static int setup_receiver(void **state)
{
	rig_defaults(&rig, IBV_QPT_XRC_RECV);
	rig_open(&rig);
	return 0;
}

static int setup_sender(void **state)
{
	rig_defaults(&rig, IBV_QPT_XRC_SEND);
	rig_open(&rig);
	return 0;
}

#define RECEIVER(name) cmocka_unit_test_setup_teardown(name, setup_receiver, rig_teardown)
#define SENDER(name)   cmocka_unit_test_setup_teardown(name, setup_sender, rig_teardown)

/* A request of XRC for an SRQ, which asks for an ACK. */
static struct vb_packet request(uint8_t operation, uint32_t psn, uint32_t length, uint32_t srqn)
{
	struct vb_packet packet = rig_request(operation | VB_TRANSPORT_XRC, psn, length);

	packet.ack_request = true;
	packet.srqn = srqn;
	packet.dma_length = length;
	packet.va = (uintptr_t)rig.region;
	packet.rkey = rig.mr->ibv.rkey;
	return packet;
}

static void give(uint8_t operation, uint32_t psn, uint32_t length, uint32_t srqn)
{
	rig_give(&rig, request(operation, psn, length, srqn));
	rig_turn(&rig);
}

static void take_answer(uint8_t syndrome, uint32_t psn)
{
	struct vb_packet packet = rig_take_op(&rig, VB_TRANSPORT_XRC | VB_OP_ACKNOWLEDGE);

	assert_int_equal(packet.syndrome, syndrome);
	assert_int_equal(packet.psn, psn);
}

static void a_message_reaches_the_srq_and_is_acknowledged_as_xrc(void **state)
{
	(void)state;
	rig_post_recv(&rig, 4096);
	give(VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU, rig.srq->number);
	give(VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 5, rig.srq->number);
	rig_received(&rig, RIG_MTU + 5);
	take_answer(VB_CREDITS_NONE, RIG_RQ_PSN);
	take_answer(VB_CREDITS_NONE, RIG_RQ_PSN + 1);
}

static void a_packet_of_rc_is_dropped(void **state)
{
	(void)state;
	rig_post_recv(&rig, 4096);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	rig_take_none(&rig);
	rig_poll_none(&rig);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_TRANSPORT], 1);
}

/* It only receives: an answer is not for it. */
static void an_answer_to_a_receiver_is_dropped(void **state)
{
	(void)state;
	rig_ack(&rig, RIG_RQ_PSN, 0);
	rig_give(&rig, rig_request(VB_TRANSPORT_XRC | VB_OP_ACKNOWLEDGE, RIG_SQ_PSN, 0));
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_TRANSPORT], 2);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_RTS);
}

static void an_unknown_srq_is_an_invalid_request(void **state)
{
	(void)state;
	rig_post_recv(&rig, 4096);
	give(VB_OP_SEND_ONLY, RIG_RQ_PSN, 8, rig.srq->number ^ 1);
	take_answer(VB_NAK_INVALID_REQUEST, RIG_RQ_PSN);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8); /* and the QP has failed */
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_ERR);
	rig_poll_none(&rig);
	while (rig_event(&rig, IBV_EVENT_QP_LAST_WQE_REACHED))
		;
}

/* Its process is to be attached first: nothing is asked for again, or retries would be used up. */
static void an_srq_of_a_process_not_yet_attached_is_waited_for(void **state)
{
	const uint32_t elsewhere = rig.srq->number ^ 1u << VB_QP_INDEX_BITS;

	(void)state;
	rig_post_recv(&rig, 4096);
	for (int i = 0; i < 3; i++) {
		give(VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU, elsewhere);
		give(VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 5, rig.srq->number);
	}
	rig_take_none(&rig);
	give(VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU, rig.srq->number);
	take_answer(VB_CREDITS_NONE, RIG_RQ_PSN + 1);
}

/* All packets of a message are for one SRQ. */
static void a_message_does_not_change_its_srq(void **state)
{
	(void)state;
	rig_post_recv(&rig, 4096);
	give(VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU, rig.srq->number);
	take_answer(VB_CREDITS_NONE, RIG_RQ_PSN);
	give(VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 5, rig.srq->number ^ 1);
	take_answer(VB_NAK_INVALID_REQUEST, RIG_RQ_PSN + 1);
	rig_poll_none(&rig);
}

static void no_receive_is_an_rnr_nak(void **state)
{
	(void)state;
	give(VB_OP_SEND_ONLY, RIG_RQ_PSN, 8, rig.srq->number);
	take_answer(VB_SYNDROME_RNR | 12, RIG_RQ_PSN);
	rig_post_recv(&rig, 4096);
	give(VB_OP_SEND_ONLY, RIG_RQ_PSN, 8, rig.srq->number);
	rig_received(&rig, 8);
	take_answer(VB_CREDITS_NONE, RIG_RQ_PSN);
}

/* The receive of a message under way stays with it, whatever else is read meanwhile. */
static void a_repeated_read_does_not_disturb_a_message_under_way(void **state)
{
	struct vb_packet read = request(VB_OP_READ_REQUEST, RIG_RQ_PSN, 0, rig.srq->number), answer;

	(void)state;
	read.dma_length = 100;
	rig_post_recv(&rig, 4096);
	rig_give(&rig, read);
	rig_turn(&rig);
	answer = rig_take_op(&rig, VB_TRANSPORT_XRC | VB_OP_READ_RESPONSE_ONLY);
	assert_memory_equal(answer.payload, rig.region, 100);
	give(VB_OP_SEND_FIRST, RIG_RQ_PSN + 1, RIG_MTU, rig.srq->number);
	take_answer(VB_CREDITS_NONE, RIG_RQ_PSN + 1);
	rig_give(&rig, read); /* its answer was lost */
	rig_turn(&rig);
	rig_take_op(&rig, VB_TRANSPORT_XRC | VB_OP_READ_RESPONSE_ONLY);
	give(VB_OP_SEND_LAST, RIG_RQ_PSN + 2, 7, rig.srq->number);
	rig_received(&rig, RIG_MTU + 7);
}

/* An SRQ that goes with a message under way: the message is refused, nothing is written. */
static void an_srq_that_is_gone_is_refused(void **state)
{
	uint32_t number = rig.srq->number;

	(void)state;
	rig_post_recv(&rig, 4096);
	give(VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU, number);
	take_answer(VB_CREDITS_NONE, RIG_RQ_PSN);
	assert_int_equal(vb_srq_destroy(rig.srq), 0);
	rig.srq = NULL;
	give(VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 5, number);
	take_answer(VB_NAK_INVALID_REQUEST, RIG_RQ_PSN + 1);
}

static void every_packet_of_a_sender_names_the_srq(void **state)
{
	struct ibv_sge sge = { (uintptr_t)rig.region, 2 * RIG_MTU + 1, rig.mr->ibv.lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	static const uint8_t operations[] = { VB_OP_SEND_FIRST, VB_OP_SEND_MIDDLE,
					      VB_OP_SEND_LAST };

	(void)state;
	wr.qp_type.xrc.remote_srqn = 0x00abcd;
	rig_post_wr(&rig, &wr);
	for (unsigned i = 0; i < 3; i++) {
		struct vb_packet packet = rig_take_op(&rig, VB_TRANSPORT_XRC | operations[i]);

		assert_int_equal(packet.srqn, 0x00abcd);
		assert_int_equal(packet.psn, RIG_SQ_PSN + i);
	}
	wr.opcode = IBV_WR_RDMA_READ;
	rig_post_wr(&rig, &wr);
	assert_int_equal(rig_take_op(&rig, VB_TRANSPORT_XRC | VB_OP_READ_REQUEST).srqn, 0x00abcd);
	rig_poll_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN + 2, VB_CREDITS_NONE); /* of RC: not from its peer */
	rig_poll_none(&rig);
	rig_give(&rig, rig_request(VB_TRANSPORT_XRC | VB_OP_ACKNOWLEDGE, RIG_SQ_PSN + 2, 0));
	rig_turn(&rig);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* It only sends: a request is not for it. */
static void a_request_to_a_sender_is_dropped(void **state)
{
	(void)state;
	give(VB_OP_SEND_ONLY, RIG_RQ_PSN, 8, 1);
	rig_take_none(&rig);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_TRANSPORT], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECEIVER(a_message_reaches_the_srq_and_is_acknowledged_as_xrc),
		RECEIVER(a_packet_of_rc_is_dropped),
		RECEIVER(an_answer_to_a_receiver_is_dropped),
		RECEIVER(an_unknown_srq_is_an_invalid_request),
		RECEIVER(an_srq_of_a_process_not_yet_attached_is_waited_for),
		RECEIVER(a_message_does_not_change_its_srq),
		RECEIVER(no_receive_is_an_rnr_nak),
		RECEIVER(a_repeated_read_does_not_disturb_a_message_under_way),
		RECEIVER(an_srq_that_is_gone_is_refused),
		SENDER(every_packet_of_a_sender_names_the_srq),
		SENDER(a_request_to_a_sender_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
