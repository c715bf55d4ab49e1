/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every environment variable that the libraries read, in one table: they, `verbena info` and
 * `verbena doctor` go by it, and tests/docs compares it with the manual page. The values are those
 * of the process, except in set-user-ID and set-group-ID programs: there nothing is set.
 */
#ifndef VB_BASE_ENVIRONMENT_H
#define VB_BASE_ENVIRONMENT_H

#include <stdbool.h>

enum vb_variable {
	VB_ENV_DEVICES,
	VB_ENV_EXPLAIN,
	VB_ENV_PATH,
	VB_ENV_KEYS,
	VB_ENV_FAULTS,
	VB_ENV_FAULTS_FILE,
	VB_ENV_PKEYS,
	VB_ENV_PKEYS_FILE,
	VB_ENV_SOCKETS_WAIT_MS,
	VB_ENV_OURS, /* those above are Verbena's, those below others have as well */
	VB_ENV_FORK_SAFE = VB_ENV_OURS,
	VB_ENV_RS_SQ_SIZE,
	VB_ENV_RS_RQ_SIZE,
	VB_ENV_RS_INLINE,
	VB_ENV_SYSFS_PATH,
	VB_ENV_LOG_LEVEL,
	VB_ENV_LOG_FILE,
	VB_ENV_RUNTIME_DIR,
	VB_ENV_TMPDIR,
	VB_ENV_COUNT
};

enum { VB_ENV_VALUES_MAX = 4 };

struct vb_environment_row {
	const char *name, *meaning;
	const char *otherwise; /* without the variable: this value, or what happens in words */
	const char *values[VB_ENV_VALUES_MAX]; /* all that it may have; the first is `otherwise` */
	const char *page; /* a wrong value keeps devices from opening; here are the right ones */
};

extern const struct vb_environment_row vb_environment_rows[VB_ENV_COUNT];

/* NULL: not set. */
const char *vb_environment(enum vb_variable variable);
/* NULL: not set, or empty. */
const char *vb_environment_text(enum vb_variable variable);
/* Set, not empty and not "0". */
bool vb_environment_flag(enum vb_variable variable);
/* Without the variable, and where it is empty, its `otherwise`; 0: no number. */
int vb_environment_number(enum vb_variable variable);
/* Which of its values, 0 as above; -EINVAL: none of them. */
int vb_environment_choice(enum vb_variable variable);

#endif
