/* SPDX-License-Identifier: BSD-2-Clause */
/* Variables of Verbena with invalid values: no device opens, and the library explains why. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/environment.h"
#include "doctor.h"
#include "verbena.h"

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
	const struct vb_environment_row *only = argument;

	for (int i = 0; i < VB_ENV_COUNT; i++)
		if (vb_environment_rows[i].page && &vb_environment_rows[i] != only)
			unsetenv(vb_environment_rows[i].name);
	return open_silently(NULL);
}

static bool is_to_blame(enum vb_variable variable)
{
	const struct vb_environment_row *row = &vb_environment_rows[variable];

	return row->page && vb_environment(variable) && probe_run(open_with, (void *)row);
}

static void blame(enum vb_variable variable)
{
	const struct vb_environment_row *row = &vb_environment_rows[variable];

	report(VERDICT_FAIL, "environment", "%s is '%.60s', with which no device opens", row->name,
	       vb_environment(variable));
	advise("a message on standard error explains the value (%s); see %s, or unset it",
	       row->meaning, row->page);
}

void check_environment(void)
{
	const bool guilty = probe_run(open_silently, NULL) && !probe_run(open_with, NULL);
	unsigned bad = 0;

	for (int i = 0; guilty && i < VB_ENV_COUNT; i++) {
		if (!is_to_blame(i))
			continue;
		bad++;
		blame(i);
	}
	if (!bad)
		report(VERDICT_OK, "environment", "all variables of Verbena have valid values");
}
