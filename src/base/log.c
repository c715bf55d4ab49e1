/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/config.h"
#include "base/environment.h"
#include "base/message.h"

enum { LINE_MAX_CHARS = 512 };

/* --- counts of sentences --- */

/*
 * The table has no lock: a thread may fork while another thread explains. The first thread that
 * finds a place empty sets its key, once. A full table counts nothing, and every line is printed.
 */
enum { SAID_MAX = 1024, SAID_TEXT = 200 };
static struct {
	_Atomic uint64_t key; /* 0: empty */
	_Atomic uint64_t count;
	pid_t pid;            /* of the process that said it first ... */
	char text[SAID_TEXT]; /* ... and how it began; for the end of that process */
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
		if (!found) {
			said[place].pid = getpid();
			snprintf(said[place].text, SAID_TEXT, "%.*s", SAID_TEXT - 1, text);
		}
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

#define BOLD  "\033[1;33m"
#define PLAIN "\033[0m"

static bool has_colours(int fd)
{
	const char *term = vb_environment_text(VB_ENV_TERM);

	return isatty(fd) && !vb_environment_text(VB_ENV_NO_COLOR) &&
	       !(term && !strcmp(term, "dumb"));
}

/*
 * The file is opened for each line: a daemon closes all descriptors that it does not know. A file
 * that cannot be opened is told of once, and standard error takes its place.
 */
static int target_open(void)
{
	static _Atomic bool told;
	const char *file = vb_config_explain() ? vb_config_explain_file() : NULL;
	int fd = file ? open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666) : -1;

	if (fd < 0 && file && !atomic_exchange(&told, true))
		vb_complain("VERBENA_EXPLAIN: %.200s: %s: sentences go to standard error", file,
			    strerror(errno));
	return fd < 0 ? STDERR_FILENO : fd;
}

/* One write per line, so that lines of several threads and processes do not mix. */
static void line_write(int fd, const char *text, const char *end)
{
	char line[LINE_MAX_CHARS];
	const bool colours = has_colours(fd);
	int length = snprintf(line, sizeof(line) - 1, "%sverbena[%d]:%s %s%s", colours ? BOLD : "",
			      getpid(), colours ? PLAIN : "", text, end);

	if (length > (int)sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (vb_write(fd, line, (size_t)length) < 0)
		return; /* standard error is closed */
}

static void line_to_target(const char *text, const char *end)
{
	const int fd = target_open();

	line_write(fd, text, end);
	if (fd != STDERR_FILENO)
		close(fd);
}

static void line_print(const char *text, uint64_t count)
{
	char end[64] = "";

	if (count > 1)
		snprintf(end, sizeof(end), " (%llu times so far)", (unsigned long long)count);
	line_to_target(text, end);
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

/* --- failures of a program that does not ask for sentences --- */

static _Atomic uint64_t failures;
static void (*_Atomic count_by)(void);
static bool (*_Atomic explained_by)(void);

void vb_explain_join(void (*count)(void), bool (*explained)(void))
{
	atomic_store(&count_by, count);
	atomic_store(&explained_by, explained);
}

void vb_explain_count(void)
{
	void (*count)(void) = atomic_load(&count_by);

	if (!vb_config_explain_hint())
		return;
	if (count)
		count();
	else
		atomic_fetch_add(&failures, 1);
}

/* --- the calls --- */

static void failure_say(const char *format, va_list args)
{
	if (vb_config_explain())
		sentence_say(format, args, false);
	else
		vb_explain_count();
}

void vb_explain(const char *format, ...)
{
	va_list args;

	vb_explained = true;
	va_start(args, format);
	failure_say(format, args);
	va_end(args);
}

void vb_explain_work(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	failure_say(format, args);
	va_end(args);
}

void vb_explain_note(const char *format, ...)
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
	const int saved_errno = errno;
	char text[LINE_MAX_CHARS];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	line_write(STDERR_FILENO, text, "");
	errno = saved_errno;
}

/* --- calls that fail without a sentence --- */

bool vb_explained_take(void)
{
	const bool explained = vb_explained;

	vb_explained = false;
	return explained;
}

/* A thing that a program asks for and that is not there yet is no failure. */
static bool is_failure(int err)
{
	return err != EAGAIN && err != EINTR && err != EINPROGRESS && err != ENODATA;
}

/* Functions behind an entry of the context's table have the name of the public call at the end. */
static const char *public_name(const char *function, const char **prefix)
{
	static const char table[] = "vb_ops_";
	const bool in_table = !strncmp(function, table, sizeof(table) - 1);

	*prefix = in_table ? "ibv_" : "";
	return function + (in_table ? sizeof(table) - 1 : 0);
}

void vb_explain_rest(const char *function, int err)
{
	bool (*explained)(void) = atomic_load(&explained_by);
	const char *prefix, *name = public_name(function, &prefix);

	if ((explained && explained()) || vb_explained || !is_failure(err))
		return;
	vb_explain("%s%s: %s (errno %d)", prefix, name,
		   err == ENOMEM                    ? "no memory is left for this process"
		   : err == EMFILE || err == ENFILE ? "no file descriptor is left"
						    : strerror(err),
		   err);
}

/* --- the end of the program --- */

__attribute__((destructor)) static void counts_print(void)
{
	const uint64_t count = atomic_load(&failures);
	char text[96];

	if (count) {
		snprintf(text, sizeof(text), "%llu RDMA calls or completions failed",
			 (unsigned long long)count);
		line_write(STDERR_FILENO, text,
			   ": `verbena run --explain` says why, `--quiet` omits this line");
	}
	for (unsigned i = 0; i < SAID_MAX; i++) {
		const uint64_t times = atomic_load(&said[i].count);

		if (times < 2 || said[i].pid != getpid() || is_power_of_ten(times))
			continue;
		snprintf(text, sizeof(text), " (%llu times in all)", (unsigned long long)times);
		line_to_target(said[i].text, text);
	}
}
