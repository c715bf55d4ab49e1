/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/report.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "check/check.h"

enum { STATUS_FOUND = 66, PLACES_MAX = 512, FRAMES_COMPARED = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_check_options options;
static uint64_t places[PLACES_MAX]; /* under lock: what has been reported */
static unsigned place_count, counts[VB_RULE_COUNT];

void vb_report_begin(void)
{
	const char *text = vb_environment_text(VB_ENV_CHECK);
	char wrong[128];

	if (text && !vb_check_options_read(text, &options, wrong, sizeof(wrong)))
		fprintf(stderr, "verbena check: VERBENA_CHECK: '%s' has no meaning\n", wrong);
}

void vb_report_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	place_count = 0;
	memset(counts, 0, sizeof(counts));
}

bool vb_report_wants(enum vb_rule rule)
{
	return !options.off[rule];
}

static void write_all(const char *bytes, size_t length)
{
	int fd = STDERR_FILENO;

	if (*options.file)
		fd = open(options.file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	while (length && fd >= 0) {
		const ssize_t done = write(fd, bytes, length);

		if (done < 0 && errno != EINTR)
			break;
		bytes += done > 0 ? done : 0;
		length -= done > 0 ? (size_t)done : 0;
	}
	if (*options.file && fd >= 0)
		close(fd);
}

/* The innermost frames of the call to mend: a loop is one place, another caller is another. */
static uint64_t place_of(enum vb_rule rule, const struct vb_call *call)
{
	uint64_t place = rule + 1u;

	for (uint32_t i = 0; call->stack && i < call->stack->depth && i < FRAMES_COMPARED; i++)
		place = (place ^ (uintptr_t)call->stack->pc[i]) * 0x9e3779b97f4a7c15u;
	return place;
}

/* False: the place is known, or nobody wants more. */
static bool place_new(enum vb_rule rule, const struct vb_call *calls)
{
	const uint64_t place = place_of(rule, calls);

	if (options.off[rule])
		return false;
	for (unsigned i = 0; i < place_count; i++)
		if (places[i] == place)
			return false;
	if (place_count == PLACES_MAX)
		return false;
	places[place_count++] = place;
	counts[rule]++;
	return true;
}

static void print(enum vb_rule rule, const struct vb_call *calls, const char *sentence)
{
	struct vb_text text = { 0 };

	vb_text_add(&text, "verbena check: %s [%s] (%s, pid %d)\n  %s\n", vb_rules[rule].title,
		    vb_rules[rule].name, program_invocation_short_name, (int)getpid(), sentence);
	for (; calls->what; calls++) {
		if (!calls->stack || !calls->stack->depth)
			continue;
		vb_text_add(&text, "    %s:\n", calls->what);
		vb_symbol_stack(&text, calls->stack);
	}
	if (text.bytes)
		write_all(text.bytes, text.length);
	free(text.bytes);
}

void vb_report(enum vb_rule rule, const struct vb_call *calls, const char *format, ...)
{
	const bool inside = vb_check_inside;
	const int error = errno;
	char *sentence;
	va_list args;

	vb_check_inside = true;
	pthread_mutex_lock(&lock);
	if (place_new(rule, calls)) {
		va_start(args, format);
		if (vasprintf(&sentence, format, args) >= 0) {
			print(rule, calls, sentence);
			free(sentence);
		}
		va_end(args);
	}
	pthread_mutex_unlock(&lock);
	vb_check_inside = inside;
	errno = error;
}

void vb_report_summary(void)
{
	struct vb_text text = { 0 };
	const char *comma = ": ";

	vb_text_add(&text, "verbena check: %s (pid %d): %u report%s", program_invocation_short_name,
		    (int)getpid(), place_count, place_count == 1 ? "" : "s");
	for (int i = 0; i < VB_RULE_COUNT; i++)
		if (counts[i]) {
			vb_text_add(&text, "%s%s %u", comma, vb_rules[i].name, counts[i]);
			comma = ", ";
		}
	vb_text_add(&text, "\n");
	if (text.bytes)
		write_all(text.bytes, text.length);
	free(text.bytes);
}

int vb_report_status(int status)
{
	return place_count && !options.warn ? STATUS_FOUND : status;
}
