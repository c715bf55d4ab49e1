/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena trace, and verbena run --trace: the options, and the loop that reads rings. */
#include "trace.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/environment.h"
#include "engine/attach/sources.h"
#include "verbena.h"

static const char usage[] =
	"usage: verbena trace -o FILE [OPTIONS]\n\n"
	"Writes a time line of the work requests of this user's processes, for Perfetto\n"
	"(https://ui.perfetto.dev) and other programs that read Chrome's trace events.\n"
	"Ends at Ctrl-C or at a limit. 'verbena run --trace FILE PROGRAM' traces a program from\n"
	"its beginning.\n\n"
	"  -o, --output=FILE   the file; several traces may write to one file at the same time\n"
	"  -p, --pid=PID       this process only\n"
	"  -s, --seconds=S     end after S seconds\n"
	"  -l, --limit=MB      write no more than this (default: 256); the rest is counted\n"
	"      --quiet         no summary at the end\n";

enum { LOOK_NS = 200000000, IDLE_MS = 2 };

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

struct trace {
	const struct trace_options *options;
	struct vb_sources sources;
	struct trace_file file;
	struct trace_model model;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void record_take(void *arg, struct vb_source *source, const struct vb_capture_head *record)
{
	struct trace *trace = arg;

	if (record->kind == VB_CAPTURE_STATION && record->size >= sizeof(struct vb_capture_station))
		trace_station(&trace->model, source->pid, source->program,
			      (const struct vb_capture_station *)record);
}

static bool round_do(struct trace *trace)
{
	bool any = vb_sources_read(&trace->sources, record_take, trace);

	trace_round(&trace->model);
	trace_file_flush(&trace->file);
	return any;
}

static bool is_over(const struct trace *trace, uint64_t begun_ns)
{
	const double seconds = trace->options->seconds;

	return interrupted || trace->file.broken ||
	       (seconds && (double)(now_ns() - begun_ns) >= seconds * 1e9);
}

/* The signals of a terminal reach the program as well: it decides what they mean. */
static bool program_ended(pid_t program, int *status)
{
	int how;

	if (program < 0)
		return false;
	if (interrupted) {
		kill(program, interrupted);
		interrupted = 0;
	}
	if (waitpid(program, &how, WNOHANG) != program)
		return false;
	*status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
	return true;
}

/* program: -1: none, all processes are looked for. */
static int trace_loop(struct trace *trace, pid_t program)
{
	const uint64_t begun_ns = now_ns();
	uint64_t looked_ns = 0;
	int status = EXIT_SUCCESS;
	bool any = false;

	while (!program_ended(program, &status) && (program >= 0 || !is_over(trace, begun_ns))) {
		if (program < 0 && (!looked_ns || now_ns() - looked_ns >= LOOK_NS)) {
			vb_sources_look(&trace->sources);
			looked_ns = now_ns();
		}
		vb_sources_wait(&trace->sources, any ? 1 : IDLE_MS);
		any = round_do(trace);
	}
	vb_sources_wait(&trace->sources, 0);
	round_do(trace);
	return status;
}

static void lost_tell(struct trace *trace, const struct vb_source *source, uint64_t lost)
{
	const struct trace_track track = { source->pid, 0 };
	char name[64];

	if (!lost)
		return;
	snprintf(name, sizeof(name), "%llu stations are lost", (unsigned long long)lost);
	trace_instant(&trace->file, track, name, trace->model.last_ns, "");
}

static bool trace_end(struct trace *trace)
{
	uint64_t lost = 0;
	unsigned processes = 0;
	bool good;

	trace_finish(&trace->model, now_ns());
	for (unsigned i = 0; i < trace->sources.count; i++) {
		const uint64_t of_it = vb_source_stations_lost(trace->sources.list[i]);

		lost_tell(trace, trace->sources.list[i], of_it);
		lost += of_it;
		processes += trace->sources.list[i]->captured;
	}
	good = trace_file_close(&trace->file);
	if (!trace->options->quiet)
		complain("trace: %llu events of %u process%s in %s, %llu stations lost",
			 (unsigned long long)trace->file.events, processes,
			 processes == 1 ? "" : "es", trace->options->output,
			 (unsigned long long)lost);
	if (trace->file.refused)
		complain("trace: %llu more events exceed the limit of %llu MB and are not in the "
			 "file",
			 (unsigned long long)trace->file.refused,
			 (unsigned long long)trace->options->limit_mb);
	return good;
}

static void signals_catch(bool program)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	if (program) {
		signal(SIGINT, SIG_IGN);
		signal(SIGQUIT, SIG_IGN);
	} else {
		sigaction(SIGINT, &action, NULL);
	}
}

static bool trace_begin(struct trace *trace, const struct trace_options *options, const char *name)
{
	const struct vb_sources_options sources = { .tool = "trace",
						    .tell = complain,
						    .wants = VB_WANT_STATIONS,
						    .pid = options->pid,
						    .alone = options->pid != 0,
						    .name = name };

	*trace = (struct trace){ .options = options };
	trace->model.file = &trace->file;
	if (!trace_file_open(&trace->file, options->output, options->limit_mb << 20))
		return false;
	vb_sources_open(&trace->sources, &sources);
	return true;
}

static int trace_run(struct trace *trace, pid_t program)
{
	int status = trace_loop(trace, program);

	if (!trace_end(trace) && !status)
		status = EXIT_FAILURE;
	vb_sources_close(&trace->sources);
	trace_free(&trace->model);
	free(trace);
	return status;
}

int trace_program(const struct trace_options *options, int (*start)(void *arg), void *arg)
{
	struct trace *trace = malloc(sizeof(*trace));
	char name[VB_CAPTURE_NAME_SIZE];
	pid_t program;

	snprintf(name, sizeof(name), "verbena-trace.%d.%llx", getpid(),
		 (unsigned long long)now_ns() & 0xffffff);
	if (!trace || !trace_begin(trace, options, name) ||
	    setenv(vb_environment_rows[VB_ENV_TRACE].name, name, 1)) {
		free(trace);
		return EXIT_FAILURE;
	}
	program = fork();
	if (program < 0) {
		complain("trace: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	if (!program)
		return start(arg);
	signals_catch(true);
	return trace_run(trace, program);
}

/* --- options --- */

bool trace_parse_limit(const char *text, uint64_t *limit_mb)
{
	return value_number(text, 10, (1 << 20) - 1, limit_mb) && *limit_mb;
}

static bool parse_option(int letter, const char *value, struct trace_options *options)
{
	switch (letter) {
	case 'o':
		options->output = value;
		return *value;
	case 'p':
		return value_pid(value, &options->pid);
	case 's':
		return value_seconds(value, &options->seconds);
	case 'l':
		return trace_parse_limit(value, &options->limit_mb);
	case 'Q':
		options->quiet = true;
		return true;
	}
	return false;
}

int verbena_trace(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "pid", required_argument, NULL, 'p' },
		{ "seconds", required_argument, NULL, 's' },
		{ "limit", required_argument, NULL, 'l' },
		{ "quiet", no_argument, NULL, 'Q' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct trace_options options = { .limit_mb = TRACE_LIMIT_MB };
	struct trace *trace;
	int letter;

	opterr = 0;
	while ((letter = getopt_long(argc, argv, ":o:p:s:l:h", longs, NULL)) != -1) {
		if (letter == 'h') {
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		}
		if (letter != '?' && letter != ':' && parse_option(letter, optarg, &options))
			continue;
		if (letter == '?' || letter == ':')
			option_refused("trace", letter, argv, usage);
		else
			complain("trace: '%s' is no value for -%c", optarg, letter);
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (!options.output || optind < argc) {
		if (optind < argc)
			complain("trace: '%s' is not understood; 'verbena run --trace FILE %s' "
				 "traces a program",
				 argv[optind], argv[optind]);
		else
			complain("trace: no file is named; -o FILE does");
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (options.pid && !process_is_there("trace", options.pid))
		return EXIT_FAILURE;
	trace = malloc(sizeof(*trace));
	if (!trace || !trace_begin(trace, &options, NULL)) {
		free(trace);
		return EXIT_FAILURE;
	}
	signals_catch(false);
	return trace_run(trace, -1);
}
