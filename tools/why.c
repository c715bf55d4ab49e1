/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena why: why does a program not go on? */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/attach/silent.h"
#include "engine/attach/why_words.h"
#include "verbena.h"

static const char usage[] =
	"usage: verbena why [--watch=SECONDS] [PID | QPN]\n\n"
	"Says for each queue, completion queue and call of this user's processes that does not "
	"get\n"
	"on what it waits for. PID and QPN (0x...) choose one process or QP.\n\n"
	"  -w, --watch=SECONDS  stay, and tell when nothing has moved for so long\n\n"
	"Exit status: 0 nothing is stuck, 1 something is, 2 usage, 3 a process did not answer.\n";

enum { GAP_MS = 200, EXIT_UNASKED = 3 };

static void print_line(void *arg, const char *line)
{
	(void)arg;
	puts(line);
}

static void keep_silent(void *arg, const char *line)
{
	(void)arg;
	(void)line;
}

/* --- arguments --- */

static bool number_parse(const char *text, int base, uint64_t *number)
{
	return value_number(text, base, INT32_MAX, number) && *number;
}

/* 0x...: a QP. A decimal number is a process, or a QP where there is no such process. */
static bool target_parse(const char *text, struct vb_why_question *question)
{
	const bool hex = !strncmp(text, "0x", 2);
	uint64_t number;

	if (!number_parse(text, hex ? 16 : 10, &number))
		return false;
	if (hex || (!vb_process_state((pid_t)number) && number >= 4096))
		question->qpn = (uint32_t)number;
	else
		question->pid = (pid_t)number;
	question->decimal = !hex;
	return true;
}

/* -1: go on; else the exit status. */
static int arguments_parse(int argc, char **argv, struct vb_why_question *question,
			   uint64_t *watch_s)
{
	static const struct option longs[] = { { "watch", required_argument, NULL, 'w' },
					       { "help", no_argument, NULL, 'h' },
					       { 0 } };
	int letter;

	opterr = 0;
	while ((letter = getopt_long(argc, argv, "w:h", longs, NULL)) != -1) {
		if (letter == 'h') {
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		}
		if (letter == '?' && !strncmp(argv[optind - 1], "--", 2) &&
		    strcmp(argv[optind - 1], "--watch"))
			return option_unknown("why", argv[optind - 1], usage);
		if (letter != 'w' || !number_parse(optarg, 10, watch_s)) {
			complain("why: --watch needs a number of seconds");
			return EXIT_USAGE;
		}
	}
	if (argc - optind > 1 || (optind < argc && !target_parse(argv[optind], question))) {
		complain("why: '%s' is neither a PID nor a QP number", argv[argc - 1]);
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	return -1;
}

/* --- the answer --- */

static int missing_tell(const struct vb_why_question *question)
{
	char line[VB_SILENT_LINE];

	if (question->qpn && question->decimal)
		complain(
			"there is no process %u, and no process of this host that may be asked has "
			"QP 0x%06x",
			question->qpn, question->qpn);
	else if (question->qpn)
		complain("no process of this host that may be asked has QP 0x%06x", question->qpn);
	else
		complain("%s", vb_silent_words(question->pid, 0, line));
	return EXIT_UNASKED;
}

static int verdict_tell(const struct vb_why_verdict *verdict)
{
	if (verdict->stuck)
		return EXIT_FAILURE;
	if (verdict->unasked)
		return EXIT_UNASKED;
	printf("nothing is stuck: %u QPs got on in the last %u ms, %u have nothing posted\n",
	       verdict->moved, GAP_MS, verdict->idle);
	return EXIT_SUCCESS;
}

static int ask_once(struct vb_why_question *question)
{
	struct vb_why_verdict verdict;
	struct vb_why why;
	int err = vb_why_look(&why, question, GAP_MS);

	if (err) {
		complain("/proc/net/unix: %s", strerror(-err));
		return EXIT_UNASKED;
	}
	verdict = vb_why_tell(&why, question);
	vb_why_free(&why);
	return verdict.found ? verdict_tell(&verdict) : missing_tell(question);
}

/* --- watching --- */

static void time_print(void)
{
	char text[32];
	time_t now = time(NULL);
	struct tm tm;

	if (localtime_r(&now, &tm) && strftime(text, sizeof(text), "%H:%M:%S", &tm))
		printf("%s\n", text);
}

/* A look of the given length. Tells if nothing moved in it, and something waits: once per wait. */
static bool watch_turn(struct vb_why_question *question, unsigned gap_ms, bool *told)
{
	struct vb_why_question silent = *question;
	struct vb_why_verdict verdict;
	struct vb_why why;

	if (vb_why_look(&why, question, gap_ms))
		return false;
	silent.say = keep_silent;
	verdict = vb_why_tell(&why, &silent);
	if (!verdict.moved && verdict.stuck && !*told) {
		time_print();
		vb_why_tell(&why, question);
		fflush(stdout);
	}
	*told = !verdict.moved && verdict.stuck;
	vb_why_free(&why);
	return verdict.found;
}

static int watch(struct vb_why_question *question, uint64_t seconds)
{
	bool told = false, found = false;

	while (watch_turn(question, (unsigned)seconds * 1000, &told) ||
	       (!question->pid && !question->qpn))
		found = true;
	return found ? EXIT_SUCCESS : missing_tell(question);
}

int verbena_why(int argc, char **argv)
{
	struct vb_why_question question = { .say = print_line };
	uint64_t watch_s = 0;
	int status = arguments_parse(argc, argv, &question, &watch_s);

	if (status >= 0)
		return status;
	return watch_s ? watch(&question, watch_s) : ask_once(&question);
}
