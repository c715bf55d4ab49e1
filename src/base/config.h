/* SPDX-License-Identifier: BSD-2-Clause */
/* What the variables of base/environment.h mean to the libraries. */
#ifndef VB_BASE_CONFIG_H
#define VB_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

/* VERBENA_EXPLAIN=1: each failure prints a sentence. Read once. */
bool vb_config_explain(void);

/* VERBENA_PATH: which way messages go, for tests. Read once. */
enum vb_path_choice {
	VB_PATH_AUTO, /* unset: as the attach verdict says */
	VB_PATH_WIRE, /* UDP, also within this host and this process */
	VB_PATH_SLOT, /* packets over slot sockets, also where memory could be touched */
	VB_PATH_SIM,  /* packets through memory of this process */
};
enum vb_path_choice vb_config_path(void);

/* VERBENA_KEYS=distinct: the lkey and the rkey of a region differ. Read once. */
bool vb_config_distinct_keys(void);

/* -EINVAL, and a line on standard error: one of those two is something else. No device opens then. */
int vb_config_check(void);

/*
 * -EINVAL, after a line on standard error, which does not wait for VERBENA_EXPLAIN: a program that
 * has other rules or partitions than its user means fails strangely. `where`: a variable or a file.
 */
int vb_config_refuse(const char *where, const char *why);
/* The text of a file that a variable names; size: with its NUL. flags: of open. As above. */
int vb_config_read_file(const char *file, int flags, char *text, size_t size);

#endif
