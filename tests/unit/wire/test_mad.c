/* SPDX-License-Identifier: BSD-2-Clause */
/* The common header of management datagrams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/mad.h"

/* The two bytes behind the attribute are reserved. */
static const uint8_t bytes[VB_MAD_HEADER_SIZE] = {
	0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
	0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x00, 0x00, 0x41, 0x42, 0x43, 0x44,
};

static void every_field_is_where_the_specification_puts_it(void **state)
{
	struct vb_mad mad;

	vb_mad_parse(bytes, &mad);
	assert_int_equal(mad.base_version, 1);
	assert_int_equal(mad.management_class, 2);
	assert_int_equal(mad.class_version, 3);
	assert_int_equal(mad.method, 4);
	assert_int_equal(mad.status, 0x1112);
	assert_int_equal(mad.class_specific, 0x1314);
	assert_true(mad.transaction_id == 0x2122232425262728);
	assert_int_equal(mad.attribute_id, 0x3132);
	assert_int_equal(mad.attribute_modifier, 0x41424344);
}

static void what_is_parsed_is_emitted_without_reserved_bytes(void **state)
{
	uint8_t noisy[VB_MAD_HEADER_SIZE], again[VB_MAD_HEADER_SIZE];
	struct vb_mad mad;

	memcpy(noisy, bytes, sizeof(noisy));
	noisy[18] = noisy[19] = 0xff;
	memset(again, 0xee, sizeof(again));
	vb_mad_parse(noisy, &mad);
	vb_mad_emit(&mad, again);
	assert_memory_equal(again, bytes, sizeof(again));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_is_where_the_specification_puts_it),
		cmocka_unit_test(what_is_parsed_is_emitted_without_reserved_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
