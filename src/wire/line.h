/* SPDX-License-Identifier: BSD-2-Clause */
/* One line of print, put together piece by piece. Text that does not fit is cut off. */
#ifndef VB_WIRE_LINE_H
#define VB_WIRE_LINE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct line {
	char *out;
	size_t size, used; /* used counts text that did not fit, too */
};

__attribute__((format(printf, 2, 3))) static inline void line_add(struct line *line,
								  const char *format, ...)
{
	size_t at = line->used < line->size ? line->used : line->size;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line->out + at, line->size - at, format, arguments);
	va_end(arguments);
	if (length > 0)
		line->used += (size_t)length;
}

static inline void line_add_if(struct line *line, bool condition, const char *word)
{
	if (condition)
		line_add(line, " %s", word);
}

#endif
