/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmocka 1.1.5 reports a skipped test as "not ok", which is a failure to all readers of TAP. The
 * library prints by a function that a program may define itself.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((visibility("default"))) void print_message(const char *const format, ...);

void print_message(const char *const format, ...)
{
	const char *meant = format;
	va_list arguments;

	if (!strcmp(format, "not ok %u # SKIP %s\n"))
		meant = "ok %u - %s # SKIP\n";
	va_start(arguments, format);
	vprintf(meant, arguments);
	va_end(arguments);
}
