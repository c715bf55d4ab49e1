/* SPDX-License-Identifier: BSD-2-Clause */
/* The rsocket protocol as bytes: what librdmacm sends is understood, and the other way round. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/proto.h"

/* Private data of REQ and REP of the capture cm-rsocket (rstream on two Linux hosts). */
static const uint8_t captured_req[VB_RS_CONN_SIZE] = {
	0x01, 0x02, 0x01, 0x80, 0,    0,    0,    0,    0x00, 0x00, 0x56, 0x34, 0x7a, 0xeb,
	0xd0, 0x00, 0x00, 0x00, 0x26, 0xed, 0,    0,    0,    2,    0x00, 0x00, 0x7f, 0x8d,
	0x24, 0xa9, 0x30, 0x00, 0x00, 0x00, 0x27, 0xfd, 0x00, 0x08, 0x00, 0x00,
};
/* What the first grant of the same capture wrote, and its immediate data. */
static const uint8_t captured_sge[VB_RS_SGE_SIZE] = {
	0x00, 0x30, 0xb1, 0x24, 0x8d, 0x7f, 0x00, 0x00,
	0xfd, 0x27, 0x00, 0x00, 0x00, 0x00, 0x08, 0x00,
};
static const uint32_t captured_grant = 0x80000180;

static void the_captured_private_data_is_understood(void **state)
{
	struct vb_rs_conn conn;
	uint8_t bytes[VB_RS_CONN_SIZE];

	assert_int_equal(vb_rs_conn_parse(captured_req, sizeof(captured_req), &conn), 0);
	assert_false(conn.big_endian);
	assert_int_equal(conn.credits, 384);
	assert_int_equal(conn.iomap_count, 0);
	assert_int_equal(conn.sgl.addr, 0x56347aebd000);
	assert_int_equal(conn.sgl.key, 0x26ed);
	assert_int_equal(conn.sgl.length, 2);
	assert_int_equal(conn.data.addr, 0x7f8d24a93000);
	assert_int_equal(conn.data.length, 0x80000);
	vb_rs_conn_emit(&conn, bytes);
	assert_memory_equal(bytes, captured_req, sizeof(bytes));
}

static void the_captured_grant_is_understood(void **state)
{
	struct vb_rs_sge sge;
	uint8_t bytes[VB_RS_SGE_SIZE];

	vb_rs_sge_parse(captured_sge, false, &sge);
	assert_int_equal(sge.addr, 0x7f8d24b13000);
	assert_int_equal(sge.key, 0x27fd);
	assert_int_equal(sge.length, 0x80000);
	vb_rs_sge_emit(&sge, false, bytes);
	assert_memory_equal(bytes, captured_sge, sizeof(bytes));
	assert_int_equal(vb_rs_message_op(captured_grant), VB_RS_SGL);
	assert_int_equal(vb_rs_message_operand(captured_grant), 384);
}

static void entries_are_written_in_the_order_of_their_owner(void **state)
{
	const struct vb_rs_iomap iomap = { 0x0102030405060708,
					   { 0x1112131415161718, 0x21222324, 9 } };
	uint8_t big[VB_RS_IOMAP_SIZE], little[VB_RS_IOMAP_SIZE];
	struct vb_rs_iomap back;

	vb_rs_iomap_emit(&iomap, true, big);
	vb_rs_iomap_emit(&iomap, false, little);
	assert_int_equal(big[0], 1);
	assert_int_equal(little[0], 8);
	vb_rs_iomap_parse(big, true, &back);
	assert_memory_equal(&back, &iomap, sizeof(back));
	vb_rs_iomap_parse(little, false, &back);
	assert_memory_equal(&back, &iomap, sizeof(back));
}

static void what_is_not_the_protocol_is_refused(void **state)
{
	const int fields[] = { 0, 2, 23, 37 }; /* version, credits, entries, bytes of the window */
	struct vb_rs_conn conn;
	uint8_t bytes[VB_RS_CONN_SIZE];

	assert_int_equal(vb_rs_conn_parse(NULL, 0, &conn), -EPROTO);
	assert_int_equal(vb_rs_conn_parse(captured_req, 39, &conn), -EPROTO);
	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		memcpy(bytes, captured_req, sizeof(bytes));
		bytes[fields[i]] = 0;
		if (fields[i] == 2)
			bytes[3] = 0;
		assert_int_equal(vb_rs_conn_parse(bytes, sizeof(bytes), &conn), -EPROTO);
	}
}

static void numbers_of_mappings_survive_eight_bits(void **state)
{
	for (unsigned value = 0; value <= 128; value++)
		assert_int_equal(vb_rs_unscale(vb_rs_scale(value)), value);
	/* Never less than what was asked for, as long as eight bits can say it. */
	for (unsigned value = 129; value <= 127 * 256; value++) {
		assert_true(vb_rs_unscale(vb_rs_scale(value)) >= value);
		assert_true(vb_rs_unscale(vb_rs_scale(value)) < value + 256);
	}
	assert_int_equal(vb_rs_unscale(vb_rs_scale(1000000)), 127 * 256);
}

static void datagram_headers_are_their_own_inverse(void **state)
{
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		struct vb_rs_udp udp = { .ipv6 = ipv6, .op = VB_RS_CONTROL, .qpn = 0xabcdef };
		struct vb_rs_ud ud = { .ipv6 = ipv6, .port = 0x1234 };
		uint8_t bytes[VB_RS_UDP_MAX];
		struct vb_rs_udp udp_back = { 0 };
		struct vb_rs_ud ud_back = { 0 };

		for (int i = 0; i < (ipv6 ? 16 : 4); i++)
			udp.addr[i] = ud.addr[i] = (uint8_t)(i + 1);
		assert_int_equal(vb_rs_udp_emit(&udp, bytes), ipv6 ? 28 : 16);
		assert_int_equal(vb_rs_udp_parse(bytes, sizeof(bytes), &udp_back), ipv6 ? 28 : 16);
		assert_int_equal(udp_back.op, udp.op);
		assert_int_equal(udp_back.qpn, udp.qpn);
		assert_int_equal(udp_back.ipv6, udp.ipv6);
		assert_memory_equal(udp_back.addr, udp.addr, sizeof(udp.addr));
		assert_int_equal(vb_rs_udp_parse(bytes, ipv6 ? 27 : 15, &udp_back), -EPROTO);
		bytes[0] ^= 1;
		assert_int_equal(vb_rs_udp_parse(bytes, sizeof(bytes), &udp_back), -EPROTO);
		assert_int_equal(vb_rs_ud_emit(&ud, bytes), ipv6 ? 24 : 8);
		assert_int_equal(vb_rs_ud_parse(bytes, sizeof(bytes), &ud_back), ipv6 ? 24 : 8);
		assert_int_equal(ud_back.port, ud.port);
		assert_int_equal(ud_back.ipv6, ud.ipv6);
		assert_memory_equal(ud_back.addr, ud.addr, sizeof(ud.addr));
		assert_int_equal(vb_rs_ud_parse(bytes, ipv6 ? 23 : 7, &ud_back), -EPROTO);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_captured_private_data_is_understood),
		cmocka_unit_test(the_captured_grant_is_understood),
		cmocka_unit_test(entries_are_written_in_the_order_of_their_owner),
		cmocka_unit_test(what_is_not_the_protocol_is_refused),
		cmocka_unit_test(numbers_of_mappings_survive_eight_bits),
		cmocka_unit_test(datagram_headers_are_their_own_inverse),
	};

	return cmocka_run_group_tests_name("rsocket protocol", tests, NULL, NULL);
}
