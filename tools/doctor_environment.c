/* SPDX-License-Identifier: BSD-2-Clause */
/* Variables of Verbena with invalid values: no device opens, and the library explains why. */
#include "doctor.h"
#include "verbena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const struct row {
	const char *variable, *page;
} rows[] = {
	{ "VERBENA_PATH", "verbena(7)" },
	{ "VERBENA_KEYS", "verbena(7)" },
	{ "VERBENA_FAULTS", "verbena-faults(7)" },
	{ "VERBENA_FAULTS_FILE", "verbena-faults(7)" },
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };

static void ignore_device(struct ibv_context *context)
{
}

static int open_all(void *argument)
{
	return devices_each(ignore_device) < 0 ? EIO : 0;
}

int try_devices(void)
{
	return probe_run(open_all, NULL);
}

/* Without messages: the check of devices prints them once. */
static int open_silently(void *argument)
{
	const int silence = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (silence >= 0)
		dup2(silence, STDERR_FILENO);
	return open_all(NULL);
}

/* Opens the devices with only this variable set, or (NULL) none of them. */
static int open_with(void *argument)
{
	const struct row *row = argument;

	for (size_t i = 0; i < ROWS; i++)
		if (&rows[i] != row)
			unsetenv(rows[i].variable);
	return open_silently(NULL);
}

void check_environment(void)
{
	const bool guilty = probe_run(open_silently, NULL) && !probe_run(open_with, NULL);
	unsigned bad = 0;

	for (size_t i = 0; guilty && i < ROWS; i++) {
		if (!getenv(rows[i].variable) || !probe_run(open_with, (void *)&rows[i]))
			continue;
		bad++;
		report(VERDICT_FAIL, "environment", "%s is '%.60s', with which no device opens",
		       rows[i].variable, getenv(rows[i].variable));
		advise("a message on standard error explains the value; see %s, or unset it",
		       rows[i].page);
	}
	if (!bad)
		report(VERDICT_OK, "environment", "all variables of Verbena have valid values");
}
