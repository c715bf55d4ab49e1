/* SPDX-License-Identifier: BSD-2-Clause */
/* The process that --pid names. */
#include "engine/attach/silent.h"
#include "verbena.h"

bool process_is_there(const char *tool, pid_t pid)
{
	const char state = vb_process_state(pid);
	char line[VB_SILENT_LINE];

	if (state && state != 'Z' && state != 'X')
		return true;
	complain("%s: %s", tool, vb_silent_words(pid, 0, line));
	return false;
}
