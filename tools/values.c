/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of options: all of the text counts, and nothing else does. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "verbena.h"

bool value_number(const char *text, int base, uint64_t most, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, base);
	return !errno && end != text && !*end && *text != '-' && *number <= most;
}

bool value_pid(const char *text, pid_t *pid)
{
	uint64_t number;
	const bool good = value_number(text, 10, INT32_MAX, &number) && number;

	*pid = (pid_t)number;
	return good;
}

bool value_seconds(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	return end != text && !*end && isfinite(*seconds) && *seconds > 0;
}
