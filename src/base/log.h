/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_LOG_H
#define VB_BASE_LOG_H

/*
 * Explains a failure: prints one line under VERBENA_EXPLAIN, on standard error or into its file,
 * nothing otherwise. errno is kept. A program may probe for limits, and fail a hundred times for
 * one reason. So sentences that differ in decimal numbers only count as one sentence, which is
 * printed the 1st, 10th, 100th ... time; the end of the program tells the last count. Numbers in
 * hexadecimal name objects, and tell sentences apart.
 */
void vb_explain(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same about something that is no failure. */
void vb_explain_note(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same without counting: for an event that is worth a line each time. */
void vb_explain_each(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same also without VERBENA_EXPLAIN: for a wrong setting, whose author expects an effect. */
void vb_complain(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* VERBENA_EXPLAIN=hint: counts a failure for the line at the end. */
void vb_explain_count(void);
/* Another library, with its own copy of this file, counts the failures of this one. */
void vb_explain_count_by(void (*count)(void));

#endif
