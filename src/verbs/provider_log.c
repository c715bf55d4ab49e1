/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log of provider libraries. Providers write to it about foreign devices, too ("not mine"). So
 * the log is silent unless VERBS_LOG_LEVEL asks: 1 errors, 2 warnings, 3 information, 4 debugging.
 * Messages go to VERBS_LOG_FILE, else to standard error.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/environment.h"
#include "base/symver.h"

static uint32_t log_level(void)
{
	const char *level = vb_environment(VB_ENV_LOG_LEVEL);

	return level ? (uint32_t)strtoul(level, NULL, 0) : 0;
}

/* Opened for each message: messages are rare, and no descriptor stays in the program. */
static int log_open(void)
{
	const char *path = vb_environment(VB_ENV_LOG_FILE);

	if (!path)
		return STDERR_FILENO;
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static void log_write(const char *format, va_list args)
{
	int fd = log_open();

	if (fd < 0)
		return;
	vdprintf(fd, format, args);
	if (fd != STDERR_FILENO)
		close(fd);
}

void __verbs_log(struct verbs_context *ctx, uint32_t level, const char *format, ...)
	VB_PRIVATE(__verbs_log);

VB_PUBLIC void __attribute__((format(printf, 3, 4)))
__verbs_log(struct verbs_context *ctx, uint32_t level, const char *format, ...)
{
	VB_NO_CANCEL;
	int saved_errno = errno;
	va_list args;

	if (level <= log_level()) {
		va_start(args, format);
		log_write(format, args);
		va_end(args);
	}
	errno = saved_errno;
}
VB_PRIVATE_SINCE_34(__verbs_log);
