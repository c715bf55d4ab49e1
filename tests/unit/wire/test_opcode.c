/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of opcodes against what the IBA says about some of them, and against itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/opcode.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Numbers and lengths as the IBA prints them, not as the code composes them. */
static const struct {
	uint8_t opcode;
	const char *name;
	unsigned headers_length;
	bool has_payload;
} known[] = {
	{ 0x00, "RC SEND_FIRST", 12, true },
	{ 0x04, "RC SEND_ONLY", 12, true },
	{ 0x05, "RC SEND_ONLY_IMM", 16, true },
	{ 0x06, "RC WRITE_FIRST", 28, true },
	{ 0x07, "RC WRITE_MIDDLE", 12, true },
	{ 0x09, "RC WRITE_LAST_IMM", 16, true },
	{ 0x0a, "RC WRITE_ONLY", 28, true },
	{ 0x0b, "RC WRITE_ONLY_IMM", 32, true },
	{ 0x0c, "RC READ_REQUEST", 28, false },
	{ 0x0d, "RC READ_RESPONSE_FIRST", 16, true },
	{ 0x0e, "RC READ_RESPONSE_MIDDLE", 12, true },
	{ 0x0f, "RC READ_RESPONSE_LAST", 16, true },
	{ 0x10, "RC READ_RESPONSE_ONLY", 16, true },
	{ 0x11, "RC ACKNOWLEDGE", 16, false },
	{ 0x12, "RC ATOMIC_ACKNOWLEDGE", 24, false },
	{ 0x13, "RC COMPARE_SWAP", 40, false },
	{ 0x14, "RC FETCH_ADD", 40, false },
	{ 0x16, "RC SEND_LAST_INVALIDATE", 16, true },
	{ 0x17, "RC SEND_ONLY_INVALIDATE", 16, true },
	{ 0x1c, "RC FLUSH", 32, false },
	{ 0x1d, "RC ATOMIC_WRITE", 28, true },
	{ 0x24, "UC SEND_ONLY", 12, true },
	{ 0x2b, "UC WRITE_ONLY_IMM", 32, true },
	{ 0x64, "UD SEND_ONLY", 20, true },
	{ 0x65, "UD SEND_ONLY_IMM", 24, true },
	{ 0x81, "CNP CNP", 28, false },
	{ 0xa4, "XRC SEND_ONLY", 16, true },
	{ 0xab, "XRC WRITE_ONLY_IMM", 36, true },
	{ 0xac, "XRC READ_REQUEST", 32, false },
	{ 0xae, "XRC READ_RESPONSE_MIDDLE", 12, true },
	{ 0xb1, "XRC ACKNOWLEDGE", 16, false },
	{ 0xb3, "XRC COMPARE_SWAP", 44, false },
	{ 0xd6, "VENDOR GAPS_ASK", 12, false },
	{ 0xd7, "VENDOR GAPS", 16, true },
};

static void known_opcodes_have_their_headers(void **state)
{
	for (size_t i = 0; i < COUNT(known); i++) {
		const struct vb_opcode_row *row = vb_opcode_row(known[i].opcode);

		assert_non_null(row->name);
		assert_string_equal(row->name, known[i].name);
		assert_int_equal(row->headers_length, known[i].headers_length);
		assert_int_equal(row->has_payload, known[i].has_payload);
	}
}

static unsigned count_of(enum vb_transport transport)
{
	unsigned count = 0;

	for (unsigned operation = 0; operation < 0x20; operation++)
		count += vb_opcode_row((uint8_t)(transport | operation))->name != NULL;
	return count;
}

static void every_transport_has_its_number_of_opcodes(void **state)
{
	assert_int_equal(count_of(VB_TRANSPORT_RC), 25);
	assert_int_equal(count_of(VB_TRANSPORT_XRC), 25);
	assert_int_equal(count_of(VB_TRANSPORT_UC), 12);
	assert_int_equal(count_of(VB_TRANSPORT_UD), 2);
	assert_int_equal(count_of(VB_TRANSPORT_CNP), 1);
	assert_int_equal(count_of(VB_TRANSPORT_RD), 0);
	assert_int_equal(count_of(VB_TRANSPORT_VENDOR), 4);
	assert_int_equal(count_of(0xe0), 0);
}

static const char *operation_of(const struct vb_opcode_row *row)
{
	return strchr(row->name, ' ') + 1;
}

static bool is_response(const struct vb_opcode_row *row)
{
	return row->family == VB_FAMILY_READ_RESPONSE || row->family == VB_FAMILY_ACK ||
	       row->family == VB_FAMILY_ATOMIC_ACK;
}

static void xrc_is_rc_with_a_shared_receive_queue_named_in_requests(void **state)
{
	for (unsigned operation = 0; operation < 0x20; operation++) {
		const struct vb_opcode_row *rc = vb_opcode_row((uint8_t)operation);
		const struct vb_opcode_row *xrc =
			vb_opcode_row((uint8_t)(VB_TRANSPORT_XRC | operation));
		unsigned more = rc->name && !is_response(rc) ? VB_HEADER_XRCETH : 0;

		assert_int_equal(!rc->name, !xrc->name);
		if (!rc->name)
			continue;
		assert_string_equal(operation_of(rc), operation_of(xrc));
		assert_int_equal(xrc->headers, rc->headers | more);
		assert_int_equal(xrc->family, rc->family);
		assert_int_equal(xrc->place, rc->place);
		assert_int_equal(xrc->payload_exact, rc->payload_exact);
	}
}

/* Where a name says FIRST, MIDDLE, LAST or ONLY, the row says so too. */
static void places_are_what_names_say(void **state)
{
	static const char *const words[] = { [VB_PLACE_FIRST] = "FIRST",
					     [VB_PLACE_MIDDLE] = "MIDDLE",
					     [VB_PLACE_LAST] = "LAST",
					     [VB_PLACE_ONLY] = "ONLY" };

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct vb_opcode_row *row = vb_opcode_row((uint8_t)opcode);

		for (unsigned place = VB_PLACE_FIRST; row->name && place <= VB_PLACE_ONLY; place++)
			if (strstr(row->name, words[place]))
				assert_int_equal(row->place, place);
	}
}

static void an_atomic_write_carries_eight_bytes(void **state)
{
	assert_int_equal(vb_opcode_row(VB_OP_ATOMIC_WRITE)->payload_exact, 8);
	assert_int_equal(vb_opcode_row(VB_OP_SEND_ONLY)->payload_exact, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_opcodes_have_their_headers),
		cmocka_unit_test(every_transport_has_its_number_of_opcodes),
		cmocka_unit_test(xrc_is_rc_with_a_shared_receive_queue_named_in_requests),
		cmocka_unit_test(places_are_what_names_say),
		cmocka_unit_test(an_atomic_write_carries_eight_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
