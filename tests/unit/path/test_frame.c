/* SPDX-License-Identifier: BSD-2-Clause */
/* Ethernet frames: what is read out of them, and that nothing is read beyond them. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "path/raw/frame.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* The key and the values that the specification of receive side scaling gives to check with. */
static const uint8_t rss_key[40] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
	0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
	0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static const struct hash_row {
	const char *src, *dst;
	uint16_t src_port, dst_port;
	uint32_t addresses, with_ports;
} hash_rows[] = {
	{ "66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178 },
	{ "199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea },
	{ "24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a },
	{ "38.27.205.30", "209.142.163.6", 48228, 2217, 0x82989176, 0xafc7327f },
	{ "153.39.163.191", "202.188.127.2", 44251, 1303, 0x5d1809c5, 0x10e828a2 },
	{ "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x2cc18cd5, 0x40207d3d },
	{ "3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0x0f0c461c, 0xdde51bbf },
	{ "3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024,
	  0x4b61e985, 0x02d1feef },
};

static uint32_t put_ip(uint8_t *at, const struct hash_row *row, uint8_t proto, uint32_t payload)
{
	bool v6 = strchr(row->src, ':');
	uint32_t header = v6 ? 40 : 20;
	uint16_t length = htons((uint16_t)(v6 ? payload : payload + 20));

	memset(at, 0, header);
	at[0] = v6 ? 0x60 : 0x45;
	at[v6 ? 6 : 9] = proto;
	memcpy(at + (v6 ? 4 : 2), &length, 2);
	assert_int_equal(inet_pton(v6 ? AF_INET6 : AF_INET, row->src, at + (v6 ? 8 : 12)), 1);
	assert_int_equal(inet_pton(v6 ? AF_INET6 : AF_INET, row->dst, at + (v6 ? 24 : 16)), 1);
	return header;
}

/* Ethernet, tags, IP, ports, 40 bytes. */
static uint32_t build(uint8_t *at, const struct hash_row *row, uint8_t proto, unsigned tags)
{
	const uint16_t ports[2] = { htons(row->src_port), htons(row->dst_port) };
	uint16_t type = htons(strchr(row->src, ':') ? 0x86dd : 0x0800);
	uint32_t length = 14;

	memset(at, 0x22, 200);
	memcpy(at, "\x02\0\0\0\0\x01\x02\0\0\0\0\x02", 12);
	for (unsigned i = 0; i < tags; i++, length += 4)
		memcpy(at + length - 2, i + 1 < tags ? "\x88\xa8\x20\x07" : "\x81\x00\x20\x07", 4);
	memcpy(at + length - 2, &type, 2);
	length += put_ip(at + length, row, proto, 60);
	memcpy(at + length, ports, 4);
	return length + 60;
}

static void the_hash_is_that_of_the_specification(void **state)
{
	const uint64_t addresses = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 |
				   IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6;
	const uint64_t tcp = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP;
	const uint64_t udp = IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;
	uint8_t bytes[256];
	struct vb_frame frame;

	for (size_t i = 0; i < COUNT(hash_rows); i++) {
		const struct hash_row *row = &hash_rows[i];

		assert_true(vb_frame_parse(&frame, bytes, build(bytes, row, IPPROTO_TCP, i % 3)));
		assert_int_equal(vb_frame_hash(&frame, addresses, rss_key), row->addresses);
		assert_int_equal(vb_frame_hash(&frame, addresses | udp, rss_key), row->addresses);
		assert_int_equal(vb_frame_hash(&frame, addresses | tcp, rss_key), row->with_ports);
		assert_int_equal(vb_frame_hash(&frame, udp, rss_key), 0);
	}
}

static void headers_behind_tags_are_found(void **state)
{
	uint8_t bytes[256];
	struct vb_frame frame;

	for (unsigned tags = 0; tags < 4; tags++) {
		const struct vb_flow_key *key = &frame.headers.key;

		assert_true(vb_frame_parse(&frame, bytes,
					   build(bytes, &hash_rows[0], IPPROTO_UDP, tags)));
		assert_int_equal(key->tagged, tags ? 0xff : 0);
		assert_int_equal(ntohs(key->vlan_tag), tags ? 0x2007 : 0);
		assert_int_equal(key->ether_type, htons(0x0800));
		assert_int_equal(key->l3, 4);
		assert_int_equal(key->l4, IPPROTO_UDP);
		assert_int_equal(ntohs(key->dst_port), 1766);
	}
}

/* Of each length, in memory of exactly that size: a sanitizer sees what is beyond. */
static void a_cut_frame_is_read_as_far_as_it_goes(void **state)
{
	uint8_t whole[256];
	struct vb_frame frame;

	for (size_t i = 0; i < COUNT(hash_rows); i++) {
		uint32_t length = build(whole, &hash_rows[i], IPPROTO_TCP, i % 3);

		for (uint32_t cut = 1; cut <= length; cut++) {
			uint8_t *bytes = malloc(cut);

			assert_non_null(bytes);
			memcpy(bytes, whole, cut);
			assert_int_equal(vb_frame_parse(&frame, bytes, cut), cut >= 14);
			if (cut >= 14) {
				vb_frame_checksum_good(&frame);
				vb_frame_checksum_fill(&frame);
			}
			free(bytes);
		}
	}
}

static void checksums_that_were_filled_in_are_good(void **state)
{
	static const uint8_t protos[] = { IPPROTO_TCP, IPPROTO_UDP };
	uint8_t bytes[256];
	struct vb_frame frame;

	for (size_t i = 0; i < COUNT(hash_rows) * 2; i++) {
		uint32_t length = build(bytes, &hash_rows[i / 2], protos[i % 2], 0);

		assert_true(vb_frame_parse(&frame, bytes, length));
		assert_false(vb_frame_checksum_good(&frame));
		vb_frame_checksum_fill(&frame);
		assert_true(vb_frame_checksum_good(&frame));
		bytes[length - 1] ^= 1;
		assert_false(vb_frame_checksum_good(&frame));
	}
}

/* Only the first part of a datagram has ports. */
static void later_fragments_have_no_ports(void **state)
{
	uint8_t bytes[256];
	uint32_t length = build(bytes, &hash_rows[0], IPPROTO_UDP, 0);
	struct vb_frame frame;

	bytes[14 + 6] = 0x20; /* more follow */
	assert_true(vb_frame_parse(&frame, bytes, length));
	assert_int_equal(frame.headers.key.l4, IPPROTO_UDP);
	assert_int_equal(frame.headers.key.ip_flags, VB_IP_MORE_FRAGMENTS);
	bytes[14 + 7] = 1; /* not the first */
	assert_true(vb_frame_parse(&frame, bytes, length));
	assert_int_equal(frame.headers.key.l4, 0);
	assert_int_equal(frame.headers.key.protocol, IPPROTO_UDP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hash_is_that_of_the_specification),
		cmocka_unit_test(headers_behind_tags_are_found),
		cmocka_unit_test(a_cut_frame_is_read_as_far_as_it_goes),
		cmocka_unit_test(checksums_that_were_filled_in_are_good),
		cmocka_unit_test(later_fragments_have_no_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
