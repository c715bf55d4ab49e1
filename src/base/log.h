/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_LOG_H
#define VB_BASE_LOG_H

/* One line on standard error under VERBENA_EXPLAIN=1, nothing otherwise. errno is kept. */
void vb_explain(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same in any case: a setting that nobody can understand, so that who made it expects otherwise. */
void vb_complain(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

#endif
