/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena top: the options, the keys and the loop. */
#include "top.h"

#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "engine/attach/silent.h"
#include "verbena.h"

static const char usage[] =
	"usage: verbena top [-1] [-j] [-n SECONDS] [-p PID] [-s ORDER]\n\n"
	"Shows the queue pairs of this user's processes (for root, of all users') by their "
	"traffic.\n"
	"Keys: b, m, w, p sort by bytes, messages, waiting time, process; q ends.\n\n"
	"  -1, --once           print one table and end\n"
	"  -j, --json           print one sample as JSON and end\n"
	"  -n, --interval=S     seconds between two samples (default: 1)\n"
	"  -p, --pid=PID        this process only\n"
	"  -s, --sort=ORDER     bytes, messages, waiting or pid\n";

struct top_options {
	bool once, json;
	double interval_s;
	pid_t pid;
	enum top_sort sort;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

/* --- the terminal --- */

static struct termios before;
static bool is_changed;

/* Keys come one by one, and are not shown; the cursor is hidden, on a screen of its own. */
static void terminal_take(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct termios keys;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	if (isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &before)) {
		keys = before;
		keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		is_changed = !tcsetattr(STDIN_FILENO, TCSANOW, &keys);
	}
	fputs("\033[?1049h\033[?25l", stdout);
}

static void terminal_give_back(void)
{
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	if (is_changed)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/* False: the user ends. */
static bool key_take(enum top_sort *sort)
{
	char key;

	if (read(STDIN_FILENO, &key, 1) != 1)
		return false;
	switch (key) {
	case 'q':
		return false;
	case 'b':
		*sort = TOP_BYTES;
		break;
	case 'm':
		*sort = TOP_MESSAGES;
		break;
	case 'w':
		*sort = TOP_WAITING;
		break;
	case 'p':
		*sort = TOP_PID;
		break;
	}
	return true;
}

static void screen_draw(struct top_sample *sample, enum top_sort sort)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	sample_sort(sample, sort);
	fputs("\033[H", stdout);
	screen_print(sample, sort, size.ws_row > 1 ? size.ws_row - 1u : 1, size.ws_col);
	fputs("\033[J", stdout);
	fflush(stdout);
}

/* --- loops --- */

static int show_screen(const struct top_options *options)
{
	struct top_sample sample = { 0 };
	struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };
	enum top_sort sort = options->sort;
	double next_s = top_now_s();
	bool going = true;

	terminal_take();
	while (going && !interrupted) {
		double left_s = next_s - top_now_s();

		if (left_s <= 0) {
			going = sample_take(&sample, options->pid);
			next_s = top_now_s() + options->interval_s;
			if (going)
				screen_draw(&sample, sort);
			continue;
		}
		if (poll(&keys, 1, (int)(left_s * 1000) + 1) > 0) {
			going = key_take(&sort);
			if (going)
				screen_draw(&sample, sort);
		}
	}
	terminal_give_back();
	sample_free(&sample);
	return EXIT_SUCCESS;
}

static int show_once(const struct top_options *options)
{
	const uint64_t interval_ns = (uint64_t)(options->interval_s * 1e9);
	const struct timespec interval = { (time_t)(interval_ns / 1000000000u),
					   (long)(interval_ns % 1000000000u) };
	struct top_sample sample = { 0 };
	bool good = sample_take(&sample, options->pid);
	int status = EXIT_SUCCESS;
	char line[VB_SILENT_LINE];

	if (good) {
		nanosleep(&interval, NULL);
		good = sample_take(&sample, options->pid);
	}
	if (good && options->pid && (!sample.process_count || sample.processes->process->error)) {
		complain("%s", vb_silent_words(
				       options->pid,
				       sample.process_count ? sample.processes->process->error : 0,
				       line));
		status = EXIT_FAILURE;
	} else if (good) {
		sample_sort(&sample, options->sort);
		if (options->json)
			top_print_json(&sample);
		else
			screen_print(&sample, options->sort, 0, 0);
	}
	sample_free(&sample);
	return good ? status : EXIT_FAILURE;
}

/* --- options --- */

static bool parse_sort(const char *text, enum top_sort *sort)
{
	static const char *const names[TOP_SORTS] = { "bytes", "messages", "waiting", "pid" };

	for (unsigned i = 0; i < TOP_SORTS; i++)
		if (!strcmp(text, names[i])) {
			*sort = (enum top_sort)i;
			return true;
		}
	return false;
}

static bool parse_seconds(const char *text, double *seconds)
{
	return value_seconds(text, seconds) && *seconds >= 0.1 && *seconds <= 86400;
}

static bool option_take(struct top_options *options, int letter)
{
	switch (letter) {
	case '1':
		options->once = true;
		return true;
	case 'j':
		options->json = options->once = true;
		return true;
	case 'n':
		return parse_seconds(optarg, &options->interval_s);
	case 'p':
		return value_pid(optarg, &options->pid);
	case 's':
		return parse_sort(optarg, &options->sort);
	}
	return false;
}

int verbena_top(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "once", no_argument, NULL, '1' },
		{ "json", no_argument, NULL, 'j' },
		{ "interval", required_argument, NULL, 'n' },
		{ "pid", required_argument, NULL, 'p' },
		{ "sort", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct top_options options = { .interval_s = 1 };
	int letter;

	opterr = 0;
	while ((letter = getopt_long(argc, argv, ":1jn:p:s:h", longs, NULL)) != -1) {
		if (letter == 'h') {
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		}
		if (option_take(&options, letter))
			continue;
		if (letter == '?' || letter == ':')
			option_refused("top", letter, argv, usage);
		else
			complain("top: '%s' is no value for -%c", optarg, letter);
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (optind < argc) {
		complain("top: '%s' is not understood", argv[optind]);
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (!options.once && !isatty(STDOUT_FILENO)) {
		complain("top: standard output is no terminal: use --once or --json");
		return EXIT_USAGE;
	}
	return options.once ? show_once(&options) : show_screen(&options);
}
