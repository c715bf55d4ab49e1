/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/config.h"
#include "base/message.h"

enum { LINE_MAX_CHARS = 512 };

/* --- counts of sentences --- */

/*
 * The table has no lock: a thread may fork while another thread explains. The first thread that
 * finds a place empty sets its key, once. A full table counts nothing, and every line is printed.
 */
enum { SAID_MAX = 1024 };
static struct {
	_Atomic uint64_t key; /* 0: empty */
	_Atomic uint64_t count;
} said[SAID_MAX];

static const char *number_skip(const char *text)
{
	while (isdigit((unsigned char)*text))
		text++;
	return text;
}

static const char *hex_end(const char *text)
{
	if (text[0] != '0' || text[1] != 'x')
		return text;
	for (text += 2; isxdigit((unsigned char)*text); text++)
		;
	return text;
}

/* FNV-1a over the words and the process's id: a child of fork begins to count anew. */
static uint64_t sentence_key(const char *text)
{
	const uint64_t prime = 0x100000001b3;
	uint64_t key = (0xcbf29ce484222325 ^ (uint64_t)getpid()) * prime;

	while (*text) {
		const char *end = hex_end(text);

		if (end == text && isdigit((unsigned char)*text)) {
			text = number_skip(text);
			end = text;
			key = (key ^ '#') * prime;
		} else if (end == text) {
			end = text + 1;
		}
		for (; text < end; text++)
			key = (key ^ (unsigned char)*text) * prime;
	}
	return key ? key : 1;
}

/* How often the sentence was said, this time included. */
static uint64_t sentence_count(const char *text)
{
	const uint64_t key = sentence_key(text);

	for (unsigned i = 0; i < SAID_MAX; i++) {
		const unsigned place = (unsigned)((key + i) % SAID_MAX);
		uint64_t found = atomic_load_explicit(&said[place].key, memory_order_relaxed);

		if (!found)
			atomic_compare_exchange_strong(&said[place].key, &found, key);
		if (!found || found == key)
			return atomic_fetch_add(&said[place].count, 1) + 1;
	}
	return 1;
}

static bool is_power_of_ten(uint64_t count)
{
	while (count % 10 == 0)
		count /= 10;
	return count == 1;
}

/* --- printing --- */

/* One write per line, so that lines of several threads and processes do not mix. */
static void line_print(const char *text, uint64_t count)
{
	char line[LINE_MAX_CHARS];
	int length = snprintf(line, sizeof(line) - 1, "verbena[%d]: %s", getpid(), text);

	if (count > 1 && length < (int)sizeof(line) - 1)
		length += snprintf(line + length, sizeof(line) - (size_t)length - 1,
				   " (%llu times so far)", (unsigned long long)count);
	if (length > (int)sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (vb_write(STDERR_FILENO, line, (size_t)length) < 0)
		return; /* standard error is closed */
}

static void sentence_say(const char *format, va_list args, bool each)
{
	const int saved_errno = errno;
	char text[LINE_MAX_CHARS];
	uint64_t count;

	vsnprintf(text, sizeof(text), format, args);
	count = each ? 1 : sentence_count(text);
	if (is_power_of_ten(count))
		line_print(text, count);
	errno = saved_errno;
}

void vb_explain(const char *format, ...)
{
	va_list args;

	if (!vb_config_explain())
		return;
	va_start(args, format);
	sentence_say(format, args, false);
	va_end(args);
}

void vb_explain_each(const char *format, ...)
{
	va_list args;

	if (!vb_config_explain())
		return;
	va_start(args, format);
	sentence_say(format, args, true);
	va_end(args);
}

void vb_complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	sentence_say(format, args, true);
	va_end(args);
}
