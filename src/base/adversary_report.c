/* SPDX-License-Identifier: BSD-2-Clause */
/* The last deeds of the adversary: notes, and the report at a failure or at the program's end. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/adversary.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/message.h"
#include "base/spin.h"

enum {
	NOTES = 32,
	NOTE_CHARS = 160,
	COMMAND_CHARS = 512,
};

static const char *const deed_words[VB_DEED_COUNT] = {
	[VB_DEED_SEND_LATE] = "late sends",
	[VB_DEED_QUIET_LATE] = "late unsignalled sends",
	[VB_DEED_COMPLETION_LATE] = "late completions of sends",
	[VB_DEED_POLL_EMPTY] = "completions that hid from polls",
	[VB_DEED_POST_SLOW] = "slow posts",
	[VB_DEED_EVENT_LATE] = "CQs with late events",
	[VB_DEED_EVENT_EXTRA] = "extra events",
	[VB_DEED_WRITE_SHARDS] = "writes in pieces",
	[VB_DEED_READ_SHARDS] = "reads in pieces",
	[VB_DEED_ATOMIC_GAP] = "atomics with a gap",
	[VB_DEED_ATOMIC_BUSY] = "atomics that met others",
	[VB_DEED_PACKET_LOST] = "lost packets",
	[VB_DEED_PACKET_TWICE] = "packets sent twice",
	[VB_DEED_PACKET_OVERTAKEN] = "packets out of order",
	[VB_DEED_PACKET_LATE] = "late packets",
	[VB_DEED_ACK_LATE] = "late ACKs",
};

/* --- what was done --- */

static struct {
	struct vb_spin lock;
	pid_t pid; /* of the process that did it: a child of fork begins anew */
	uint64_t start_ns;
	uint64_t count; /* notes so far: the next one goes to count % NOTES */
	uint64_t of[VB_DEED_COUNT];
	char text[NOTES][NOTE_CHARS];
} done;

/* Under the lock. */
static char *note_begin(enum vb_deed deed, uint32_t qpn, uint64_t wr_id, size_t *used)
{
	char *text = done.text[done.count % NOTES];
	uint64_t us;

	if (done.pid != getpid()) {
		done.pid = getpid();
		done.count = 0;
		memset(done.of, 0, sizeof(done.of));
		done.start_ns = vb_now_ns();
		text = done.text[0];
	}
	us = (vb_now_ns() - done.start_ns) / 1000;
	*used = (size_t)snprintf(text, NOTE_CHARS, "  %llu.%06llu s  ",
				 (unsigned long long)(us / 1000000),
				 (unsigned long long)(us % 1000000));
	if (qpn)
		*used += (size_t)snprintf(text + *used, NOTE_CHARS - *used,
					  "QP 0x%06x wr_id %llu: ", qpn, (unsigned long long)wr_id);
	done.count++;
	done.of[deed]++;
	return text;
}

/* A child of fork may find the lock taken by a thread that it does not have: then it does without
 * notes. */
static bool notes_lock(void)
{
	for (unsigned tries = 0; tries < 1000; tries++) {
		if (vb_spin_try(&done.lock))
			return true;
		sched_yield();
	}
	return false;
}

void vb_adversary_note(enum vb_deed deed, uint32_t qpn, uint64_t wr_id, const char *format, ...)
{
	const int saved_errno = errno;
	size_t used;
	va_list args;
	char *text;

	if (!notes_lock())
		return;
	va_start(args, format);
	text = note_begin(deed, qpn, wr_id, &used);
	vsnprintf(text + used, NOTE_CHARS - used, format, args);
	vb_spin_unlock(&done.lock);
	va_end(args);
	errno = saved_errno;
}

/* --- the report --- */

/* Also in a signal handler: into memory of its own, and straight to the descriptor. */
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
	char line[COMMAND_CHARS + 128];
	int length = snprintf(line, sizeof(line), "verbena[%d]: ", (int)getpid());
	va_list args;

	va_start(args, format);
	length += vsnprintf(line + length, sizeof(line) - 1 - (size_t)length, format, args);
	va_end(args);
	if (length > (int)sizeof(line) - 2)
		length = (int)sizeof(line) - 2;
	line[length] = '\n';
	if (vb_write(STDERR_FILENO, line, (size_t)length + 1) < 0)
		return; /* nobody reads it */
}

static bool is_plain(const char *word)
{
	return *word && !strpbrk(word, " \t\n\"'\\$`&|;<>()*?[]{}#~!");
}

/* The words of the command behind its seed, quoted as a shell needs it. */
static void command_read(char command[COMMAND_CHARS])
{
	const char *as = vb_environment_text(VB_ENV_AS);
	char words[COMMAND_CHARS];
	FILE *file = fopen("/proc/self/cmdline", "re");
	size_t length = file ? fread(words, 1, sizeof(words) - 1, file) : 0, used = 0;

	if (file)
		fclose(file);
	words[length] = '\0';
	*command = '\0';
	if (as)
		used = (size_t)snprintf(command, COMMAND_CHARS, " --as=%s", as);
	for (const char *word = words; word < words + length && used < COMMAND_CHARS;
	     word += strlen(word) + 1)
		used += (size_t)snprintf(command + used, COMMAND_CHARS - used,
					 is_plain(word) ? " %s" : " '%s'", word);
}

static char command[COMMAND_CHARS]; /* read at the load: a signal handler must not */

static void say_sums(void)
{
	char line[COMMAND_CHARS];
	size_t used = 0;

	for (unsigned i = 0; i < VB_DEED_COUNT && used < sizeof(line); i++)
		if (done.of[i])
			used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s: %llu",
						 used ? ", " : "", deed_words[i],
						 (unsigned long long)done.of[i]);
	if (used)
		say("in all: %s", line);
}

static uint64_t reported; /* deeds up to the last report */

void vb_adversary_report(const char *why)
{
	const uint64_t count = done.pid == getpid() ? done.count : 0;

	reported = count;
	say("%s, with adversary seed %llu. %s", why, (unsigned long long)vb_adversary_seed(),
	    count ? "What was done to the program last:" : "Nothing was done to the program.");
	for (uint64_t i = count > NOTES ? count - NOTES : 0; i < count; i++)
		say("%s", done.text[i % NOTES]);
	if (count)
		say_sums();
	say("again: verbena run --adversary=%llu%s", (unsigned long long)vb_adversary_seed(),
	    command);
}

void vb_adversary_report_once(const char *why)
{
	static _Atomic bool told;

	if (!atomic_exchange(&told, true))
		vb_adversary_report(why);
}

/* --- the end of the program --- */

static pid_t loaded_pid; /* a child of fork that does nothing with the NIC ends in silence */

static bool is_ours(void)
{
	return vb_adversary_on() && (loaded_pid == getpid() || done.pid == getpid());
}

static void on_end(int status, void *unused)
{
	char why[64];

	(void)unused;
	if (!status || !is_ours() || (reported && reported == done.count))
		return;
	snprintf(why, sizeof(why), "the program ended with status %d", status);
	vb_adversary_report(why);
}

static void on_signal(int number)
{
	char why[64];

	if (is_ours()) {
		snprintf(why, sizeof(why), "the program ended by signal %d", number);
		vb_adversary_report(why);
	}
	raise(number); /* SA_RESETHAND: the default action follows */
}

/* A program's own handlers stay. */
static void signals_watch(void)
{
	static const int numbers[] = { SIGSEGV, SIGABRT, SIGBUS, SIGFPE,
				       SIGILL,  SIGTERM, SIGINT, SIGALRM };
	const struct sigaction ours = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		struct sigaction before;

		if (!sigaction(numbers[i], NULL, &before) && before.sa_handler == SIG_DFL)
			sigaction(numbers[i], &ours, NULL);
	}
}

void vb_adversary_watch_end(void)
{
	command_read(command);
	loaded_pid = getpid();
	signals_watch();
	on_exit(on_end, NULL);
}
