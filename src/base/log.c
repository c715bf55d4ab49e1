/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"
#include "base/config.h"
#include "base/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* One write per line, so that lines of several threads and processes do not mix. */
void vb_explain(const char *format, ...)
{
	char line[512];
	int saved_errno = errno, length;
	va_list args;

	if (!vb_config_explain())
		return;
	length = snprintf(line, sizeof(line), "verbena[%d]: ", getpid());
	va_start(args, format);
	length += vsnprintf(line + length, sizeof(line) - (size_t)length - 1, format, args);
	va_end(args);
	if (length > (int)sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (vb_write(STDERR_FILENO, line, (size_t)length) < 0)
		errno = saved_errno; /* nowhere to say it */
	errno = saved_errno;
}
