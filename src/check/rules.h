/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of `verbena run --check`, and what the user has chosen. */
#ifndef VB_CHECK_RULES_H
#define VB_CHECK_RULES_H

#include <stdbool.h>
#include <stddef.h>

enum vb_rule {
	VB_RULE_SEND_CHANGED,
	VB_RULE_RECV_WRITTEN,
	VB_RULE_RECV_USED,
	VB_RULE_OVERLAP,
	VB_RULE_UNMAPPED,
	VB_RULE_FREED,
	VB_RULE_IN_FLIGHT,
	VB_RULE_LEAK,
	VB_RULE_CQ_OVERRUN,
	VB_RULE_UNSIGNALED,
	VB_RULE_UNPOLLED,
	VB_RULE_UNACKED,
	VB_RULE_DESTROYED,
	VB_RULE_RNR,
	VB_RULE_TIMER,
	VB_RULE_ROUTE,
	VB_RULE_LIMIT,
	VB_RULE_KEY,
	VB_RULE_THREADS,
	VB_RULE_SECTION,
	VB_RULE_COUNT,
};

struct vb_rule_row {
	const char *name, *title;
};

extern const struct vb_rule_row vb_rules[VB_RULE_COUNT];

/* The value of VERBENA_CHECK. */
struct vb_check_options {
	bool warn;               /* the exit status stays */
	bool off[VB_RULE_COUNT]; /* rules that are not checked */
	char file[4096];         /* empty: standard error */
};

/* False: a word without a meaning, in wrong. */
bool vb_check_options_read(const char *text, struct vb_check_options *options, char *wrong,
			   size_t size);

#endif
