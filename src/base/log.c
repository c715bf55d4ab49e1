/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"
#include "base/config.h"
#include "base/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* One write per line, so that lines of several threads and processes do not mix. */
static void print(const char *format, va_list args)
{
	char line[512];
	int saved_errno = errno, length;

	length = snprintf(line, sizeof(line), "verbena[%d]: ", getpid());
	length += vsnprintf(line + length, sizeof(line) - (size_t)length - 1, format, args);
	if (length > (int)sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (vb_write(STDERR_FILENO, line, (size_t)length) < 0)
		errno = saved_errno; /* nowhere to say it */
	errno = saved_errno;
}

void vb_explain(const char *format, ...)
{
	va_list args;

	if (!vb_config_explain())
		return;
	va_start(args, format);
	print(format, args);
	va_end(args);
}

void vb_complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print(format, args);
	va_end(args);
}
