/* SPDX-License-Identifier: BSD-2-Clause */
/* ATOMIC WRITE and FLUSH: requests that a READ response without bytes answers. */
#include "exec/flush.h"
#include "nic/mr.h"
#include "rig_case.h"

enum { WORD = 64, RANGE = IBV_FLUSH_RANGE, REGION = IBV_FLUSH_MR };

static void take_empty(uint32_t psn, uint32_t msn)
{
	struct vb_packet packet = rig_take_op(&rig, VB_OP_READ_RESPONSE_ONLY);

	assert_int_equal(packet.payload_length, 0);
	assert_int_equal(packet.psn, psn);
	assert_int_equal(packet.msn, msn);
	assert_int_equal(packet.syndrome & VB_SYNDROME_KIND, VB_SYNDROME_ACK);
}

static uint64_t word(void)
{
	uint64_t value;

	memcpy(&value, rig.region + WORD, sizeof(value));
	return value;
}

static struct vb_packet atomic_write(uint32_t psn, uint64_t value)
{
	struct vb_packet packet = rig_request(VB_OP_ATOMIC_WRITE, psn, sizeof(value));

	memcpy(rig.payload, &value, sizeof(value));
	packet.va = (uintptr_t)rig.region + WORD;
	packet.rkey = rig.mr->ibv.rkey;
	packet.dma_length = sizeof(value);
	return packet;
}

static void give(struct vb_packet packet)
{
	rig_give(&rig, packet);
	rig_turn(&rig);
}

static void an_atomic_write_is_executed_once(void **state)
{
	(void)state;
	rig_open(&rig);
	give(atomic_write(RIG_RQ_PSN, 0x1111));
	take_empty(RIG_RQ_PSN, 1);
	assert_int_equal(word(), 0x1111);
	give(atomic_write(RIG_RQ_PSN + 1, 0x2222));
	take_empty(RIG_RQ_PSN + 1, 2);
	/* The answer to the first was lost: it comes again, and must not undo the second. */
	give(atomic_write(RIG_RQ_PSN, 0x1111));
	take_empty(RIG_RQ_PSN, 2);
	assert_int_equal(word(), 0x2222);
	rig_take_none(&rig);
}

static void an_atomic_write_behind_a_gap_waits_for_it(void **state)
{
	(void)state;
	rig_open(&rig);
	give(atomic_write(RIG_RQ_PSN + 1, 0x2222));
	rig_wait_ns(&rig, 1000000);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN);
	assert_int_not_equal(word(), 0x2222);
	give(atomic_write(RIG_RQ_PSN, 0x1111));
	take_empty(RIG_RQ_PSN, 1);
	take_empty(RIG_RQ_PSN + 1, 2);
	assert_int_equal(word(), 0x2222);
}

static void refused(struct vb_packet packet, uint8_t syndrome)
{
	uint64_t before = word();

	give(packet);
	rig_take_nak(&rig, syndrome, RIG_RQ_PSN);
	assert_int_equal(word(), before);
}

static void an_atomic_write_must_be_aligned(void **state)
{
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	packet = atomic_write(RIG_RQ_PSN, 1);
	packet.va += 4;
	refused(packet, VB_NAK_INVALID_REQUEST);
}

static void an_atomic_write_says_that_it_has_eight_bytes(void **state)
{
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	packet = atomic_write(RIG_RQ_PSN, 1);
	packet.dma_length = 16;
	refused(packet, VB_NAK_INVALID_REQUEST);
}

static void an_atomic_write_needs_the_key_to_allow_it(void **state)
{
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	packet = atomic_write(RIG_RQ_PSN, 1);
	packet.rkey = rig.mr_deaf->ibv.rkey;
	refused(packet, VB_NAK_ACCESS);
}

static void an_atomic_write_takes_a_resource(void **state)
{
	(void)state;
	rig.attr.max_dest_rd_atomic = 0;
	rig_open(&rig);
	refused(atomic_write(RIG_RQ_PSN, 1), VB_NAK_INVALID_REQUEST);
}

/* --- FLUSH --- */

static struct vb_mr *flushable;

static void open_flushable(unsigned qp_access)
{
	struct vb_mr_spec spec = {
		.length = 4096,
		.access =
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL,
	};

	rig.attr.qp_access_flags |= qp_access;
	rig_open(&rig);
	spec.addr = spec.iova = (uintptr_t)rig.region;
	assert_int_equal(vb_mr_register(rig.pd, &spec, &flushable), 0);
}

static struct vb_packet flush(uint32_t psn, uint32_t types, uint32_t select)
{
	struct vb_packet packet = rig_request(VB_OP_FLUSH, psn, 0);

	packet.flush = types | select << VB_FLUSH_SELECT_SHIFT;
	packet.va = (uintptr_t)rig.region;
	packet.rkey = flushable->ibv.rkey;
	packet.dma_length = 4096;
	return packet;
}

static void a_flush_is_answered_again_and_again(void **state)
{
	(void)state;
	open_flushable(IBV_ACCESS_FLUSH_GLOBAL);
	give(flush(RIG_RQ_PSN, IBV_FLUSH_GLOBAL, RANGE));
	take_empty(RIG_RQ_PSN, 1);
	give(flush(RIG_RQ_PSN + 1, IBV_FLUSH_GLOBAL, REGION));
	take_empty(RIG_RQ_PSN + 1, 2);
	give(flush(RIG_RQ_PSN, IBV_FLUSH_GLOBAL, RANGE));
	take_empty(RIG_RQ_PSN, 2);
	assert_int_equal(vb_mr_deregister(flushable), 0);
}

/* Of a whole region the range does not matter, of a range it does. */
static void a_flush_has_a_range_or_a_region(void **state)
{
	struct vb_packet packet;

	(void)state;
	open_flushable(IBV_ACCESS_FLUSH_GLOBAL);
	packet = flush(RIG_RQ_PSN, IBV_FLUSH_GLOBAL, REGION);
	packet.va = 0;
	give(packet);
	take_empty(RIG_RQ_PSN, 1);
	packet = flush(RIG_RQ_PSN + 1, IBV_FLUSH_GLOBAL, RANGE);
	packet.dma_length = 4097;
	give(packet);
	rig_take_nak(&rig, VB_NAK_ACCESS, RIG_RQ_PSN + 1);
	assert_int_equal(vb_mr_deregister(flushable), 0);
}

static void a_flush_needs_the_right_of_the_qp(void **state)
{
	(void)state;
	open_flushable(0);
	give(flush(RIG_RQ_PSN, IBV_FLUSH_GLOBAL, RANGE));
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN);
	assert_int_equal(vb_mr_deregister(flushable), 0);
}

static void a_flush_needs_the_right_of_the_region(void **state)
{
	struct vb_packet packet;

	(void)state;
	open_flushable(IBV_ACCESS_FLUSH_GLOBAL);
	packet = flush(RIG_RQ_PSN, IBV_FLUSH_GLOBAL, RANGE);
	packet.rkey = rig.mr->ibv.rkey;
	give(packet);
	rig_take_nak(&rig, VB_NAK_ACCESS, RIG_RQ_PSN);
	assert_int_equal(vb_mr_deregister(flushable), 0);
}

/* No region can be registered for it, so nothing is ever promised to be durable. */
static void a_persistent_flush_is_refused(void **state)
{
	struct vb_mr_spec spec = {
		.length = 4096,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_FLUSH_PERSISTENT,
	};
	struct vb_mr *mr;

	(void)state;
	open_flushable(IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT);
	spec.addr = spec.iova = (uintptr_t)rig.region;
	assert_int_not_equal(vb_mr_register(rig.pd, &spec, &mr), 0);
	give(flush(RIG_RQ_PSN, IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT, RANGE));
	rig_take_nak(&rig, VB_NAK_ACCESS, RIG_RQ_PSN);
	assert_int_equal(vb_mr_deregister(flushable), 0);
}

static void a_flush_of_no_kind_is_invalid(void **state)
{
	(void)state;
	open_flushable(IBV_ACCESS_FLUSH_GLOBAL);
	give(flush(RIG_RQ_PSN, 0, RANGE));
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN);
	assert_int_equal(vb_mr_deregister(flushable), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(an_atomic_write_is_executed_once),
		TEST_RC(an_atomic_write_behind_a_gap_waits_for_it),
		TEST_RC(an_atomic_write_must_be_aligned),
		TEST_RC(an_atomic_write_says_that_it_has_eight_bytes),
		TEST_RC(an_atomic_write_needs_the_key_to_allow_it),
		TEST_RC(an_atomic_write_takes_a_resource),
		TEST_RC(a_flush_is_answered_again_and_again),
		TEST_RC(a_flush_has_a_range_or_a_region),
		TEST_RC(a_flush_needs_the_right_of_the_qp),
		TEST_RC(a_flush_needs_the_right_of_the_region),
		TEST_RC(a_persistent_flush_is_refused),
		TEST_RC(a_flush_of_no_kind_is_invalid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
