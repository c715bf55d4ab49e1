/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_LOG_H
#define VB_BASE_LOG_H

/*
 * Prints one line on standard error under VERBENA_EXPLAIN=1, nothing otherwise. errno is kept.
 * A program may probe for limits, and fail a hundred times for one reason. So sentences that differ
 * in decimal numbers only count as one sentence, which is printed the 1st, 10th, 100th ... time.
 * Numbers in hexadecimal name objects, and tell sentences apart.
 */
void vb_explain(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same without counting: for an event that is worth a line each time. */
void vb_explain_each(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same also without VERBENA_EXPLAIN: for a wrong setting, whose author expects an effect. */
void vb_complain(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

#endif
