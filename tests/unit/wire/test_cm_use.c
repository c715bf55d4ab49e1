/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is done with messages of the connection manager without knowing connections: whose they are,
 * what they carry, IP addresses, and the answer when nobody is there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample_cm.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void a_message_names_its_sender_and_its_receiver(void **state)
{
	/* clang-format off */
	static const struct {
		struct vb_cm_message message;
		uint32_t sender, receiver;
	} rows[] = {
		{ { .attribute = VB_CM_REQ, .req = { .local_comm_id = 1, .vendor_id = 9 } }, 1, 0 },
		{ { .attribute = VB_CM_MRA, .mra = { 1, 2, 0, 0, { 0 } } }, 1, 2 },
		{ { .attribute = VB_CM_REJ, .rej = { 1, 2, 0, 0, 0, { 0 }, { 0 } } }, 1, 2 },
		{ { .attribute = VB_CM_REP, .rep = { 1, 2, .qkey = 9 } }, 1, 2 },
		{ { .attribute = VB_CM_RTU, .rtu = { 1, 2, { 0 } } }, 1, 2 },
		{ { .attribute = VB_CM_DREQ, .dreq = { 1, 2, 9, { 0 } } }, 1, 2 },
		{ { .attribute = VB_CM_DREP, .drep = { 1, 2, { 0 } } }, 1, 2 },
		{ { .attribute = VB_CM_SIDR_REQ, .sidr_req = { 3, 9, 0, { 0 } } }, 3, 0 },
		{ { .attribute = VB_CM_SIDR_REP, .sidr_rep = { 3, 0, .qpn = 9 } }, 0, 3 },
		{ { .attribute = VB_CM_LAP, .lap = { 1, 2, .remote_qpn = 9 } }, 1, 2 },
		{ { .attribute = VB_CM_APR, .apr = { 1, 2, 0, 0, { 0 }, { 0 } } }, 1, 2 },
		{ { .attribute = 0x1b, .rtu = { 1, 2, { 0 } } }, 0, 0 },
	};
	/* clang-format on */

	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(vb_cm_sender_id(&rows[i].message), rows[i].sender);
		assert_int_equal(vb_cm_receiver_id(&rows[i].message), rows[i].receiver);
	}
}

/* As many bytes as the API promises, and the last ones of the message. */
static void private_data_has_the_size_of_its_field(void **state)
{
	static const size_t sizes[] = { 92, 222, 148, 196, 224, 220, 224, 216, 136, 168, 148 };
	uint64_t seed = 1;

	for (unsigned i = 0; i < COUNT(sizes); i++) {
		struct vb_cm_message message = sample_message(SAMPLE_FIRST + i, &seed);
		uint8_t bytes[VB_MAD_SIZE], *data;
		size_t size;

		data = vb_cm_private_data(&message, &size);
		assert_int_equal(size, sizes[i]);
		vb_cm_emit(&message, bytes);
		assert_memory_equal(bytes + VB_MAD_SIZE - size, data, size);
		data[0] ^= 0xff;
		data[size - 1] ^= 0xff;
		bytes[VB_MAD_SIZE - size] ^= 0xff;
		bytes[VB_MAD_SIZE - 1] ^= 0xff;
		assert_int_equal(vb_cm_parse(bytes, sizeof(bytes), &message), VB_CM_OK);
		assert_memory_equal(vb_cm_private_data(&message, &size), data, size);
	}
	assert_int_equal(VB_CM_REQ_USER_SIZE, 56);
	assert_int_equal(VB_CM_SIDR_REQ_USER_SIZE, 180);
}

static void an_unknown_message_has_no_private_data(void **state)
{
	struct vb_cm_message message = { .attribute = 0x1b };
	size_t size = 7;

	assert_null(vb_cm_private_data(&message, &size));
	assert_int_equal(size, 0);
}

static struct vb_cm_ip ip_of(const char *src, const char *dst, uint16_t src_port, bool ipv6)
{
	struct vb_cm_ip ip = { .ipv6 = ipv6, .src_port = src_port };

	assert_int_equal(inet_pton(AF_INET6, src, ip.src.raw), 1);
	assert_int_equal(inet_pton(AF_INET6, dst, ip.dst.raw), 1);
	return ip;
}

static void assert_same_ip(const struct vb_cm_ip *a, const struct vb_cm_ip *b)
{
	assert_int_equal(a->ipv6, b->ipv6);
	assert_int_equal(a->src_port, b->src_port);
	assert_memory_equal(&a->src, &b->src, sizeof(a->src));
	assert_memory_equal(&a->dst, &b->dst, sizeof(a->dst));
}

static void ipv4_addresses_lie_in_the_last_bytes(void **state)
{
	/* clang-format off */
	static const uint8_t expected[VB_CM_IP_SIZE] = {
		0, 0x40, 0x12, 0x34,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 198, 51, 100, 11,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 198, 51, 100, 12,
	};
	/* clang-format on */
	struct vb_cm_ip ip = ip_of("::ffff:198.51.100.11", "::ffff:198.51.100.12", 0x1234, false);
	struct vb_cm_ip back;
	uint8_t bytes[VB_CM_IP_SIZE];

	memset(bytes, 0xee, sizeof(bytes));
	vb_cm_ip_emit(&ip, bytes);
	assert_memory_equal(bytes, expected, sizeof(bytes));
	/* What lies before them is ignored. */
	memset(bytes + 4, 0xee, 12);
	assert_int_equal(vb_cm_ip_parse(bytes, &back), 0);
	assert_same_ip(&back, &ip);
}

static void ipv6_addresses_are_whole(void **state)
{
	struct vb_cm_ip back, ip = ip_of("fd00:51:100::11", "fe80::12", 0xfffe, true);
	uint8_t bytes[VB_CM_IP_SIZE];

	vb_cm_ip_emit(&ip, bytes);
	assert_int_equal(bytes[1], 0x60);
	assert_memory_equal(bytes + 4, ip.src.raw, 16);
	assert_memory_equal(bytes + 20, ip.dst.raw, 16);
	assert_int_equal(vb_cm_ip_parse(bytes, &back), 0);
	assert_same_ip(&back, &ip);
}

static void other_versions_of_the_ip_header_are_refused(void **state)
{
	struct vb_cm_ip ip = ip_of("fd00:51:100::11", "fe80::12", 1, true);
	uint8_t bytes[VB_CM_IP_SIZE];

	vb_cm_ip_emit(&ip, bytes);
	for (unsigned version = 0; version < 256; version++) {
		bool known = version >> 4 == 4 || version >> 4 == 6;

		bytes[1] = (uint8_t)version;
		assert_int_equal(vb_cm_ip_parse(bytes, &ip), known ? 0 : -EPROTO);
	}
	bytes[1] = 0x60;
	bytes[0] = 1;
	assert_int_equal(vb_cm_ip_parse(bytes, &ip), -EPROTO);
}

static void a_service_id_is_a_port_space_and_a_port(void **state)
{
	assert_true(vb_cm_service_id(RDMA_PS_TCP, 7174) == 0x01061c06);
	assert_true(vb_cm_service_id(RDMA_PS_UDP, 0xffff) == 0x0111ffff);
	assert_int_equal(vb_cm_service_space(0x01061c06), RDMA_PS_TCP);
	assert_int_equal(vb_cm_service_port(0x01061c06), 7174);
	assert_int_equal(vb_cm_service_space(vb_cm_service_id(RDMA_PS_IB, 1)), RDMA_PS_IB);
	assert_int_equal(vb_cm_service_space(0x1000000001061c06), 0);
}

/* Bytes, so that nothing but the expected fields is set. */
static void assert_answer(const struct vb_cm_message *in, const struct vb_cm_message *expected)
{
	uint8_t bytes[VB_MAD_SIZE], expected_bytes[VB_MAD_SIZE];
	struct vb_cm_message out;

	memset(&out, 0xee, sizeof(out));
	assert_true(vb_cm_stray(in, &out));
	vb_cm_emit(&out, bytes);
	vb_cm_emit(expected, expected_bytes);
	assert_memory_equal(bytes, expected_bytes, sizeof(bytes));
}

static void a_req_that_nobody_waits_for_is_rejected(void **state)
{
	uint64_t seed = 2;
	struct vb_cm_message in = sample_message(VB_CM_REQ, &seed);

	assert_answer(&in,
		      &(struct vb_cm_message){ .attribute = VB_CM_REJ,
					       .transaction_id = in.transaction_id,
					       .rej = { .remote_comm_id = in.req.local_comm_id,
							.answers = VB_CM_ANSWERS_REQ,
							.reason = VB_CM_REJ_INVALID_SERVICE_ID } });
}

static void a_rep_to_nobody_is_rejected(void **state)
{
	uint64_t seed = 3;
	struct vb_cm_message in = sample_message(VB_CM_REP, &seed);

	assert_answer(&in,
		      &(struct vb_cm_message){ .attribute = VB_CM_REJ,
					       .transaction_id = in.transaction_id,
					       .rej = { .local_comm_id = in.rep.remote_comm_id,
							.remote_comm_id = in.rep.local_comm_id,
							.answers = VB_CM_ANSWERS_REP,
							.reason = VB_CM_REJ_INVALID_COMM_ID } });
}

static void a_disconnect_of_nothing_is_confirmed(void **state)
{
	uint64_t seed = 4;
	struct vb_cm_message in = sample_message(VB_CM_DREQ, &seed);

	assert_answer(&in, &(struct vb_cm_message){
				   .attribute = VB_CM_DREP,
				   .transaction_id = in.transaction_id,
				   .drep = { .local_comm_id = in.dreq.remote_comm_id,
					     .remote_comm_id = in.dreq.local_comm_id } });
}

static void a_sidr_req_that_nobody_waits_for_is_unsupported(void **state)
{
	uint64_t seed = 5;
	struct vb_cm_message in = sample_message(VB_CM_SIDR_REQ, &seed);

	assert_answer(&in,
		      &(struct vb_cm_message){ .attribute = VB_CM_SIDR_REP,
					       .transaction_id = in.transaction_id,
					       .sidr_rep = { .request_id = in.sidr_req.request_id,
							     .service_id = in.sidr_req.service_id,
							     .status = VB_CM_SIDR_UNSUPPORTED } });
}

/* Else two hosts could go on for ever. */
static void answers_are_not_answered(void **state)
{
	static const unsigned silent[] = { VB_CM_MRA,      VB_CM_REJ, VB_CM_RTU, VB_CM_DREP,
					   VB_CM_SIDR_REP, VB_CM_LAP, VB_CM_APR };
	uint64_t seed = 6;

	for (size_t i = 0; i < COUNT(silent); i++) {
		struct vb_cm_message in = sample_message(silent[i], &seed), out, before;

		memset(&out, 0xee, sizeof(out));
		memset(&before, 0xee, sizeof(before));
		assert_false(vb_cm_stray(&in, &out));
		assert_memory_equal(&out, &before, sizeof(out));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_names_its_sender_and_its_receiver),
		cmocka_unit_test(private_data_has_the_size_of_its_field),
		cmocka_unit_test(an_unknown_message_has_no_private_data),
		cmocka_unit_test(ipv4_addresses_lie_in_the_last_bytes),
		cmocka_unit_test(ipv6_addresses_are_whole),
		cmocka_unit_test(other_versions_of_the_ip_header_are_refused),
		cmocka_unit_test(a_service_id_is_a_port_space_and_a_port),
		cmocka_unit_test(a_req_that_nobody_waits_for_is_rejected),
		cmocka_unit_test(a_rep_to_nobody_is_rejected),
		cmocka_unit_test(a_disconnect_of_nothing_is_confirmed),
		cmocka_unit_test(a_sidr_req_that_nobody_waits_for_is_unsupported),
		cmocka_unit_test(answers_are_not_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
