/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports of gaps: what is written is read, and nothing else is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/gaps.h"
#include "wire/packet.h"

static const struct vb_gaps good = {
	.psn = 0xfffffe,
	.end_psn = 12,
	.held = 7,
	.count = 3,
	.gap = { { 0xfffffe, 1 }, { 4, 5 }, { 9, 11 } },
};

static bool reads(const struct vb_gaps *gaps, struct vb_gaps *out)
{
	uint8_t bytes[VB_GAPS_LENGTH_MAX];

	return vb_gaps_parse(gaps->psn, bytes, vb_gaps_emit(gaps, bytes), out);
}

static bool believed(struct vb_gaps gaps)
{
	return reads(&gaps, &gaps);
}

static void what_is_written_is_read(void **state)
{
	struct vb_gaps gaps;

	(void)state;
	assert_true(reads(&good, &gaps));
	assert_int_equal(gaps.psn, good.psn);
	assert_int_equal(gaps.end_psn, good.end_psn);
	assert_int_equal(gaps.held, good.held);
	assert_int_equal(gaps.count, good.count);
	assert_memory_equal(gaps.gap, good.gap, sizeof(*gaps.gap) * gaps.count);
}

/* Packets may be late: then their gaps are not listed yet. */
static void not_every_gap_is_listed(void **state)
{
	struct vb_gaps gaps = good;

	(void)state;
	gaps.count = 0;
	assert_true(believed(gaps));
	gaps = good;
	gaps.gap[0].psn = 0xffffff;
	assert_true(believed(gaps));
}

#define REFUSE(field, value)                 \
	do {                                 \
		struct vb_gaps bad = good;   \
		bad.field = (value);         \
		assert_false(believed(bad)); \
	} while (0)

static void what_no_responder_reports_is_refused(void **state)
{
	(void)state;
	REFUSE(end_psn, 11);               /* the last gap would reach the newest arrival */
	REFUSE(end_psn, 0xfffffe);         /* nothing has arrived */
	REFUSE(end_psn, 0x1000000);        /* no PSN */
	REFUSE(gap[0].psn, 0xfffffd);      /* a gap before the oldest missing PSN */
	REFUSE(gap[1].psn, 1);             /* two gaps touch */
	REFUSE(gap[1].psn, 0);             /* they overlap */
	REFUSE(gap[1].end_psn, 4);         /* an empty one */
	REFUSE(gap[2].end_psn, 0x100000a); /* no PSN */
	REFUSE(held, 9);                   /* more than there is room for */
}

static void lengths_are_checked(void **state)
{
	uint8_t bytes[VB_GAPS_LENGTH_MAX + VB_GAP_LENGTH] = { 0 };
	uint32_t length = vb_gaps_emit(&good, bytes);
	struct vb_gaps gaps;

	(void)state;
	for (uint32_t i = 0; i < length; i++)
		if (i < 8 || i % 8)
			assert_false(vb_gaps_parse(good.psn, bytes, i, &gaps));
	assert_false(vb_gaps_parse(good.psn, bytes, sizeof(bytes), &gaps));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(not_every_gap_is_listed),
		cmocka_unit_test(what_no_responder_reports_is_refused),
		cmocka_unit_test(lengths_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
