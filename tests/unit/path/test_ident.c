/* SPDX-License-Identifier: BSD-2-Clause */
/* Which IPv4 identifications are taken from a peer, and how much damage that leaves unseen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../wire/sample.h"
#include "path/roce/ident.h"

#define MS 1000000ull
#define S  1000000000ull

static struct vb_ident_table *table;
static uint64_t now_ns, seed;

static int begin(void **state)
{
	(void)state;
	table = calloc(1, sizeof(*table));
	now_ns = 1000 * S;
	seed = 1;
	return !table;
}

static int end(void **state)
{
	(void)state;
	free(table);
	return 0;
}

static struct vb_icrc_flow flow_from(uint32_t host)
{
	struct vb_icrc_flow flow = { .dst = { 192, 0, 2, 7 },
				     .src_port = 0xc123,
				     .dst_port = VB_UDP_PORT_ROCE };

	flow.src[0] = 10;
	flow.src[1] = (uint8_t)(host >> 16);
	flow.src[2] = (uint8_t)(host >> 8);
	flow.src[3] = (uint8_t)host;
	vb_icrc_flow_init(&flow);
	return flow;
}

static bool takes_from(uint32_t host, unsigned id)
{
	const struct vb_icrc_flow flow = flow_from(host);

	return vb_ident_takes(table, &flow, (uint16_t)id, now_ns);
}

static bool takes(unsigned id)
{
	return takes_from(1, id);
}

/* From here on the peer is known: its first packets are behind it. */
static void know(uint32_t host, unsigned id)
{
	assert_true(takes_from(host, id));
	now_ns += S;
	assert_true(takes_from(host, id));
}

/* Of all identifications, on copies of the table: what one damaged packet may have. */
static unsigned takes_of_all(void)
{
	struct vb_ident_table *before = malloc(sizeof(*before));
	unsigned count = 0;

	assert_non_null(before);
	*before = *table;
	before->last = NULL;
	for (unsigned id = 0; id < 1 << 16; id++) {
		count += takes(id);
		*table = *before;
	}
	free(before);
	return count;
}

/* --- what peers do --- */

static void bursts_of_our_own_kind_are_taken(void **state)
{
	(void)state;
	know(1, 0);
	for (unsigned length = 1; length <= VB_IDENT_OWN; length++)
		for (unsigned i = 0; i < length; i++)
			assert_true(takes(i));
	/* With losses, the other way round, after a long time. */
	for (unsigned i = VB_IDENT_OWN; i-- > 0; now_ns += S * i)
		assert_true(takes(i));
	assert_int_equal(takes_of_all(), VB_IDENT_OWN);
}

static void a_counter_is_followed(void **state)
{
	unsigned id = 60000;

	(void)state;
	know(1, id);
	for (unsigned i = 0; i < 100000; i++, now_ns += 1000)
		assert_true(takes(id += 1 + sample_random(&seed) % 8 * (i % 16 == 0)));
	/* Packets that overtake others. */
	for (unsigned i = 0; i < 1000; i++, id += 8)
		for (unsigned j = 8; j-- > 0;)
			assert_true(takes(id + j));
	assert_true(takes_of_all() <= 1600);
}

/*
 * A guest whose CPUs take turns: batches that overtake each other, and one packet that is very
 * late.
 */
static void packets_of_a_host_with_several_cpus_are_taken(void **state)
{
	unsigned id = 60000;

	(void)state;
	/*
	 * The second CPU makes the jump for the time before: at the beginning that may be anything.
	 */
	assert_true(takes(id - 400));
	know(1, id - 90);
	for (unsigned round = 0; round < 100; round++, id += 200) {
		for (unsigned i = 0; i < 100; i++, now_ns += 10000)
			assert_true(takes(id + i));
		if (round)
			assert_true(takes(id + 199));
		for (unsigned i = 100; i < 199; i++, now_ns += 10000)
			assert_true(takes(id + i));
		if (round > 3)
			assert_true(takes(id - 453));
	}
	/* One second later none can be so late, but the jump may come with the second packet. */
	now_ns += S;
	assert_true(takes(id));
	assert_true(takes(id + 900));
	assert_true(takes(id + 901));
	assert_false(takes(id - 453));
}

/* As Linux does it: one more, and up to as many as ticks have passed. */
static void a_counter_may_jump_while_it_is_idle(void **state)
{
	unsigned id = 100;

	(void)state;
	assert_true(takes(id));
	for (unsigned i = 0; i < 1000; i++) {
		unsigned idle_ms = (unsigned)(sample_random(&seed) % 4000);

		now_ns += idle_ms * MS;
		id += 1 + (unsigned)(sample_random(&seed) % (idle_ms + 1));
		assert_true(takes(id));
	}
	/* From here on nobody knows. */
	now_ns += 60 * S;
	assert_true(takes(id + 30000));
	assert_true(takes(id + 30001));
}

static void an_identification_that_is_always_the_same_is_taken(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 1000; i++, now_ns += 10 * MS)
		assert_true(takes(0xbeef));
}

/* --- what does not fit --- */

static void one_that_does_not_fit_is_dropped_and_changes_nothing(void **state)
{
	(void)state;
	know(1, 0);
	know(2, 20000);
	for (unsigned i = 0; i < 1000; i++, now_ns += 1000) {
		assert_true(takes(i % VB_IDENT_OWN));
		assert_true(takes_from(2, 20000 + i));
		if (i % 100 != 99)
			continue;
		assert_false(takes(0x8000 + i * 64));
		assert_false(takes_from(2, 0xc000 + i * 64));
	}
	assert_true(takes(3));
	assert_true(takes_from(2, 21000));
}

static void a_second_one_that_agrees_is_believed(void **state)
{
	(void)state;
	know(1, 1000);
	assert_true(takes(1000) && takes(1001));
	assert_false(takes(30000));
	assert_true(takes(30001) && takes(30002));
	assert_false(takes(5)); /* another kind */
	assert_true(takes(0) && takes(1));
	assert_true(takes(30003) && takes(30004));
}

/* Our own kind and the kernel's at one address, and a counter per QP. */
static void several_senders_of_a_host_are_told_apart(void **state)
{
	unsigned dropped = 0;

	(void)state;
	for (unsigned i = 0; i < 10000; i++, now_ns += 1000) {
		dropped += !takes(i % VB_IDENT_OWN);
		for (unsigned j = 1; j <= VB_IDENT_COUNTERS; j++)
			dropped += !takes(j * 13000 + i);
	}
	assert_in_range(dropped, 0, 1 + VB_IDENT_COUNTERS);
}

/* Nothing can be said about those: they lose a few packets, once. */
static void identifications_that_are_random_are_taken(void **state)
{
	unsigned dropped = 0, id = 5000;

	(void)state;
	for (unsigned i = 0; i < 10000; i++, now_ns += 1000)
		dropped += !takes((unsigned)sample_random(&seed));
	assert_in_range(dropped, 0, 4);
	/* When it counts again, it is looked at again. */
	for (unsigned i = 0; i < 1000; i++, now_ns += 1000)
		assert_true(takes(id += 1));
	assert_true(takes_of_all() < 1 << 13);
}

/* --- peers and strangers --- */

static void strangers_cost_a_peer_no_packet(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20000; i++, now_ns += 1000) {
		assert_true(takes(10000 + i));
		for (unsigned j = 0; j < 8; j++)
			(void)takes_from(2 + (unsigned)(sample_random(&seed) % 100000),
					 (unsigned)sample_random(&seed));
	}
}

/* --- damage --- */

enum { COVERED = 12 + 64, TRIALS = 4000000 };

static void damage(uint8_t *packet, size_t size)
{
	const uint64_t how = sample_random(&seed);
	const unsigned count = 1 + (how & 3);

	for (unsigned i = 0; i < count; i++) {
		const uint64_t at = sample_random(&seed);

		packet[at % size] ^=
			how & 4 ? 1 << (at >> 32 & 7) : (uint8_t)(1 + (at >> 32) % 255);
	}
}

/* Bits that the ICRC does not cover may change. */
static bool is_whole(const uint8_t *a, const uint8_t *b, size_t size)
{
	return !memcmp(a, b, 4) && !memcmp(a + 5, b + 5, size - 5);
}

/*
 * Packets of a peer that gives 0, or counts. strong: those that are taken although they are
 * damaged; weak: those that have a right ICRC for some identification, which is what is tested
 * against.
 */
static void damage_packets(bool counts, unsigned *strong, unsigned *weak)
{
	const struct vb_icrc_flow flow = flow_from(1);
	uint8_t packet[COVERED + VB_ICRC_LENGTH], bad[sizeof(packet)];
	unsigned id = counts ? 5000 : 0;

	*strong = *weak = 0;
	for (unsigned i = 0; i < COVERED; i++)
		packet[i] = (uint8_t)sample_random(&seed);
	know(1, id);
	for (unsigned i = 0; i < TRIALS; i++, now_ns += 1000) {
		id += counts;
		vb_icrc_put(&flow, (uint16_t)id, packet, COVERED);
		assert_true(vb_ident_check(table, &flow, packet, COVERED, 0, now_ns));
		memcpy(bad, packet, sizeof(bad));
		damage(bad, sizeof(bad));
		if (is_whole(packet, bad, sizeof(bad)) || !vb_icrc_check(&flow, bad, COVERED, NULL))
			continue;
		++*weak;
		*strong += vb_ident_check(table, &flow, bad, COVERED, 0, now_ns);
	}
}

/*
 * 26 bits instead of 16 for one of our kind, 21 for a counter: of 4,000,000 a tenth of one, and
 * two.
 */
static void damage_is_seen(void **state)
{
	unsigned strong, weak;

	(void)state;
	damage_packets(false, &strong, &weak);
	assert_in_range(weak, 10, 1000);
	assert_in_range(strong, 0, 1);
}

static void damage_is_seen_on_a_counter(void **state)
{
	unsigned strong, weak;

	(void)state;
	damage_packets(true, &strong, &weak);
	assert_in_range(weak, 10, 1000);
	assert_in_range(strong, 0, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bursts_of_our_own_kind_are_taken, begin, end),
		cmocka_unit_test_setup_teardown(a_counter_is_followed, begin, end),
		cmocka_unit_test_setup_teardown(packets_of_a_host_with_several_cpus_are_taken,
						begin, end),
		cmocka_unit_test_setup_teardown(a_counter_may_jump_while_it_is_idle, begin, end),
		cmocka_unit_test_setup_teardown(an_identification_that_is_always_the_same_is_taken,
						begin, end),
		cmocka_unit_test_setup_teardown(
			one_that_does_not_fit_is_dropped_and_changes_nothing, begin, end),
		cmocka_unit_test_setup_teardown(a_second_one_that_agrees_is_believed, begin, end),
		cmocka_unit_test_setup_teardown(several_senders_of_a_host_are_told_apart, begin,
						end),
		cmocka_unit_test_setup_teardown(identifications_that_are_random_are_taken, begin,
						end),
		cmocka_unit_test_setup_teardown(strangers_cost_a_peer_no_packet, begin, end),
		cmocka_unit_test_setup_teardown(damage_is_seen, begin, end),
		cmocka_unit_test_setup_teardown(damage_is_seen_on_a_counter, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
