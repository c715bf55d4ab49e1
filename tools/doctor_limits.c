/* SPDX-License-Identifier: BSD-2-Clause */
/* Resource limits that a larger program on Verbena would reach. */
#include <stdio.h>
#include <sys/resource.h>

#include "doctor.h"

#define GIGABYTE (1ull << 30)

static const struct row {
	int resource;
	const char *subject;
	uint64_t enough;
	const char *advice;
} rows[] = {
	{ RLIMIT_NOFILE, "open files", 1024,
	  "ulimit -n: every context, channel and peer process takes descriptors" },
	{ RLIMIT_AS, "address space", 8 * GIGABYTE,
	  "ulimit -v: shared memory of peers takes address space, too" },
	{ RLIMIT_FSIZE, "file size", GIGABYTE,
	  "ulimit -f: the shared memory of queues counts as a file" },
};

static void check_limit(const struct row *row)
{
	struct rlimit limit;

	if (getrlimit(row->resource, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY) {
		report(VERDICT_OK, row->subject, "unlimited");
	} else if (limit.rlim_cur >= row->enough) {
		report(VERDICT_OK, row->subject, "at most %llu",
		       (unsigned long long)limit.rlim_cur);
	} else {
		report(VERDICT_WARN, row->subject, "at most %llu, which is little",
		       (unsigned long long)limit.rlim_cur);
		advise("%s", row->advice);
	}
}

void check_limits(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check_limit(&rows[i]);
	report(VERDICT_OK, "locked memory", "not used: registering memory pins nothing");
}
