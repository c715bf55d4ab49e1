/* SPDX-License-Identifier: BSD-2-Clause */
/* The invariant CRC, with the IPv4 identification and without it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "icrc_reference.h"
#include "sample.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { DF = 0x4000, LENGTH_MAX = VB_PACKET_MAX - VB_ICRC_LENGTH };

static struct vb_icrc_flow random_flow(bool ipv6, uint64_t *seed)
{
	struct vb_icrc_flow flow = { .ipv6 = ipv6, .dst_port = VB_UDP_PORT_ROCE };

	for (unsigned i = 0; i < (ipv6 ? 16 : 4); i++) {
		flow.src[i] = (uint8_t)sample_random(seed);
		flow.dst[i] = (uint8_t)sample_random(seed);
	}
	flow.src_port = (uint16_t)sample_random(seed);
	vb_icrc_flow_init(&flow);
	return flow;
}

/* With room for the ICRC, and no byte more; to be freed. */
static uint8_t *random_packet(size_t length, uint64_t *seed)
{
	uint8_t *packet = malloc(length + VB_ICRC_LENGTH);

	for (size_t i = 0; i < length + VB_ICRC_LENGTH; i++)
		packet[i] = (uint8_t)sample_random(seed);
	return packet;
}

/* Two acknowledgements of Linux Soft-RoCE, as captured. */
static void captured_packets_have_their_captured_icrc(void **state)
{
	/* clang-format off */
	static const uint8_t ipv4[] = {
		0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x00, 0xff,
		0xff, 0xf8, 0x1f, 0x00, 0x00, 0x01, 0xef, 0x80, 0x5d, 0x72,
	};
	static const uint8_t ipv6[] = {
		0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x12, 0x00, 0xff,
		0xff, 0xf8, 0x1f, 0x00, 0x00, 0x01, 0x4f, 0x08, 0x37, 0x2f,
	};
	struct vb_icrc_flow flow4 = {
		.src = { 198, 51, 100, 12 }, .dst = { 198, 51, 100, 11 },
		.src_port = 49441, .dst_port = 4791,
	};
	struct vb_icrc_flow flow6 = {
		.ipv6 = true,
		.src = { 0xfd, 0, 0, 0x51, 1, 0, [15] = 0x12 },
		.dst = { 0xfd, 0, 0, 0x51, 1, 0, [15] = 0x11 },
		.src_port = 49476, .dst_port = 4791,
	};
	/* clang-format on */
	uint16_t id = 0;

	vb_icrc_flow_init(&flow4);
	vb_icrc_flow_init(&flow6);
	assert_int_equal(vb_icrc(&flow4, 14209, ipv4, 16), 0x725d80ef);
	assert_true(vb_icrc_check(&flow4, ipv4, 16, &id));
	assert_int_equal(id, 14209);
	assert_int_equal(vb_icrc(&flow6, 0, ipv6, 16), 0x2f37084f);
	assert_true(vb_icrc_check(&flow6, ipv6, 16, &id));
	assert_int_equal(id, 0);
}

static void assert_as_the_reference(bool ipv6, size_t length, uint64_t *seed)
{
	struct vb_icrc_flow flow = random_flow(ipv6, seed);
	uint8_t *packet = random_packet(length, seed);
	uint16_t id = (uint16_t)sample_random(seed), found = 1;
	uint32_t icrc = vb_icrc(&flow, id, packet, length);

	assert_int_equal(icrc, reference_icrc(&flow, id, DF, packet, length));
	vb_icrc_put(&flow, id, packet, length);
	for (unsigned i = 0; i < VB_ICRC_LENGTH; i++)
		assert_int_equal(packet[length + i], icrc >> 8 * i & 0xff);
	assert_true(vb_icrc_check(&flow, packet, length, &found));
	assert_int_equal(found, ipv6 ? 0 : id);
	assert_true(vb_icrc_check(&flow, packet, length, NULL));
	free(packet);
}

static void every_length_gives_what_the_reference_gives(void **state)
{
	uint64_t seed = 1;

	for (size_t length = VB_BTH_LENGTH; length < 600; length++) {
		assert_as_the_reference(false, length, &seed);
		assert_as_the_reference(true, length, &seed);
	}
	for (size_t length = 600; length <= LENGTH_MAX; length += 29) {
		assert_as_the_reference(false, length, &seed);
		assert_as_the_reference(true, length, &seed);
	}
	assert_as_the_reference(false, LENGTH_MAX, &seed);
	assert_as_the_reference(true, LENGTH_MAX, &seed);
}

static void a_long_datagram_has_an_icrc_too(void **state)
{
	uint64_t seed = 2;
	struct vb_icrc_flow flow = random_flow(false, &seed);
	uint8_t *packet = random_packet(65000, &seed);

	assert_int_equal(vb_icrc(&flow, 7, packet, 65000),
			 reference_icrc(&flow, 7, DF, packet, 65000));
	free(packet);
}

static void every_identification_is_found(void **state)
{
	uint64_t seed = 3;
	struct vb_icrc_flow flow = random_flow(false, &seed);
	uint8_t *packet = random_packet(28, &seed);

	for (unsigned id = 0; id < 65536; id++) {
		uint16_t found = (uint16_t)~id, guess = (uint16_t)(id / 3);

		vb_icrc_put(&flow, (uint16_t)id, packet, 28);
		assert_true(vb_icrc_check(&flow, packet, 28, &found));
		assert_int_equal(found, id);
		assert_true(vb_icrc_check_guess(&flow, packet, 28, &found));
		assert_int_equal(found, id);
		assert_true(vb_icrc_check_guess(&flow, packet, 28, &guess));
		assert_int_equal(guess, id);
	}
	free(packet);
}

static void assert_shares_head(bool ipv6, uint64_t *seed)
{
	struct vb_icrc_flow flow = random_flow(ipv6, seed);
	uint8_t *first = random_packet(1040, seed), *next = random_packet(1040, seed);
	const uint32_t head = vb_icrc_head(&flow, first, 1036);
	const uint16_t id = (uint16_t)sample_random(seed);
	uint16_t found = 0;

	memcpy(next, first, VB_ICRC_HEAD);
	assert_int_equal(vb_icrc_behind(&flow, head, id, next, 1036),
			 vb_icrc(&flow, id, next, 1036));
	vb_icrc_put_behind(&flow, head, id, next, 1036);
	assert_true(vb_icrc_check(&flow, next, 1036, NULL));
	assert_true(vb_icrc_check_behind(&flow, head, next, 1036, &found));
	assert_int_equal(found, ipv6 ? 0 : id);
	next[VB_ICRC_HEAD + sample_random(seed) % 1000] ^= 0x10;
	assert_false(vb_icrc_check_behind(&flow, head, next, 1036, &found));
	free(first);
	free(next);
}

/* The head depends on length, flow and first bytes, and on nothing else. */
static void packets_share_the_head_of_their_icrc(void **state)
{
	uint64_t seed = 9;

	for (unsigned i = 0; i < 200; i++)
		assert_shares_head(i % 2, &seed);
}

/* A fragment, or a datagram that may become one. */
static void other_flags_than_df_are_refused(void **state)
{
	uint64_t seed = 4;
	struct vb_icrc_flow flow = random_flow(false, &seed);
	uint8_t *packet = random_packet(1040, &seed);

	for (unsigned bit = 0; bit < 16; bit++) {
		uint32_t icrc = reference_icrc(&flow, 99, (uint16_t)(DF ^ 1u << bit), packet, 1040);

		for (unsigned i = 0; i < VB_ICRC_LENGTH; i++)
			packet[1040 + i] = (uint8_t)(icrc >> 8 * i);
		assert_false(vb_icrc_check(&flow, packet, 1040, NULL));
	}
	free(packet);
}

/* Each bit of packet and ICRC in turn is wrong; those that routers may change are not looked at. */
static void assert_every_bit_counts(bool ipv6, size_t length, uint64_t *seed)
{
	struct vb_icrc_flow flow = random_flow(ipv6, seed);
	uint8_t *packet = random_packet(length, seed);

	vb_icrc_put(&flow, (uint16_t)sample_random(seed), packet, length);
	for (size_t i = 0; i < 8 * (length + VB_ICRC_LENGTH); i++) {
		packet[i / 8] ^= (uint8_t)(1 << i % 8);
		if (vb_icrc_check(&flow, packet, length, NULL) != (i / 8 == 4))
			fail_msg("bit %zu of %zu bytes", i, length);
		packet[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	free(packet);
}

static void a_wrong_bit_is_always_seen(void **state)
{
	static const size_t lengths[] = { 12, 16, 28, 44, 45, 300, 1052, 2060, LENGTH_MAX };
	uint64_t seed = 5;

	for (size_t i = 0; i < COUNT(lengths); i++) {
		assert_every_bit_counts(false, lengths[i], &seed);
		assert_every_bit_counts(true, lengths[i], &seed);
	}
}

/* A wrong bit in addresses or ports: the packet came from, or was meant for, somebody else. */
static void assert_every_header_bit_counts(bool ipv6, uint64_t *seed)
{
	struct vb_icrc_flow flow = random_flow(ipv6, seed);
	uint8_t *packet = random_packet(80, seed);
	unsigned address_bits = ipv6 ? 128 : 32;

	vb_icrc_put(&flow, 3, packet, 80);
	for (unsigned i = 0; i < 2 * address_bits + 32; i++) {
		struct vb_icrc_flow other = flow;

		if (i < 2 * address_bits)
			(i < address_bits ? other.src : other.dst)[i % address_bits / 8] ^=
				1 << i % 8;
		else if (i < 2 * address_bits + 16)
			other.src_port ^= (uint16_t)(1 << i % 16);
		else
			other.dst_port ^= (uint16_t)(1 << i % 16);
		vb_icrc_flow_init(&other);
		assert_false(vb_icrc_check(&other, packet, 80, NULL));
	}
	free(packet);
}

static void a_wrong_address_or_port_is_seen(void **state)
{
	uint64_t seed = 6;

	assert_every_header_bit_counts(false, &seed);
	assert_every_header_bit_counts(true, &seed);
}

/* Garbage: 2^-16 of it passes over IPv4, so of 200,000 about 3; none over IPv6. */
static void garbage_hardly_ever_passes(void **state)
{
	uint64_t seed = 7;
	struct vb_icrc_flow flow4 = random_flow(false, &seed), flow6 = random_flow(true, &seed);
	unsigned passed4 = 0, passed6 = 0;

	for (unsigned i = 0; i < 200000; i++) {
		uint64_t packet[4] = { sample_random(&seed), sample_random(&seed),
				       sample_random(&seed), sample_random(&seed) };

		passed4 += vb_icrc_check(&flow4, (uint8_t *)packet, 28, NULL);
		passed6 += vb_icrc_check(&flow6, (uint8_t *)packet, 28, NULL);
	}
	assert_in_range(passed4, 0, 15);
	assert_int_equal(passed6, 0);
}

static void what_cannot_be_a_packet_is_refused(void **state)
{
	uint64_t seed = 8;
	struct vb_icrc_flow flow = random_flow(false, &seed);
	uint8_t *packet = random_packet(VB_PACKET_MAX + 1, &seed);

	vb_icrc_put(&flow, 0, packet, VB_PACKET_MAX + 1);
	assert_false(vb_icrc_check(&flow, packet, VB_PACKET_MAX + 1, NULL));
	for (size_t length = 0; length < VB_BTH_LENGTH; length++)
		assert_false(vb_icrc_check(&flow, packet, length, NULL));
	free(packet);
}

/* Counts instead of asserting: only the main thread may fail a test. */
static void *check_in_thread(void *arg)
{
	uint64_t seed = *(uint64_t *)arg;
	uintptr_t wrong = 0;

	for (unsigned i = 0; i < 200; i++) {
		struct vb_icrc_flow flow = random_flow(i & 1, &seed);
		uint8_t *packet = random_packet(12 + i, &seed);

		wrong += vb_icrc(&flow, 5, packet, 12 + i) !=
			 reference_icrc(&flow, 5, DF, packet, 12 + i);
		free(packet);
	}
	return (void *)wrong;
}

/* Runs first: the threads meet at the tables that nobody has built yet. */
static void threads_may_begin_at_once(void **state)
{
	uint64_t seeds[4] = { 11, 12, 13, 14 };
	pthread_t threads[COUNT(seeds)];

	for (size_t i = 0; i < COUNT(seeds); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, check_in_thread, &seeds[i]), 0);
	for (size_t i = 0; i < COUNT(seeds); i++) {
		void *wrong;

		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_may_begin_at_once),
		cmocka_unit_test(captured_packets_have_their_captured_icrc),
		cmocka_unit_test(every_length_gives_what_the_reference_gives),
		cmocka_unit_test(a_long_datagram_has_an_icrc_too),
		cmocka_unit_test(every_identification_is_found),
		cmocka_unit_test(packets_share_the_head_of_their_icrc),
		cmocka_unit_test(other_flags_than_df_are_refused),
		cmocka_unit_test(a_wrong_bit_is_always_seen),
		cmocka_unit_test(a_wrong_address_or_port_is_seen),
		cmocka_unit_test(garbage_hardly_ever_passes),
		cmocka_unit_test(what_cannot_be_a_packet_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
