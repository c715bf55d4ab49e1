/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs every case in a process of its own, all at once, and reads what they say. TAP. */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { CASES_MAX = 128, AT_ONCE = 24 };

static const struct rig_case *const tables[] = { rig_key_cases,     rig_call_cases,
						 rig_hang_cases,    rig_pair_cases,
						 rig_connect_cases, rig_datagram_cases,
						 rig_window_cases };

static struct started {
	const struct rig_case *row;
	FILE *said;
	pid_t pid;
} started[CASES_MAX];

static bool by_packets(void)
{
	return getenv("VERBENA_PATH") != NULL;
}

static const char *const *wanted_of(const struct rig_case *row)
{
	return by_packets() ? row->packets : row->memory;
}

static void start(struct started *at)
{
	at->said = tmpfile();
	fflush(NULL);
	at->pid = fork();
	if (at->pid)
		return;
	dup2(fileno(at->said), STDERR_FILENO);
	at->row->run();
	exit(0);
}

static bool any_line(const char *text, const char *pattern)
{
	regex_t regex;
	bool found;

	if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB | REG_NEWLINE))
		return false;
	found = !regexec(&regex, text, 0, NULL, 0);
	regfree(&regex);
	return found;
}

static char *read_all(FILE *file)
{
	static char text[1 << 16];
	size_t length;

	rewind(file);
	length = fread(text, 1, sizeof(text) - 1, file);
	text[length] = '\0';
	return text;
}

/* Prints what is missing, and answers whether all is well. */
static bool judge(const struct started *at, int status)
{
	const char *const *wanted = wanted_of(at->row);
	const char *text = read_all(at->said);
	bool good = !status;

	if (status)
		printf("# the program ended with wait status 0x%x\n", status);
	for (int i = 0; i < 4 && wanted[i]; i++)
		if (!any_line(text, wanted[i])) {
			printf("# no line matches: %s\n", wanted[i]);
			good = false;
		}
	if (at->row->never && any_line(text, at->row->never)) {
		printf("# a line matches: %s\n", at->row->never);
		good = false;
	}
	if (!good || getenv("EXPLAIN_SHOW"))
		for (const char *line = strtok((char *)text, "\n"); line; line = strtok(NULL, "\n"))
			printf("# | %s\n", line);
	return good;
}

static int collect(const char *filter)
{
	int count = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (const struct rig_case *row = tables[i]; row->name; row++)
			if (wanted_of(row)[0] && count < CASES_MAX &&
			    (!filter || strstr(row->name, filter)))
				started[count++].row = row;
	return count;
}

static int run_all(const char *filter)
{
	int count = collect(filter), failed = 0;

	setenv("VERBENA_EXPLAIN", "1", 1);
	printf("1..%d\n", count);
	for (int i = 0; i < count + AT_ONCE; i++) {
		int status = 0, done = i - AT_ONCE;

		if (done >= 0) {
			waitpid(started[done].pid, &status, 0);
			bool good = judge(&started[done], status);

			printf("%sok %d - %s\n", good ? "" : "not ", done + 1,
			       started[done].row->name);
			failed += !good;
		}
		if (i < count)
			start(&started[i]);
	}
	return failed > 0;
}

/* One case as a program of its own, with the setting that it finds. */
static int run_alone(const char *name)
{
	if (!collect(name))
		return 2;
	started[0].row->run();
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--run"))
		return run_alone(argv[2]);
	return run_all(argc > 1 ? argv[1] : NULL);
}
