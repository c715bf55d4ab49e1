/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The whole square of states for each type: every edge of the list below with every single
 * deviation from its attributes, and every pair of states that is not in the list.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "nic/qp_edges.h"

#define RC  IBV_QPT_RC
#define UC  IBV_QPT_UC
#define UD  IBV_QPT_UD
#define RAW IBV_QPT_RAW_PACKET
#define XS  IBV_QPT_XRC_SEND
#define XR  IBV_QPT_XRC_RECV

enum { RESET, INIT, RTR, RTS, SQD, SQE, ERR, STATES };

enum {
	CUR = IBV_QP_CUR_STATE,
	NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	ACCESS = IBV_QP_ACCESS_FLAGS,
	PKEY = IBV_QP_PKEY_INDEX,
	PORT = IBV_QP_PORT,
	QKEY = IBV_QP_QKEY,
	AV = IBV_QP_AV,
	MTU = IBV_QP_PATH_MTU,
	TIMEOUT = IBV_QP_TIMEOUT,
	RETRY = IBV_QP_RETRY_CNT,
	RNR_RETRY = IBV_QP_RNR_RETRY,
	RQ_PSN = IBV_QP_RQ_PSN,
	RD = IBV_QP_MAX_QP_RD_ATOMIC,
	ALT = IBV_QP_ALT_PATH,
	RNR_TIMER = IBV_QP_MIN_RNR_TIMER,
	SQ_PSN = IBV_QP_SQ_PSN,
	DEST_RD = IBV_QP_MAX_DEST_RD_ATOMIC,
	MIG = IBV_QP_PATH_MIG_STATE,
	DEST_QPN = IBV_QP_DEST_QPN,
	RATE = IBV_QP_RATE_LIMIT,
};

static const struct row {
	enum ibv_qp_type type;
	int cur, next, required, optional;
} rows[] = {
	{ RC, RESET, INIT, PKEY | PORT | ACCESS, 0 },
	{ UC, RESET, INIT, PKEY | PORT | ACCESS, 0 },
	{ UD, RESET, INIT, PKEY | PORT | QKEY, 0 },

	{ RC, INIT, INIT, 0, PKEY | PORT | ACCESS },
	{ UC, INIT, INIT, 0, PKEY | PORT | ACCESS },
	{ UD, INIT, INIT, 0, PKEY | PORT | QKEY },

	{ RC, INIT, RTR, AV | MTU | DEST_QPN | RQ_PSN | DEST_RD | RNR_TIMER, ALT | ACCESS | PKEY },
	{ UC, INIT, RTR, AV | MTU | DEST_QPN | RQ_PSN, ALT | ACCESS | PKEY },
	{ UD, INIT, RTR, 0, PKEY | QKEY },

	{ RC, RTR, RTS, TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | RD,
	  CUR | ALT | ACCESS | RNR_TIMER | MIG | RATE },
	{ UC, RTR, RTS, SQ_PSN, CUR | ALT | ACCESS | MIG | RATE },
	{ UD, RTR, RTS, SQ_PSN, CUR | QKEY | RATE },

	{ RC, RTS, RTS, 0, CUR | ALT | ACCESS | RNR_TIMER | MIG | RATE },
	{ UC, RTS, RTS, 0, CUR | ALT | ACCESS | MIG | RATE },
	{ UD, RTS, RTS, 0, CUR | QKEY | RATE },

	{ RC, RTS, SQD, 0, NOTIFY },
	{ UC, RTS, SQD, 0, NOTIFY },
	{ UD, RTS, SQD, 0, NOTIFY },

	{ RC, SQD, RTS, 0, CUR | ALT | ACCESS | RNR_TIMER | MIG },
	{ UC, SQD, RTS, 0, CUR | ALT | ACCESS | MIG },
	{ UD, SQD, RTS, 0, CUR | QKEY },

	{ RC, SQD, SQD, 0,
	  PORT | AV | TIMEOUT | RETRY | RNR_RETRY | RD | DEST_RD | ALT | ACCESS | PKEY | RNR_TIMER |
		  MIG },
	{ UC, SQD, SQD, 0, AV | ALT | ACCESS | PKEY | MIG },
	{ UD, SQD, SQD, 0, PKEY | QKEY },

	{ UC, SQE, RTS, 0, CUR | ACCESS },
	{ UD, SQE, RTS, 0, CUR | QKEY },

	{ RAW, RESET, INIT, PORT, 0 },
	{ RAW, INIT, INIT, 0, PORT },
	{ RAW, INIT, RTR, 0, 0 },
	{ RAW, RTR, RTS, 0, CUR | RATE },
	{ RAW, RTS, RTS, 0, CUR | RATE },
	{ RAW, RTS, SQD, 0, NOTIFY },
	{ RAW, SQD, RTS, 0, CUR },
	{ RAW, SQD, SQD, 0, 0 },
	{ RAW, SQE, RTS, 0, CUR },

	{ XS, RESET, INIT, PKEY | PORT | ACCESS, 0 },
	{ XS, INIT, INIT, 0, PKEY | PORT | ACCESS },
	{ XS, INIT, RTR, AV | MTU | DEST_QPN | RQ_PSN, ALT | ACCESS | PKEY },
	{ XS, RTR, RTS, TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | RD,
	  CUR | ALT | ACCESS | MIG | RATE },
	{ XS, RTS, RTS, 0, CUR | ALT | ACCESS | MIG | RATE },
	{ XS, RTS, SQD, 0, NOTIFY },
	{ XS, SQD, RTS, 0, CUR | ALT | ACCESS | MIG },
	{ XS, SQD, SQD, 0,
	  PORT | AV | TIMEOUT | RETRY | RNR_RETRY | RD | ALT | ACCESS | PKEY | MIG },

	{ XR, RESET, INIT, PKEY | PORT | ACCESS, 0 },
	{ XR, INIT, INIT, 0, PKEY | PORT | ACCESS },
	{ XR, INIT, RTR, AV | MTU | DEST_QPN | RQ_PSN | DEST_RD | RNR_TIMER, ALT | ACCESS | PKEY },
	{ XR, RTR, RTS, TIMEOUT | SQ_PSN, CUR | ALT | ACCESS | RNR_TIMER | MIG },
	{ XR, RTS, RTS, 0, CUR | ALT | ACCESS | RNR_TIMER | MIG },
	{ XR, RTS, SQD, 0, NOTIFY },
	{ XR, SQD, RTS, 0, CUR | ALT | ACCESS | RNR_TIMER | MIG },
	{ XR, SQD, SQD, 0, PORT | AV | TIMEOUT | DEST_RD | ALT | ACCESS | PKEY | RNR_TIMER | MIG },
};

static const enum ibv_qp_type all_types[] = { RC, UC, UD, RAW, XS, XR };

static const struct row *row_find(enum ibv_qp_type type, int cur, int next)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].type == type && rows[i].cur == cur && rows[i].next == next)
			return &rows[i];
	return NULL;
}

static int check(enum ibv_qp_type type, int cur, int next, int mask)
{
	return vb_qp_edge_check(type, (enum ibv_qp_state)cur, (enum ibv_qp_state)next, mask);
}

static const char *explain(enum ibv_qp_type type, int cur, int next, int mask)
{
	static char sentence[512];

	memset(sentence, 'x', sizeof(sentence));
	return vb_qp_edge_explain(type, (enum ibv_qp_state)cur, (enum ibv_qp_state)next, mask,
				  sentence, sizeof(sentence));
}

/* The sentence is there exactly when the check refuses. */
static void expect(int want, enum ibv_qp_type type, int cur, int next, int mask)
{
	int got = check(type, cur, next, mask);

	if (got != want)
		fail_msg("type %d, %s to %s, mask 0x%x: %d, not %d (%s)", type,
			 vb_qp_state_str((enum ibv_qp_state)cur),
			 vb_qp_state_str((enum ibv_qp_state)next), (unsigned)mask, got, want,
			 explain(type, cur, next, mask));
	assert_int_equal(explain(type, cur, next, mask)[0] == '\0', want == 0);
}

/* All 32 bits of the mask, those without a meaning too. */
static void expect_deviations_refused(const struct row *row)
{
	int most = row->required | row->optional | IBV_QP_STATE;

	for (unsigned bit = 0; bit < 32; bit++) {
		int attr = (int)(1u << bit);

		if (attr & row->required) {
			expect(-EINVAL, row->type, row->cur, row->next, row->required & ~attr);
			expect(-EINVAL, row->type, row->cur, row->next, most & ~attr);
		} else if (attr & most) {
			expect(0, row->type, row->cur, row->next, row->required | attr);
			expect(0, row->type, row->cur, row->next, most & ~attr);
		} else {
			expect(-EINVAL, row->type, row->cur, row->next, row->required | attr);
			expect(-EINVAL, row->type, row->cur, row->next, most | attr);
		}
	}
}

static void every_legal_edge_takes_exactly_its_attributes(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];

		expect(0, row->type, row->cur, row->next, row->required);
		expect(0, row->type, row->cur, row->next,
		       row->required | row->optional | IBV_QP_STATE);
		expect_deviations_refused(row);
	}
}

static void reset_and_err_take_the_state_only(void **state)
{
	for (size_t t = 0; t < sizeof(all_types) / sizeof(all_types[0]); t++) {
		for (int cur = RESET; cur < STATES; cur++) {
			struct row to_reset = { all_types[t], cur, RESET, 0, 0 };
			struct row to_err = { all_types[t], cur, ERR, 0, 0 };

			expect_deviations_refused(&to_reset);
			if (cur != RESET)
				expect_deviations_refused(&to_err);
		}
		expect(-EINVAL, all_types[t], RESET, ERR, IBV_QP_STATE);
	}
}

static void everything_else_is_illegal_with_any_attributes(void **state)
{
	for (size_t t = 0; t < sizeof(all_types) / sizeof(all_types[0]); t++) {
		for (int cur = RESET; cur < STATES; cur++) {
			for (int next = INIT; next < ERR; next++) {
				if (row_find(all_types[t], cur, next))
					continue;
				for (unsigned bit = 0; bit < 32; bit++)
					expect(-EINVAL, all_types[t], cur, next, (int)(1u << bit));
				expect(-EINVAL, all_types[t], cur, next, 0);
				expect(-EINVAL, all_types[t], cur, next, -1);
			}
		}
	}
}

static void values_outside_the_enumerations_are_refused(void **state)
{
	expect(-EINVAL, RC, RTS, IBV_QPS_UNKNOWN, IBV_QP_STATE);
	expect(-EINVAL, RC, IBV_QPS_UNKNOWN, RESET, IBV_QP_STATE);
	expect(-EINVAL, RC, -1, RESET, IBV_QP_STATE);
	expect(-EINVAL, RC, RTS, 1000, IBV_QP_STATE);
	expect(-EINVAL, (enum ibv_qp_type)7, RESET, INIT, IBV_QP_STATE | IBV_QP_PORT);
	expect(-EINVAL, (enum ibv_qp_type)0, RESET, RESET, IBV_QP_STATE);
	expect(-EINVAL, (enum ibv_qp_type)UINT_MAX, RESET, RESET, IBV_QP_STATE);
	assert_string_equal(vb_qp_state_str(IBV_QPS_UNKNOWN), "unknown");
	assert_string_equal(vb_qp_state_str(IBV_QPS_SQE), "SQE");
}

static void the_sentence_names_what_is_wrong(void **state)
{
	assert_string_equal(explain(RC, INIT, RTR, IBV_QP_STATE | AV | DEST_QPN | RQ_PSN | DEST_RD),
			    "RC QP, INIT to RTR: the attribute mask lacks IBV_QP_PATH_MTU, "
			    "IBV_QP_MIN_RNR_TIMER");
	assert_string_equal(explain(UD, RTS, RTS, QKEY | ACCESS | (1 << 30)),
			    "UD QP, RTS to RTS: the attribute mask must not have "
			    "IBV_QP_ACCESS_FLAGS, 0x40000000");
	assert_string_equal(explain(UC, RESET, RTS, IBV_QP_STATE | SQ_PSN),
			    "UC QP, RESET to RTS: not a legal transition; the ways from there are "
			    "RESET, INIT");
	assert_string_equal(explain((enum ibv_qp_type)7, RESET, INIT, IBV_QP_STATE),
			    "QP type 7 is not one of RC, UC, UD, XRC, raw packet");
}

static void a_short_buffer_cuts_the_sentence(void **state)
{
	char sentence[12] = "xxxxxxxxxxx";

	vb_qp_edge_explain(RC, IBV_QPS_RESET, IBV_QPS_RTS, IBV_QP_STATE, sentence, 8);
	assert_string_equal(sentence, "RC QP, ");
	assert_memory_equal(sentence + 8, "xxx", 3);
	vb_qp_edge_explain(RC, IBV_QPS_RESET, IBV_QPS_RTS, IBV_QP_STATE, sentence, 0);
	assert_string_equal(sentence, "RC QP, ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_legal_edge_takes_exactly_its_attributes),
		cmocka_unit_test(reset_and_err_take_the_state_only),
		cmocka_unit_test(everything_else_is_illegal_with_any_attributes),
		cmocka_unit_test(values_outside_the_enumerations_are_refused),
		cmocka_unit_test(the_sentence_names_what_is_wrong),
		cmocka_unit_test(a_short_buffer_cuts_the_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
