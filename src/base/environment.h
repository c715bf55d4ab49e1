/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every environment variable that the libraries read, in one table. The libraries, `verbena info`
 * and `verbena doctor` use this table, and tests/docs compares it with the manual page. In
 * set-user-ID and set-group-ID programs all variables count as not set.
 */
#ifndef VB_BASE_ENVIRONMENT_H
#define VB_BASE_ENVIRONMENT_H

#include <stdbool.h>

enum vb_variable {
	VB_ENV_DEVICES,
	VB_ENV_SYSTEM_LIBDIR,
	VB_ENV_AS,
	VB_ENV_EXPLAIN,
	VB_ENV_TRACE,
	VB_ENV_CHECK,
	VB_ENV_PATH,
	VB_ENV_KEYS,
	VB_ENV_LANES,
	VB_ENV_MAP,
	VB_ENV_FAULTS,
	VB_ENV_FAULTS_FILE,
	VB_ENV_ADVERSARY,
	VB_ENV_PKEYS,
	VB_ENV_PKEYS_FILE,
	VB_ENV_SOCKETS_WAIT_MS,
	VB_ENV_OURS, /* the variables above are Verbena's own, other software knows those below */
	VB_ENV_FORK_SAFE = VB_ENV_OURS,
	VB_ENV_RS_SQ_SIZE,
	VB_ENV_RS_RQ_SIZE,
	VB_ENV_RS_INLINE,
	VB_ENV_SYSFS_PATH,
	VB_ENV_LOG_LEVEL,
	VB_ENV_LOG_FILE,
	VB_ENV_RUNTIME_DIR,
	VB_ENV_TMPDIR,
	VB_ENV_NO_COLOR,
	VB_ENV_TERM,
	VB_ENV_COUNT
};

enum { VB_ENV_VALUES_MAX = 4 };

struct vb_environment_row {
	const char *name, *meaning;
	const char *otherwise; /* without the variable: its value, or the effect in words */
	const char *values[VB_ENV_VALUES_MAX]; /* all legal values; the first is `otherwise` */
	const char
		*page; /* the manual page of the legal values; a wrong one keeps devices closed */
};

extern const struct vb_environment_row vb_environment_rows[VB_ENV_COUNT];

/* NULL: not set. */
const char *vb_environment(enum vb_variable variable);
/* NULL: not set, or empty. */
const char *vb_environment_text(enum vb_variable variable);
/* Set, not empty and not "0". */
bool vb_environment_flag(enum vb_variable variable);
/* The number of the variable, or of its `otherwise` where the variable is unset or empty; 0: no
 * number. */
int vb_environment_number(enum vb_variable variable);
/* True: the value is a list, with commas or spaces between its words, that has this one. */
bool vb_environment_has(enum vb_variable variable, const char *word);
/* The word of VERBENA_DEVICES for the devices of the host. */
#define VB_WORD_SYSTEM "+system"
/* The index of the value, 0 where the variable is unset or empty; -EINVAL: no legal value. */
int vb_environment_choice(enum vb_variable variable);

#endif
