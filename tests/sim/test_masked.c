/* SPDX-License-Identifier: BSD-2-Clause */
/* Extended atomics as packets: the responder against a requester that is played by hand. */
#include "nic/masked.h"
#include "rig.h"

static struct rig rig;

enum { AT = 64, WIDTH = 16 };

static int before(void **state)
{
	(void)state;
	rig_defaults(&rig, IBV_QPT_RC);
	return 0;
}

static int after(void **state)
{
	(void)state;
	rig_close(&rig);
	return 0;
}

static void give_add(uint32_t psn, uint64_t va, uint32_t width, uint32_t length, uint64_t add)
{
	struct vb_packet packet =
		rig_request(VB_TRANSPORT_VENDOR | VB_OP_MASKED_FETCH_ADD, psn, length);

	memset(rig.payload, 0, sizeof(rig.payload));
	memcpy(rig.payload, &add, sizeof(add));
	packet.payload = rig.payload;
	packet.va = va;
	packet.rkey = rig.mr->ibv.rkey;
	packet.dma_length = width;
	packet.ack_request = true;
	rig_give(&rig, packet);
	rig_turn(&rig);
}

static uint64_t word(void)
{
	uint64_t value;

	memcpy(&value, rig.region + AT, sizeof(value));
	return value;
}

static void take_answer(uint32_t psn, uint64_t wanted)
{
	struct vb_packet packet = rig_take_op(&rig, VB_OP_READ_RESPONSE_ONLY);
	uint64_t old;

	assert_int_equal(packet.psn, psn);
	assert_int_equal(packet.payload_length, WIDTH);
	memcpy(&old, packet.payload, sizeof(old));
	assert_int_equal(old, wanted);
}

static void a_repetition_gets_the_old_answer(void **state)
{
	uint64_t value = 40;
	uint64_t va;

	rig_open(&rig);
	va = (uintptr_t)rig.region + AT;
	memset(rig.region + AT, 0, WIDTH);
	memcpy(rig.region + AT, &value, sizeof(value));
	give_add(RIG_RQ_PSN, va, WIDTH, 2 * WIDTH, 2);
	give_add(RIG_RQ_PSN, va, WIDTH, 2 * WIDTH, 2);
	give_add(RIG_RQ_PSN + 1, va, WIDTH, 2 * WIDTH, 3);
	give_add(RIG_RQ_PSN, va, WIDTH, 2 * WIDTH, 2);
	assert_int_equal(word(), 45);
	take_answer(RIG_RQ_PSN, 40);
	take_answer(RIG_RQ_PSN, 40);
	take_answer(RIG_RQ_PSN + 1, 42);
	take_answer(RIG_RQ_PSN, 40);
}

/* The width, the payload and the address of a packet are not believed. */
static void a_malformed_request_is_refused(void **state)
{
	static const struct {
		uint32_t width, length, shift;
	} rows[] = { { 12, 24, 0 },  { 16, 16, 0 }, { 16, 33, 0 }, { 0, 0, 0 },
		     { 64, 128, 0 }, { 16, 32, 8 }, { 8, 16, 4 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		rig_defaults(&rig, IBV_QPT_RC);
		rig_open(&rig);
		memset(rig.region + AT, 0, 64);
		give_add(RIG_RQ_PSN, (uintptr_t)rig.region + AT + rows[i].shift, rows[i].width,
			 rows[i].length, 1);
		rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN);
		assert_int_equal(word(), 0);
		if (i + 1 < sizeof(rows) / sizeof(*rows))
			rig_close(&rig);
	}
}

static void a_request_needs_the_right(void **state)
{
	rig.attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	rig_open(&rig);
	memset(rig.region + AT, 0, 64);
	give_add(RIG_RQ_PSN, (uintptr_t)rig.region + AT, WIDTH, 2 * WIDTH, 1);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN);
	assert_int_equal(word(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_repetition_gets_the_old_answer, before, after),
		cmocka_unit_test_setup_teardown(a_malformed_request_is_refused, before, after),
		cmocka_unit_test_setup_teardown(a_request_needs_the_right, before, after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
