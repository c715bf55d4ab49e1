/* SPDX-License-Identifier: BSD-2-Clause */
/* What fault rules do to packets, between an engine and a port that only count them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/wire/wire.h"
#include "path/fault/fault.h"
#include "wire/opcode.h"

enum { QPN = 0x1000, LENGTH = 64, START_NS = 1000000 };

static const char rules[] = "delay packet direction=in by=1us;"
			    "delay packet direction=out opcode=ack by=1000s;"
			    "corrupt packet direction=out opcode=write seed=5;"
			    "corrupt packet direction=out opcode=read_request bit=39";

static struct vb_lane lane;
static unsigned sent, taken_in;
static uint8_t last[LENGTH]; /* that was sent */

/* Linked in their places. */
void __wrap_vb_port_send(struct vb_port *port, const struct vb_burst *bursts, unsigned count);
unsigned __wrap_vb_roce_input(struct vb_roce *roce, const struct vb_arrival *arrival);

void __wrap_vb_port_send(struct vb_port *port, const struct vb_burst *bursts, unsigned count)
{
	sent += count;
	assert_int_equal(bursts[count - 1].length, LENGTH);
	memcpy(last, bursts[count - 1].bytes, LENGTH);
}

unsigned __wrap_vb_roce_input(struct vb_roce *roce, const struct vb_arrival *arrival)
{
	taken_in++;
	return 1;
}

static void send_one(uint8_t opcode)
{
	static const struct vb_way way;
	const uint8_t bytes[LENGTH] = { opcode };
	const struct vb_burst burst = {
		.way = &way,
		.bytes = bytes,
		.length = LENGTH,
		.segment = LENGTH,
		.qpn = QPN,
	};

	vb_wire_fault_send(&lane, &burst, 1);
}

static void receive_one(uint8_t opcode)
{
	static const struct vb_icrc_flow flow;
	const uint8_t bytes[LENGTH] = { opcode };
	const struct vb_arrival arrival = { .flow = &flow, .bytes = bytes, .length = LENGTH };

	vb_wire_fault_input(&lane, &arrival);
}

static int begin(void **state)
{
	sent = taken_in = 0;
	lane.fault = vb_wire_fault_new();
	lane.roce.now_ns = START_NS;
	for (unsigned i = 0; i < VB_WIRED_BUCKETS; i++)
		vb_list_init(&lane.roce.wired[i]);
	return !lane.fault;
}

static int end(void **state)
{
	vb_delay_line_fini(&lane.fault->in);
	vb_delay_line_fini(&lane.fault->out);
	free(lane.fault);
	return 0;
}

/* Whoever sends has packets half made, and QPs half looked at. */
static void nothing_comes_in_while_packets_go_out(void **state)
{
	receive_one(VB_OP_SEND_ONLY);
	lane.roce.now_ns += 1000;
	send_one(VB_OP_SEND_ONLY);
	assert_int_equal(sent, 1);
	assert_int_equal(taken_in, 0);
	vb_wire_fault_release(&lane);
	assert_int_equal(taken_in, 1);
}

static void what_waits_to_go_out_goes_at_the_end(void **state)
{
	receive_one(VB_OP_SEND_ONLY);
	send_one(VB_OP_ACKNOWLEDGE);
	send_one(VB_OP_ACKNOWLEDGE);
	assert_int_equal(sent, 0);
	vb_wire_fault_farewell(&lane);
	assert_int_equal(sent, 2);
	assert_int_equal(taken_in, 0);
}

/*
 * Of the last packet, all zero but for its opcode: the one bit that is set; -1: there are others.
 */
static int spoilt_bit(uint8_t opcode)
{
	int found = -1;

	last[0] ^= opcode;
	for (int bit = 0; bit < LENGTH * 8; bit++) {
		if (!(last[bit / 8] >> bit % 8 & 1))
			continue;
		if (found >= 0)
			return -1;
		found = bit;
	}
	return found;
}

static void the_bit_drawn_is_one_that_the_receiver_checks(void **state)
{
	bool drawn[LENGTH * 8] = { false };

	for (unsigned i = 0; i < LENGTH * 8 * 20; i++) {
		int bit;

		send_one(VB_OP_WRITE_ONLY);
		bit = spoilt_bit(VB_OP_WRITE_ONLY);
		assert_true(bit >= 0);
		drawn[bit] = true;
	}
	for (unsigned bit = 0; bit < LENGTH * 8; bit++)
		assert_int_equal(drawn[bit], bit / 8 != 4);
	send_one(VB_OP_READ_REQUEST);
	assert_int_equal(spoilt_bit(VB_OP_READ_REQUEST), 39);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_comes_in_while_packets_go_out, begin, end),
		cmocka_unit_test_setup_teardown(what_waits_to_go_out_goes_at_the_end, begin, end),
		cmocka_unit_test_setup_teardown(the_bit_drawn_is_one_that_the_receiver_checks,
						begin, end),
	};

	setenv("VERBENA_FAULTS", rules, 1);
	return vb_fault_load() ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
