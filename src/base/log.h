/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_LOG_H
#define VB_BASE_LOG_H

#include <stdbool.h>

/*
 * Explains a failure: prints one line under VERBENA_EXPLAIN, on standard error or into its file,
 * nothing otherwise. errno is kept. A program may probe for limits, and fail a hundred times for
 * one reason. So sentences that differ in decimal numbers only count as one sentence, which is
 * printed the 1st, 10th, 100th ... time; the end of the program tells the last count. Numbers in
 * hexadecimal name objects, and tell sentences apart.
 */
void vb_explain(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same about a failure that no call returns: of a work request, a packet, a peer. */
void vb_explain_work(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same about something that is no failure. */
void vb_explain_note(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same without counting: for an event that is worth a line each time. */
void vb_explain_each(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same also without VERBENA_EXPLAIN: for a wrong setting, whose author expects an effect. */
void vb_complain(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/*
 * No failing call is silent. The guard of a public call (base/cancel.h) forgets what was explained
 * before, vb_explain remembers that the thread has explained the failure, and the code that turns
 * it into the result of the call (base/result.h) asks for the rest: a line with the name of the
 * call and the error, for causes that have no sentence of their own.
 */
extern __thread bool vb_explained;
void vb_explain_rest(const char *function, int err) __attribute__((cold));
/* True: the thread has explained something since the guard, or since the last such question. */
bool vb_explained_take(void);

/* VERBENA_EXPLAIN=hint: counts a failure for the line at the end. */
void vb_explain_count(void);
/* Another library, with its own copy of this file, counts the failures of this one, and tells what
 * it has explained itself (vb_explained_take there). */
void vb_explain_join(void (*count)(void), bool (*explained)(void));

#endif
