/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets in the middle of a message that come in one burst: each is checked, in fewer steps. */
#include "rig_case.h"

enum { PACKETS = 8, BURST = 7 };

static uint32_t next_psn;

static void fill(uint8_t number)
{
	memset(rig.payload, number, sizeof(rig.payload));
}

/* A WRITE to the region begins; the rest of it comes in a burst. */
static void begin_write(void)
{
	struct vb_packet first = rig_request(VB_OP_WRITE_FIRST, RIG_RQ_PSN, RIG_MTU);

	rig_open(&rig);
	first.va = (uintptr_t)rig.region;
	first.rkey = rig.mr->ibv.rkey;
	first.dma_length = PACKETS * RIG_MTU;
	fill(0);
	rig_give(&rig, first);
	rig.burst = BURST;
	next_psn = RIG_RQ_PSN + 1;
}

static void give_middle(void)
{
	fill((uint8_t)(next_psn - RIG_RQ_PSN));
	rig_give(&rig, rig_request(VB_OP_WRITE_MIDDLE, next_psn++, RIG_MTU));
}

static void give_middles(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		give_middle();
}

static void end_write(void)
{
	fill(PACKETS - 1);
	rig_give_op(&rig, VB_OP_WRITE_LAST, next_psn, RIG_MTU);
}

static void assert_written(unsigned packets)
{
	for (unsigned i = 0; i < packets; i++) {
		assert_int_equal(rig.region[(size_t)i * RIG_MTU], i);
		assert_int_equal(rig.region[(size_t)(i + 1) * RIG_MTU - 1], i);
	}
}

static void a_burst_is_written(void **state)
{
	begin_write();
	give_middles(PACKETS - 2);
	assert_int_equal(rig.roce.sequel.burst, BURST);
	end_write();
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).psn, next_psn);
	assert_written(PACKETS);
}

/* The bit, like the PSN, differs from packet to packet. */
static void any_packet_may_ask_for_an_ack(void **state)
{
	begin_write();
	give_middles(2);
	rig_give_op(&rig, VB_OP_WRITE_MIDDLE, next_psn, RIG_MTU);
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).psn, next_psn++);
	give_middle();
	rig_turn(&rig);
	rig_take_none(&rig);
}

static void a_damaged_packet_is_dropped(void **state)
{
	begin_write();
	give_middles(2);
	rig.damaged = true;
	give_middle();
	rig.damaged = false;
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_ICRC], 1);
	assert_written(3);
	assert_int_not_equal(rig.region[3 * RIG_MTU], 3);
	give_middle(); /* behind a gap: it is kept */
	assert_int_not_equal(rig.region[4 * RIG_MTU], 4);
	rig_wait_ns(&rig, 1000000);
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).syndrome, VB_NAK_SEQUENCE);
	next_psn = RIG_RQ_PSN + 3;
	give_middles(PACKETS - 4);
	end_write();
	assert_written(PACKETS);
}

static void the_last_bytes_of_a_region_are_not_passed(void **state)
{
	begin_write();
	give_middles(PACKETS - 2);
	give_middle(); /* the message ends here */
	give_middle();
	rig_turn(&rig);
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).syndrome, VB_NAK_INVALID_REQUEST);
	assert_written(PACKETS - 1);
}

static void another_pkey_is_refused(void **state)
{
	begin_write();
	give_middles(2);
	rig.pkey = 0x1234;
	give_middle();
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_PKEY], 1);
	assert_written(3);
}

static void a_qp_that_fails_takes_no_more(void **state)
{
	begin_write();
	give_middles(2);
	assert_true(vb_qp_enter_error(rig.qp));
	give_middle();
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_STATE], 1);
	assert_written(3);
}

static void a_region_that_is_gone_is_not_written(void **state)
{
	struct vb_mr_spec spec = { .length = RIG_REGION };

	begin_write();
	give_middles(2);
	assert_int_equal(vb_mr_deregister(rig.mr), 0);
	give_middle();
	rig_turn(&rig);
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).syndrome, VB_NAK_ACCESS);
	assert_written(3);
	spec.addr = spec.iova = (uintptr_t)rig.region;
	assert_int_equal(vb_mr_register(rig.pd, &spec, &rig.mr), 0); /* for rig_close */
}

static void a_qp_that_goes_is_forgotten(void **state)
{
	begin_write();
	give_middles(2);
	vb_roce_forget_sequel(rig.wired);
	assert_int_equal(rig.roce.sequel.burst, 0);
	give_middles(PACKETS - 4);
	end_write();
	assert_written(PACKETS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(a_burst_is_written),
		TEST_RC(any_packet_may_ask_for_an_ack),
		TEST_RC(a_damaged_packet_is_dropped),
		TEST_RC(the_last_bytes_of_a_region_are_not_passed),
		TEST_RC(another_pkey_is_refused),
		TEST_RC(a_qp_that_fails_takes_no_more),
		TEST_RC(a_region_that_is_gone_is_not_written),
		TEST_RC(a_qp_that_goes_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
