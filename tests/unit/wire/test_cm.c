/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the connection manager: bytes and values are each other's inverse, every field is
 * where the IBA puts it, and what is no message is refused by name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample_cm.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { ROUNDS = 500, HEADER = 24 };

static bool is_same(const struct vb_cm_message *a, const struct vb_cm_message *b)
{
	const size_t begin = offsetof(struct vb_cm_message, req);

	/* What is behind the three integers is written as bytes, into zeros. */
	return a->attribute == b->attribute && a->transaction_id == b->transaction_id &&
	       a->attribute_modifier == b->attribute_modifier &&
	       !memcmp((const uint8_t *)a + begin, (const uint8_t *)b + begin, sizeof(*a) - begin);
}

static void assert_inverse(unsigned attribute, uint64_t *seed)
{
	struct vb_cm_message message = sample_message(attribute, seed), back;
	uint8_t bytes[VB_MAD_SIZE], again[VB_MAD_SIZE];

	memset(&back, 0xee, sizeof(back));
	memset(bytes, 0xee, sizeof(bytes));
	memset(again, 0xdd, sizeof(again));
	vb_cm_emit(&message, bytes);
	assert_int_equal(vb_cm_parse(bytes, sizeof(bytes), &back), VB_CM_OK);
	assert_int_equal(back.attribute, attribute);
	assert_true(is_same(&message, &back));
	vb_cm_emit(&back, again);
	assert_memory_equal(again, bytes, sizeof(bytes));
}

static void every_message_parses_to_what_was_emitted(void **state)
{
	uint64_t seed = 1;

	for (unsigned attribute = SAMPLE_FIRST; attribute <= SAMPLE_LAST; attribute++)
		for (unsigned i = 0; i < ROUNDS; i++)
			assert_inverse(attribute, &seed);
}

/* Reserved bits behind the MAD header, counted in the tables of the IBA. */
static const unsigned reserved_bits[] = {
	[VB_CM_REQ - SAMPLE_FIRST] = 8 + 32 + (6 + 3 + 3) + (6 + 3 + 2),
	[VB_CM_MRA - SAMPLE_FIRST] = 6 + 3,
	[VB_CM_REJ - SAMPLE_FIRST] = 6 + 1,
	[VB_CM_REP - SAMPLE_FIRST] = 4,
	[VB_CM_RTU - SAMPLE_FIRST] = 0,
	[VB_CM_DREQ - SAMPLE_FIRST] = 8,
	[VB_CM_DREP - SAMPLE_FIRST] = 0,
	[VB_CM_SIDR_REQ - SAMPLE_FIRST] = 16,
	[VB_CM_SIDR_REP - SAMPLE_FIRST] = 0,
	[VB_CM_LAP - SAMPLE_FIRST] = 32 + 3 + 32 + 4 + (2 + 3 + 3),
	[VB_CM_APR - SAMPLE_FIRST] = 16,
};

/* True: the bit is ignored. False: it is in the value, and comes out where it went in. */
static bool is_ignored(const struct vb_cm_message *message, unsigned bit)
{
	uint8_t bytes[VB_MAD_SIZE], flipped[VB_MAD_SIZE], again[VB_MAD_SIZE];
	struct vb_cm_message other;

	vb_cm_emit(message, bytes);
	memcpy(flipped, bytes, sizeof(bytes));
	flipped[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
	if (vb_cm_parse(flipped, sizeof(flipped), &other)) {
		/* Only a length that became too long. */
		assert_int_equal(bit / 8, sample_info_length_at(message->attribute));
		return false;
	}
	vb_cm_emit(&other, again);
	if (is_same(message, &other)) {
		assert_memory_equal(again, bytes, sizeof(bytes));
		return true;
	}
	assert_memory_equal(again, flipped, sizeof(flipped));
	return false;
}

static void each_bit_is_reserved_or_has_its_place_in_the_value(void **state)
{
	uint64_t seed = 2;

	for (unsigned attribute = SAMPLE_FIRST; attribute <= SAMPLE_LAST; attribute++) {
		struct vb_cm_message message = sample_message(attribute, &seed);
		unsigned ignored = 0;

		for (unsigned bit = 8 * HEADER; bit < 8 * VB_MAD_SIZE; bit++)
			ignored += is_ignored(&message, bit);
		assert_int_equal(ignored, reserved_bits[attribute - SAMPLE_FIRST]);
	}
}

/* Bytes that differ from zero behind the header, counted from its end as in the IBA. */
struct known {
	struct vb_cm_message message;
	struct {
		unsigned at, length;
		uint8_t bytes[16];
	} parts[24];
};

/* clang-format off */
static const struct known knowns[] = {
	{ { .attribute = VB_CM_REQ, .req = {
		.local_comm_id = 0x01020304, .vendor_id = 0x0a0b0c,
		.service_id = 0x1112131415161718, .ca_guid = 0x2122232425262728,
		.qkey = 0x31323334, .qpn = 0x414243, .responder_resources = 0x44,
		.local_eecn = 0x515253, .initiator_depth = 0x54, .remote_eecn = 0x616263,
		.remote_cm_timeout = 20, .transport = VB_CM_TRANSPORT_EXTENDED,
		.flow_control = true, .starting_psn = 0x717273, .local_cm_timeout = 19,
		.retry_count = 6, .pkey = 0x8182, .mtu = 5, .rdc_exists = true,
		.rnr_retry_count = 3, .max_cm_retries = 15, .srq = true, .extended_transport = 1,
	  } },
	  { { 0, 4, { 1, 2, 3, 4 } }, { 5, 3, { 10, 11, 12 } },
	    { 8, 8, { 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18 } },
	    { 16, 8, { 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28 } },
	    { 28, 8, { 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44 } },
	    { 36, 4, { 0x51, 0x52, 0x53, 0x54 } },
	    { 40, 4, { 0x61, 0x62, 0x63, 20 << 3 | 3 << 1 | 1 } },
	    { 44, 4, { 0x71, 0x72, 0x73, 19 << 3 | 6 } },
	    { 48, 4, { 0x81, 0x82, 5 << 4 | 1 << 3 | 3, 15 << 4 | 1 << 3 | 1 } } } },
	{ { .attribute = VB_CM_REQ, .req = {
		.primary = { .local_lid = 0x0102, .remote_lid = 0x0304, .flow_label = 0xabcde,
			.packet_rate = 0x2a, .traffic_class = 0x11, .hop_limit = 0x22, .sl = 9,
			.subnet_local = true, .ack_timeout = 19,
			.local_gid.raw = { 0xfe, [15] = 1 }, .remote_gid.raw = { 0xfd, [15] = 2 } },
		.alternate = { .local_lid = 0x0506, .remote_lid = 0x0708, .flow_label = 0x12345,
			.packet_rate = 0x15, .traffic_class = 0x33, .hop_limit = 0x44, .sl = 6,
			.subnet_local = true, .ack_timeout = 12,
			.local_gid.raw = { 0xfc, [15] = 3 }, .remote_gid.raw = { 0xfb, [15] = 4 } },
		.sap_supported = true, .private_data = { 0x77, [91] = 0x88 },
	  } },
	  { { 52, 4, { 1, 2, 3, 4 } }, { 56, 16, { 0xfe, [15] = 1 } },
	    { 72, 16, { 0xfd, [15] = 2 } },
	    { 88, 4, { 0xab, 0xcd, 0xe0, 0x2a } },
	    { 92, 4, { 0x11, 0x22, 9 << 4 | 1 << 3, 19 << 3 } },
	    { 96, 4, { 5, 6, 7, 8 } }, { 100, 16, { 0xfc, [15] = 3 } },
	    { 116, 16, { 0xfb, [15] = 4 } },
	    { 132, 4, { 0x12, 0x34, 0x50, 0x15 } },
	    { 136, 4, { 0x33, 0x44, 6 << 4 | 1 << 3, 12 << 3 | 1 << 2 } },
	    { 140, 1, { 0x77 } }, { 231, 1, { 0x88 } } } },
	{ { .attribute = VB_CM_MRA, .mra = { .local_comm_id = 0x01020304,
		.remote_comm_id = 0x05060708, .answers = VB_CM_ANSWERS_OTHER,
		.service_timeout = 21, .private_data = { 0x77, [221] = 0x88 } } },
	  { { 0, 8, { 1, 2, 3, 4, 5, 6, 7, 8 } }, { 8, 3, { 0x80, 21 << 3, 0x77 } },
	    { 231, 1, { 0x88 } } } },
	{ { .attribute = VB_CM_REJ, .rej = { .local_comm_id = 0x01020304,
		.remote_comm_id = 0x05060708, .answers = VB_CM_ANSWERS_REP, .info_length = 8,
		.reason = 0x0123, .info = { 0x55, [71] = 0x66 },
		.private_data = { 0x77, [147] = 0x88 } } },
	  { { 0, 8, { 1, 2, 3, 4, 5, 6, 7, 8 } }, { 8, 5, { 0x40, 8 << 1, 1, 0x23, 0x55 } },
	    { 83, 2, { 0x66, 0x77 } }, { 231, 1, { 0x88 } } } },
	{ { .attribute = VB_CM_REP, .rep = { .local_comm_id = 0x01020304,
		.remote_comm_id = 0x05060708, .qkey = 0x11121314, .qpn = 0x212223,
		.vendor_id = 0x0a0b0c, .eecn = 0x313233, .starting_psn = 0x414243,
		.responder_resources = 0x51, .initiator_depth = 0x52, .target_ack_delay = 15,
		.failover = 2, .flow_control = true, .rnr_retry_count = 5, .srq = true,
		.ca_guid = 0x6162636465666768, .private_data = { 0x77, [195] = 0x88 } } },
	  { { 0, 8, { 1, 2, 3, 4, 5, 6, 7, 8 } }, { 8, 4, { 0x11, 0x12, 0x13, 0x14 } },
	    { 12, 4, { 0x21, 0x22, 0x23, 0x0a } }, { 16, 4, { 0x31, 0x32, 0x33, 0x0b } },
	    { 20, 4, { 0x41, 0x42, 0x43, 0x0c } },
	    { 24, 4, { 0x51, 0x52, 15 << 3 | 2 << 1 | 1, 5 << 5 | 1 << 4 } },
	    { 28, 9, { 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x77 } },
	    { 231, 1, { 0x88 } } } },
	{ { .attribute = VB_CM_RTU, .rtu = { .local_comm_id = 0x01020304,
		.remote_comm_id = 0x05060708, .private_data = { 0x77, [223] = 0x88 } } },
	  { { 0, 9, { 1, 2, 3, 4, 5, 6, 7, 8, 0x77 } }, { 231, 1, { 0x88 } } } },
	{ { .attribute = VB_CM_DREQ, .dreq = { .local_comm_id = 0x01020304,
		.remote_comm_id = 0x05060708, .remote_qpn = 0x111213,
		.private_data = { 0x77, [219] = 0x88 } } },
	  { { 0, 13, { 1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0, 0x77 } },
	    { 231, 1, { 0x88 } } } },
	{ { .attribute = VB_CM_DREP, .drep = { .local_comm_id = 0x01020304,
		.remote_comm_id = 0x05060708, .private_data = { 0x77, [223] = 0x88 } } },
	  { { 0, 9, { 1, 2, 3, 4, 5, 6, 7, 8, 0x77 } }, { 231, 1, { 0x88 } } } },
	{ { .attribute = VB_CM_SIDR_REQ, .sidr_req = { .request_id = 0x01020304, .pkey = 0x0506,
		.service_id = 0x1112131415161718, .private_data = { 0x77, [215] = 0x88 } } },
	  { { 0, 6, { 1, 2, 3, 4, 5, 6 } },
	    { 8, 9, { 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x77 } },
	    { 231, 1, { 0x88 } } } },
	{ { .attribute = VB_CM_SIDR_REP, .sidr_rep = { .request_id = 0x01020304, .status = 5,
		.info_length = 72, .qpn = 0x111213, .vendor_id = 0x0a0b0c,
		.service_id = 0x2122232425262728, .qkey = 0x31323334,
		.info = { 0x55, [71] = 0x66 }, .private_data = { 0x77, [135] = 0x88 } } },
	  { { 0, 6, { 1, 2, 3, 4, 5, 72 } }, { 6, 6, { 0x0a, 0x0b, 0x11, 0x12, 0x13, 0x0c } },
	    { 12, 8, { 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28 } },
	    { 20, 5, { 0x31, 0x32, 0x33, 0x34, 0x55 } }, { 95, 2, { 0x66, 0x77 } },
	    { 231, 1, { 0x88 } } } },
	{ { .attribute = VB_CM_LAP, .lap = { .local_comm_id = 0x01020304,
		.remote_comm_id = 0x05060708, .remote_qpn = 0x111213, .remote_cm_timeout = 17,
		.alternate = { .local_lid = 0x2122, .remote_lid = 0x2324, .flow_label = 0xabcde,
			.packet_rate = 0x2a, .traffic_class = 0x31, .hop_limit = 0x32, .sl = 9,
			.subnet_local = true, .ack_timeout = 19,
			.local_gid.raw = { 0xfe, [15] = 1 }, .remote_gid.raw = { 0xfd, [15] = 2 } },
		.private_data = { 0x77, [167] = 0x88 } } },
	  { { 0, 8, { 1, 2, 3, 4, 5, 6, 7, 8 } }, { 12, 4, { 0x11, 0x12, 0x13, 17 << 3 } },
	    { 20, 4, { 0x21, 0x22, 0x23, 0x24 } }, { 24, 16, { 0xfe, [15] = 1 } },
	    { 40, 16, { 0xfd, [15] = 2 } }, { 56, 4, { 0xab, 0xcd, 0xe0, 0x31 } },
	    { 60, 5, { 0x32, 0x2a, 9 << 4 | 1 << 3, 19 << 3, 0x77 } }, { 231, 1, { 0x88 } } } },
	{ { .attribute = VB_CM_APR, .apr = { .local_comm_id = 0x01020304,
		.remote_comm_id = 0x05060708, .info_length = 3, .status = VB_CM_APR_UNSUPPORTED,
		.info = { 0x55, [71] = 0x66 }, .private_data = { 0x77, [147] = 0x88 } } },
	  { { 0, 8, { 1, 2, 3, 4, 5, 6, 7, 8 } }, { 8, 5, { 3, 2, 0, 0, 0x55 } },
	    { 83, 2, { 0x66, 0x77 } }, { 231, 1, { 0x88 } } } },
};
/* clang-format on */

static void every_field_is_where_the_specification_puts_it(void **state)
{
	for (size_t i = 0; i < COUNT(knowns); i++) {
		uint8_t expected[VB_MAD_SIZE] = { 1, 7, 2, 3 }, bytes[VB_MAD_SIZE];

		expected[17] = (uint8_t)knowns[i].message.attribute;
		for (size_t j = 0; knowns[i].parts[j].length; j++)
			memcpy(expected + HEADER + knowns[i].parts[j].at, knowns[i].parts[j].bytes,
			       knowns[i].parts[j].length);
		vb_cm_emit(&knowns[i].message, bytes);
		assert_memory_equal(bytes, expected, sizeof(bytes));
	}
}

static void the_header_carries_transaction_and_modifier(void **state)
{
	struct vb_cm_message message = { .attribute = VB_CM_REP,
					 .transaction_id = 0x0102030405060708,
					 .attribute_modifier = 0x11121314 };
	static const uint8_t expected[] = { 1, 7, 2, 3, 0, 0,    0, 0, 1,    2,    3,    4,
					    5, 6, 7, 8, 0, 0x13, 0, 0, 0x11, 0x12, 0x13, 0x14 };
	uint8_t bytes[VB_MAD_SIZE];

	vb_cm_emit(&message, bytes);
	assert_memory_equal(bytes, expected, sizeof(expected));
}

static void a_value_too_large_for_its_field_touches_no_other(void **state)
{
	struct vb_cm_message message = { .attribute = VB_CM_REQ }, back;
	uint8_t bytes[VB_MAD_SIZE];

	message.req.qpn = 0xffabcdef;
	message.req.retry_count = 0xff;
	message.req.primary.flow_label = ~0u;
	vb_cm_emit(&message, bytes);
	assert_int_equal(vb_cm_parse(bytes, sizeof(bytes), &back), VB_CM_OK);
	assert_int_equal(back.req.qpn, 0xabcdef);
	assert_int_equal(back.req.responder_resources, 0);
	assert_int_equal(back.req.retry_count, 7);
	assert_int_equal(back.req.local_cm_timeout, 0);
	assert_int_equal(back.req.primary.flow_label, 0xfffff);
	assert_int_equal(back.req.primary.packet_rate, 0);
}

static void what_is_no_message_is_refused_by_name(void **state)
{
	static const struct {
		unsigned at;
		uint8_t byte;
		enum vb_cm_flaw fault;
	} rows[] = {
		{ 0, 0, VB_CM_FLAW_BASE_VERSION },  { 0, 0x80, VB_CM_FLAW_BASE_VERSION },
		{ 1, 3, VB_CM_FLAW_CLASS },         { 1, 0x87, VB_CM_FLAW_CLASS },
		{ 2, 1, VB_CM_FLAW_CLASS_VERSION }, { 2, 3, VB_CM_FLAW_CLASS_VERSION },
		{ 3, 0x01, VB_CM_FLAW_OTHER },      { 3, 0x02, VB_CM_FLAW_OTHER },
		{ 3, 0x81, VB_CM_FLAW_OTHER },      { 3, 0, VB_CM_FLAW_METHOD },
		{ 3, 0x83, VB_CM_FLAW_METHOD },     { 3, 5, VB_CM_FLAW_METHOD },
		{ 16, 1, VB_CM_FLAW_ATTRIBUTE },    { 17, 0x01, VB_CM_FLAW_ATTRIBUTE },
		{ 17, 0x0f, VB_CM_FLAW_ATTRIBUTE }, { 17, 0x1b, VB_CM_FLAW_ATTRIBUTE },
		{ 17, 0xff, VB_CM_FLAW_ATTRIBUTE },
	};
	struct vb_cm_message message;
	uint8_t bytes[VB_MAD_SIZE];
	uint64_t seed = 3;

	for (size_t i = 0; i < COUNT(rows); i++) {
		sample_mad(VB_CM_REQ, &seed, bytes);
		bytes[rows[i].at] = rows[i].byte;
		assert_int_equal(vb_cm_parse(bytes, sizeof(bytes), &message), rows[i].fault);
	}
}

/* In blocks that end where they are said to. */
static void a_message_has_256_bytes(void **state)
{
	uint8_t whole[VB_MAD_SIZE];
	uint64_t seed = 4;

	sample_mad(VB_CM_REQ, &seed, whole);
	for (size_t length = 0; length < 2 * VB_MAD_SIZE; length++) {
		uint8_t *bytes = calloc(1, length ? length : 1);
		struct vb_cm_message message;

		memcpy(bytes, whole, length < sizeof(whole) ? length : sizeof(whole));
		assert_int_equal(vb_cm_parse(bytes, length, &message),
				 length == VB_MAD_SIZE ? VB_CM_OK : VB_CM_FLAW_LENGTH);
		free(bytes);
	}
}

static void information_is_not_longer_than_its_field(void **state)
{
	static const unsigned attributes[] = { VB_CM_REJ, VB_CM_SIDR_REP, VB_CM_APR };
	uint64_t seed = 5;

	for (size_t i = 0; i < COUNT(attributes); i++) {
		unsigned shift = attributes[i] == VB_CM_REJ;

		for (unsigned length = 0; length < (shift ? 128 : 256); length++) {
			struct vb_cm_message message;
			uint8_t bytes[VB_MAD_SIZE];

			sample_mad(attributes[i], &seed, bytes);
			bytes[sample_info_length_at(attributes[i])] = (uint8_t)(length << shift);
			assert_int_equal(vb_cm_parse(bytes, sizeof(bytes), &message),
					 length <= 72 ? VB_CM_OK : VB_CM_FLAW_INFO_LENGTH);
		}
	}
}

static void flaws_and_messages_have_names_of_their_own(void **state)
{
	for (unsigned i = 0; i < VB_CM_FLAWS; i++)
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(vb_cm_flaw_name(i), vb_cm_flaw_name(j));
	assert_string_equal(vb_cm_flaw_name(VB_CM_FLAWS), "unknown flaw");
	for (unsigned i = SAMPLE_FIRST; i <= SAMPLE_LAST + 1; i++)
		for (unsigned j = SAMPLE_FIRST; j < i; j++)
			assert_string_not_equal(vb_cm_name(i), vb_cm_name(j));
	assert_string_equal(vb_cm_name(SAMPLE_LAST + 1), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_parses_to_what_was_emitted),
		cmocka_unit_test(each_bit_is_reserved_or_has_its_place_in_the_value),
		cmocka_unit_test(every_field_is_where_the_specification_puts_it),
		cmocka_unit_test(the_header_carries_transaction_and_modifier),
		cmocka_unit_test(a_value_too_large_for_its_field_touches_no_other),
		cmocka_unit_test(what_is_no_message_is_refused_by_name),
		cmocka_unit_test(a_message_has_256_bytes),
		cmocka_unit_test(information_is_not_longer_than_its_field),
		cmocka_unit_test(flaws_and_messages_have_names_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
