/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports: each place once. */
#ifndef VB_CHECK_REPORT_H
#define VB_CHECK_REPORT_H

#include <stdbool.h>

#include "check/rules.h"
#include "check/stack.h"

/* Up to three calls that a report is about. The first is the one to mend. */
struct vb_call {
	const char *what; /* "posted", "changed before the completion was polled" */
	const struct vb_stack *stack;
};

/* Ends with a call without a stack. */
void vb_report(enum vb_rule rule, const struct vb_call *calls, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#define VB_CALLS(...) ((const struct vb_call[]){ __VA_ARGS__, { NULL, NULL } })

void vb_report_begin(void);
/* False: the user has switched the rule off. */
bool vb_report_wants(enum vb_rule rule);
/* The line at the end of the program. */
void vb_report_summary(void);
/* The exit status, for a program that ends with `status`. */
int vb_report_status(int status);
void vb_report_forked(void);

/* Appends the frames of a stack, by file and line where they are known. */
struct vb_text {
	char *bytes;
	size_t length, size;
};
void vb_text_add(struct vb_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void vb_symbol_stack(struct vb_text *text, const struct vb_stack *stack);

#endif
