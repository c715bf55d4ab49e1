/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "path/roce/roce.h"

enum { BURSTS = 512 };

static struct vb_roce roce;
static struct vb_way ways[2];
static struct vb_burst sent[BURSTS];
static unsigned count, packets_max;

/* Every packet of a burst carries the ICRC of its place in it. */
static void sink_send(void *arg, const struct vb_burst *bursts, unsigned n)
{
	(void)arg;
	for (unsigned i = 0; i < n; i++) {
		uint16_t place = 0, id;

		assert_true(count < BURSTS);
		sent[count++] = bursts[i];
		assert_true(bursts[i].length <= VB_BURST_BYTES);
		for (uint32_t at = 0; at < bursts[i].length; at += bursts[i].segment, place++) {
			uint32_t rest = bursts[i].length - at;
			uint32_t length = rest < bursts[i].segment ? rest : bursts[i].segment;

			assert_true(vb_icrc_check(&bursts[i].way->flow, bursts[i].bytes + at,
						  length - VB_ICRC_LENGTH, &id));
			assert_int_equal(id, vb_port_id(place));
		}
	}
}

static unsigned burst_max(void *arg, const struct vb_way *way)
{
	(void)arg, (void)way;
	return packets_max;
}

static int begin(void **state)
{
	(void)state;
	memset(&roce, 0, sizeof(roce));
	roce.sink = (struct vb_roce_sink){ .send = sink_send, .burst_max = burst_max };
	count = 0;
	packets_max = 64;
	for (unsigned i = 0; i < 2; i++) {
		ways[i].flow = (struct vb_icrc_flow){ .src = { 10, 0, 0, 1 },
						      .dst = { 10, 0, 0, (uint8_t)(2 + i) },
						      .src_port = 0xc000,
						      .dst_port = 4791 };
		vb_icrc_flow_init(&ways[i].flow);
	}
	return vb_tx_init(&roce.tx, &roce);
}

static int end(void **state)
{
	(void)state;
	vb_tx_fini(&roce.tx);
	return 0;
}

static void put(const struct vb_way *way, uint32_t length)
{
	struct vb_packet packet = {
		.opcode = VB_OP_SEND_MIDDLE, .pkey = 0xffff, .dest_qpn = 7, .payload_length = length
	};

	memset(vb_tx_begin(&roce.tx, way, &packet), 0x5a, length);
	vb_tx_end(&roce.tx);
}

/* sink_send checks the ICRC of each. */
static void packets_of_a_burst_may_differ(void **state)
{
	struct vb_packet packet = { .opcode = VB_OP_SEND_MIDDLE, .payload_length = 256 };

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		packet.psn = i;
		packet.ack_request = i % 3 == 0;
		packet.pkey = i % 5 ? 0xffff : 0x8001;
		packet.dest_qpn = i % 7 ? 7 : 8;
		packet.migreq = i % 11 == 0;
		memset(vb_tx_begin(&roce.tx, &ways[0], &packet), (int)i, 256);
		if (i % 13 == 5) { /* another one takes its place */
			vb_tx_cancel(&roce.tx);
			packet.dest_qpn = 9;
			memset(vb_tx_begin(&roce.tx, &ways[0], &packet), (int)i, 256);
		}
		vb_tx_end(&roce.tx);
	}
	vb_tx_flush(&roce.tx);
	assert_int_equal(count, 1);
}

static void packets_of_one_size_leave_together(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++)
		put(&ways[0], 1024);
	vb_tx_flush(&roce.tx);
	assert_int_equal(count, 1);
	assert_int_equal(sent[0].length, 10 * sent[0].segment);
}

static void only_the_last_packet_is_shorter(void **state)
{
	(void)state;
	put(&ways[0], 1024);
	put(&ways[0], 100);
	put(&ways[0], 100);
	vb_tx_flush(&roce.tx);
	assert_int_equal(count, 2);
	assert_true(sent[0].length > sent[0].segment && sent[0].length < 2 * sent[0].segment);
}

static void a_longer_packet_begins_a_burst(void **state)
{
	(void)state;
	put(&ways[0], 100);
	put(&ways[0], 1024);
	vb_tx_flush(&roce.tx);
	assert_int_equal(count, 2);
}

static void another_way_begins_a_burst(void **state)
{
	(void)state;
	put(&ways[0], 1024);
	put(&ways[1], 1024);
	put(&ways[1], 1024);
	vb_tx_flush(&roce.tx);
	assert_int_equal(count, 2);
	assert_ptr_equal(sent[1].way, &ways[1]);
}

static void a_way_that_cannot_burst_sends_one_by_one(void **state)
{
	(void)state;
	packets_max = 1;
	for (unsigned i = 0; i < 5; i++)
		put(&ways[0], 1024);
	vb_tx_flush(&roce.tx);
	assert_int_equal(count, 5);
}

/* More than the buffer and more bursts than there is room for: all of it leaves, once. */
static void whatever_is_put_in_leaves(void **state)
{
	uint64_t bytes = 0, want = 0;

	(void)state;
	for (unsigned i = 0; i < 400; i++) {
		put(&ways[i % 2], i * 10);
		want += 12 + ((i * 10 + 3) & ~3u) + VB_ICRC_LENGTH;
	}
	vb_tx_flush(&roce.tx);
	for (unsigned i = 0; i < count; i++)
		bytes += sent[i].length;
	assert_int_equal(bytes, want);
	vb_tx_flush(&roce.tx);
	vb_tx_flush(&roce.tx);
	put(&ways[0], 8);
	vb_tx_flush(&roce.tx);
	assert_int_equal(sent[count - 1].length, 12 + 8 + VB_ICRC_LENGTH);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(packets_of_a_burst_may_differ),
		TEST(packets_of_one_size_leave_together),
		TEST(only_the_last_packet_is_shorter),
		TEST(a_longer_packet_begins_a_burst),
		TEST(another_way_begins_a_burst),
		TEST(a_way_that_cannot_burst_sends_one_by_one),
		TEST(whatever_is_put_in_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
