/* SPDX-License-Identifier: BSD-2-Clause */
/* The 40 bytes in front of a datagram: bytes and values are each other's inverse. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/grh.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

struct grh_row {
	const char *sgid, *dgid;
	uint32_t flow_label;
	uint16_t payload_length;
	uint8_t traffic_class, hop_limit;
	bool infiniband;
};

static const struct grh_row ipv4_rows[] = {
	{ "::ffff:10.0.0.1", "::ffff:10.0.0.2", 0, 32, 0, 64 },
	{ "::ffff:127.0.0.1", "::ffff:127.0.0.1", 0, 0, 0, 1 },
	{ "::ffff:192.168.255.254", "::ffff:239.1.2.3", 0, 4128, 0xb8, 255 },
	{ "::ffff:255.255.255.255", "::ffff:255.255.255.255", 0, 65515, 0xff, 0 },
	{ "::ffff:0.0.0.0", "::ffff:0.0.0.0", 0, 0, 0, 0 },
};

static const struct grh_row ipv6_rows[] = {
	{ "fe80::1", "fe80::2", 0, 32, 0, 64 },
	{ "fe80::1", "fe80::2", 0, 32, 0, 64, .infiniband = true },
	{ "2001:db8::1", "ff0e::ffff:10.1.2.3", 0xfffff, 65535, 0xff, 255 },
	{ "::1", "::1", 0x12345, 4128, 0xa5, 1 },
	{ "::", "::", 0, 0, 0, 0 },
	{ "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::fffe:10.0.0.1", 1, 1, 1, 1 },
};

static struct vb_grh grh_of(const struct grh_row *row)
{
	struct vb_grh grh = { .flow_label = row->flow_label,
			      .payload_length = row->payload_length,
			      .traffic_class = row->traffic_class,
			      .hop_limit = row->hop_limit,
			      .infiniband = row->infiniband };

	assert_int_equal(inet_pton(AF_INET6, row->sgid, grh.sgid.raw), 1);
	assert_int_equal(inet_pton(AF_INET6, row->dgid, grh.dgid.raw), 1);
	return grh;
}

static void assert_inverse(const struct grh_row *row)
{
	struct vb_grh grh = grh_of(row), back;
	uint8_t bytes[VB_GRH_SIZE], again[VB_GRH_SIZE];

	memset(bytes, 0xee, sizeof(bytes));
	memset(&back, 0xee, sizeof(back));
	vb_grh_emit(&grh, bytes);
	assert_int_equal(vb_grh_parse(bytes, &back), 0);
	assert_memory_equal(&back.sgid, &grh.sgid, sizeof(grh.sgid));
	assert_memory_equal(&back.dgid, &grh.dgid, sizeof(grh.dgid));
	assert_int_equal(back.flow_label, grh.flow_label);
	assert_int_equal(back.payload_length, grh.payload_length);
	assert_int_equal(back.traffic_class, grh.traffic_class);
	assert_int_equal(back.hop_limit, grh.hop_limit);
	assert_int_equal(back.infiniband, grh.infiniband);
	vb_grh_emit(&back, again);
	assert_memory_equal(again, bytes, sizeof(bytes));
}

static void what_is_emitted_is_parsed_back(void **state)
{
	for (size_t i = 0; i < COUNT(ipv4_rows); i++)
		assert_inverse(&ipv4_rows[i]);
	for (size_t i = 0; i < COUNT(ipv6_rows); i++)
		assert_inverse(&ipv6_rows[i]);
}

/* Sums as a receiver does, with the checksum inside: all ones. */
static unsigned sum16(const uint8_t *at, size_t size)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < size; i += 2)
		sum += (uint64_t)(at[i] * 256u + at[i + 1]);
	return (unsigned)(sum % 65535);
}

static void between_ipv4_addresses_the_last_20_bytes_are_an_ipv4_header(void **state)
{
	for (size_t i = 0; i < COUNT(ipv4_rows); i++) {
		struct vb_grh grh = grh_of(&ipv4_rows[i]);
		uint8_t bytes[VB_GRH_SIZE], zero[20] = { 0 };
		struct iphdr ip;

		vb_grh_emit(&grh, bytes);
		memcpy(&ip, bytes + 20, sizeof(ip));
		assert_memory_equal(bytes, zero, 20);
		assert_int_equal(ip.version, 4);
		assert_int_equal(ip.ihl, 5);
		assert_int_equal(ip.tos, grh.traffic_class);
		assert_int_equal(ntohs(ip.tot_len), 20 + grh.payload_length);
		assert_int_equal(ip.ttl, grh.hop_limit);
		assert_int_equal(ip.protocol, 17);
		assert_memory_equal(&ip.saddr, grh.sgid.raw + 12, 4);
		assert_memory_equal(&ip.daddr, grh.dgid.raw + 12, 4);
		assert_int_equal(sum16(bytes + 20, 20), 0);
	}
}

static void a_known_ipv4_header_has_its_known_checksum(void **state)
{
	/* Ones' complement sum of 4500 0034 4000 4011 0a00 0001 0a00 0002 is d948. */
	/* clang-format off */
	static const uint8_t expected[20] = {
		0x45, 0, 0, 0x34, 0, 0, 0x40, 0, 0x40, 17, 0x26, 0xb7, 10, 0, 0, 1, 10, 0, 0, 2,
	};
	/* clang-format on */
	struct vb_grh grh = grh_of(&ipv4_rows[0]);
	uint8_t bytes[VB_GRH_SIZE];

	vb_grh_emit(&grh, bytes);
	assert_memory_equal(bytes + 20, expected, 20);
}

static void otherwise_the_40_bytes_are_a_global_route_header(void **state)
{
	for (size_t i = 0; i < COUNT(ipv6_rows); i++) {
		struct vb_grh grh = grh_of(&ipv6_rows[i]);
		uint8_t bytes[VB_GRH_SIZE];
		struct ip6_hdr ip;

		vb_grh_emit(&grh, bytes);
		memcpy(&ip, bytes, sizeof(ip));
		assert_int_equal(ntohl(ip.ip6_flow),
				 6u << 28 | (uint32_t)grh.traffic_class << 20 | grh.flow_label);
		assert_int_equal(ntohs(ip.ip6_plen), grh.payload_length);
		assert_int_equal(ip.ip6_nxt, grh.infiniband ? 0x1b : IPPROTO_UDP);
		assert_int_equal(ip.ip6_hlim, grh.hop_limit);
		assert_memory_equal(&ip.ip6_src, &grh.sgid, 16);
		assert_memory_equal(&ip.ip6_dst, &grh.dgid, 16);
	}
}

static void the_flow_label_does_not_spill_over_its_20_bits(void **state)
{
	struct vb_grh grh = grh_of(&ipv6_rows[0]), back;
	uint8_t bytes[VB_GRH_SIZE];

	grh.flow_label = 0xfff54321;
	vb_grh_emit(&grh, bytes);
	assert_int_equal(vb_grh_parse(bytes, &back), 0);
	assert_int_equal(back.flow_label, 0x54321);
	assert_int_equal(back.traffic_class, 0);
}

static void bytes_that_are_neither_are_refused(void **state)
{
	/* One byte of a good IPv4 one is changed; every change is seen. */
	static const struct {
		uint8_t at, to;
	} changes[] = {
		{ 20, 0 }, { 20, 0x46 }, { 20, 0x65 }, { 21, 1 },  { 22, 0xff }, { 28, 0 },
		{ 29, 6 }, { 30, 0 },    { 32, 11 },   { 39, 77 }, { 36, 0 },
	};
	struct vb_grh grh = grh_of(&ipv4_rows[0]), back;
	uint8_t bytes[VB_GRH_SIZE];

	for (size_t i = 0; i < COUNT(changes); i++) {
		vb_grh_emit(&grh, bytes);
		bytes[changes[i].at] = changes[i].to;
		if (vb_grh_parse(bytes, &back) != -EINVAL)
			fail_msg("byte %u as %u is accepted", changes[i].at, changes[i].to);
	}
	for (unsigned fill = 0; fill < 256; fill++) {
		memset(bytes, (int)fill, sizeof(bytes));
		if (fill >> 4 != 6)
			assert_int_equal(vb_grh_parse(bytes, &back), -EINVAL);
	}
}

static void an_ipv4_length_below_its_own_header_is_refused(void **state)
{
	struct vb_grh grh = grh_of(&ipv4_rows[0]), back;
	uint8_t bytes[VB_GRH_SIZE];

	vb_grh_emit(&grh, bytes);
	/* From 52 to 19 bytes, and the checksum made right again. */
	bytes[23] = 19;
	bytes[31] = (uint8_t)(bytes[31] + 33);
	assert_int_equal(sum16(bytes + 20, 20), 0);
	assert_int_equal(vb_grh_parse(bytes, &back), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_emitted_is_parsed_back),
		cmocka_unit_test(between_ipv4_addresses_the_last_20_bytes_are_an_ipv4_header),
		cmocka_unit_test(a_known_ipv4_header_has_its_known_checksum),
		cmocka_unit_test(otherwise_the_40_bytes_are_a_global_route_header),
		cmocka_unit_test(the_flow_label_does_not_spill_over_its_20_bits),
		cmocka_unit_test(bytes_that_are_neither_are_refused),
		cmocka_unit_test(an_ipv4_length_below_its_own_header_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
