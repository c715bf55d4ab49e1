/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena run: puts our libraries first on the library path, then becomes the program. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/adversary.h"
#include "base/environment.h"
#include "base/random.h"
#include "program.h"
#include "trace.h"
#include "verbena.h"

static const char usage[] =
	"usage: verbena run [--explain[=FILE]] [--quiet] [--trace FILE] [--trace-limit MB]\n"
	"                   [--as DEVICE] [--check[=WORDS]] [--adversary[=SEED]] [--sockets]\n"
	"                   [--system] [--no-sysfs] [--anyway] PROGRAM [ARGUMENTS]\n\n"
	"Runs PROGRAM with Verbena's libibverbs and librdmacm instead of the system's.\n\n"
	"  --explain   print a sentence on standard error, or append it to FILE, for each call or\n"
	"              completion that fails\n"
	"  --quiet     without --explain: no line at the end of a program with failures\n"
	"  --trace FILE\n"
	"              write a time line of work requests, for Perfetto (https://ui.perfetto.dev)\n"
	"  --trace-limit MB\n"
	"              write no more of it than this (default: 256)\n"
	"  --as DEVICE show and enforce the limits and capabilities of another device: mlx5, "
	"irdma,\n"
	"              bnxt, efa, hns, rxe, siw, or a file; see verbena-profiles(7)\n"
	"  --check     report misuse of verbs that happens to work, with exit status 66; WORDS:\n"
	"              warn (the status stays), -RULE (not this one), a file; see "
	"verbena-check(7)\n"
	"  --adversary be an adapter that uses every freedom the specification leaves, by a seed "
	"that\n"
	"              replays; see verbena-adversary(7)\n"
	"  --sockets   TCP connections use RDMA if the other side does the same\n"
	"  --system    list the machine's own RDMA devices, too, behind Verbena's\n"
	"  --no-sysfs  show the machine's own /sys/class/infiniband and /dev/infiniband\n"
	"  --anyway    run PROGRAM even if it will not use Verbena: static, set-user-ID, ...\n"
	"  --          ends the options: PROGRAM may begin with a dash\n";

/* Preload libraries. */
enum {
	SYSFS = 1 << 0,
	SOCKETS = 1 << 1,
	CHECK = 1 << 2,
};

static const struct {
	unsigned bit;
	const char *name, *loss; /* loss: the effect of its absence, for a warning */
} preloads[] = {
	{ SYSFS, "libverbena-sysfs.so",
	  "programs that read /sys/class/infiniband themselves find no device of Verbena there" },
	{ SOCKETS, "libverbena-sockets.so", "TCP connections stay ordinary TCP" },
	{ CHECK, "libverbena-check.so", "the program is not checked" },
};

/* --- the environment --- */

#define EXPLAIN vb_environment_rows[VB_ENV_EXPLAIN].name

/*
 * Sets the variable to both, with between between them. Without one of them not: an empty entry of
 * a path has a meaning.
 */
static bool set_joined(const char *variable, const char *first, const char *second,
		       const char *between)
{
	char *value;
	int result;

	if (asprintf(&value, "%s%s%s", first, *first && *second ? between : "", second) < 0)
		return false;
	result = setenv(variable, value, 1);
	free(value);
	return !result;
}

static const char *environment(const char *variable)
{
	const char *value = getenv(variable);

	return value ? value : "";
}

/* Prepends, so that the program's own directories still count. */
static bool prepend_library_path(const char *directory)
{
	return set_joined("LD_LIBRARY_PATH", directory, environment("LD_LIBRARY_PATH"), ":");
}

/* LD_PRELOAD has the library already. The loader splits it at colons and spaces. */
static bool is_preloaded(const char *library)
{
	const size_t length = strlen(library);
	const char *list = environment("LD_PRELOAD");

	for (const char *at = list; (at = strstr(at, library)); at++)
		if ((at == list || strchr(": ", at[-1])) &&
		    (!at[length] || strchr(": ", at[length])))
			return true;
	return false;
}

/*
 * Appends behind the user's own libraries, which may have to be the first. The full path keeps the
 * loader silent about programs that gain rights: it ignores such entries for them. A path that the
 * loader would split is left to its search.
 */
static bool append_preload(const char *directory, const char *name, const char *loss)
{
	char path[PATH_SIZE + 64];
	const char *library = path;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (access(path, R_OK)) {
		complain("warning: %s is missing: %s", path, loss);
		return true;
	}
	if (strpbrk(path, ": "))
		library = name;
	return is_preloaded(library) ||
	       set_joined("LD_PRELOAD", environment("LD_PRELOAD"), library, ":");
}

static bool append_preloads(const char *directory, unsigned wanted)
{
	for (size_t i = 0; i < sizeof(preloads) / sizeof(preloads[0]); i++)
		if ((wanted & preloads[i].bit) &&
		    !append_preload(directory, preloads[i].name, preloads[i].loss))
			return false;
	return true;
}

static bool prepare_environment(const char *directory, unsigned wanted)
{
	if (prepend_library_path(directory) && append_preloads(directory, wanted) &&
	    tools_prepare())
		return true;
	complain("out of memory");
	return false;
}

/* Relative names mean this directory, wherever the program goes. */
static bool explain_to(const char *file)
{
	char directory[PATH_SIZE], path[2 * PATH_SIZE];

	if (file[0] == '/' || !getcwd(directory, sizeof(directory)))
		snprintf(path, sizeof(path), "%s", file);
	else
		snprintf(path, sizeof(path), "%s/%s", directory, file);
	return !setenv(EXPLAIN, path, 1);
}

/* A program with failures says one line at its end, where its user reads it. */
static void explain_hint(void)
{
	if (!*environment(EXPLAIN) && isatty(STDERR_FILENO))
		setenv(EXPLAIN, "hint", 1);
}

/* What the options say. */
struct choices {
	char **program;
	unsigned wanted; /* preload libraries */
	bool anyway, quiet;
	struct trace_options trace; /* output: NULL: no trace */
};

/* --- the program --- */

static int explain_missing(const char *program, const char *path, int err)
{
	if (err == -ENOENT) {
		complain("%s: %s", program,
			 strchr(program, '/') ? "no such file" : "command not found");
		return EXIT_NOT_FOUND;
	}
	complain("%s: %s", *path ? path : program, strerror(-err));
	return EXIT_NOT_EXECUTABLE;
}

static int explain_exec_failure(const char *path)
{
	if (errno == ENOENT) {
		complain("%s: the file exists, but its interpreter or loader does not", path);
		return EXIT_NOT_FOUND;
	}
	complain("%s: %s", path, strerror(errno));
	return EXIT_NOT_EXECUTABLE;
}

/* Becomes the program; returns an exit status if it cannot. */
static int execute(void *arg)
{
	const struct choices *choices = arg;
	char **argv = choices->program;
	char directory[PATH_SIZE], path[PATH_SIZE] = "";
	int err;

	if (!libdir_find(directory))
		return EXIT_NOT_EXECUTABLE;
	err = program_search(argv[0], path);
	if (err)
		return explain_missing(argv[0], path, err);
	if (!choices->anyway && !program_accepts(path, directory))
		return EXIT_NOT_EXECUTABLE;
	if (!prepare_environment(directory, choices->wanted))
		return EXIT_NOT_EXECUTABLE;
	execvp(argv[0], argv);
	return explain_exec_failure(path);
}

static bool take_profile(const char *value, struct choices *choices)
{
	(void)choices;
	return profile_choose(value);
}

static bool take_trace(const char *value, struct choices *choices)
{
	choices->trace.output = value;
	return true;
}

static bool take_limit(const char *value, struct choices *choices)
{
	if (trace_parse_limit(value, &choices->trace.limit_mb))
		return true;
	complain("run: '%s' is no number of megabytes for --trace-limit", value);
	return false;
}

/* Options with a value, which is the rest of the word or the next one. */
static const struct valued {
	const char *name, *value; /* value: a word for what is missing */
	bool (*take)(const char *value, struct choices *choices);
} valued_options[] = {
	{ "--as", "a device", take_profile },
	{ "--trace", "a file", take_trace },
	{ "--trace-limit", "a number", take_limit },
};

/* True: it is an option with a value, of *used words; it was taken, or *bad is set. */
static bool take_valued(char **argv, int *used, struct choices *choices, bool *bad)
{
	for (size_t i = 0; i < sizeof(valued_options) / sizeof(valued_options[0]); i++) {
		const struct valued *option = &valued_options[i];
		const size_t length = strlen(option->name);
		const bool joined = argv[0][length] == '=';

		if (strncmp(argv[0], option->name, length) != 0 || (argv[0][length] && !joined))
			continue;
		*used = joined ? 1 : 2;
		*bad = !joined && !argv[1];
		if (*bad)
			complain("run: option '%s' needs %s", option->name, option->value);
		else
			*bad = !option->take(joined ? argv[0] + length + 1 : argv[1], choices);
		return true;
	}
	return false;
}

/* True: --check; its words are in the environment, or *bad is set. */
static bool take_check(const char *option, struct choices *choices, bool *bad)
{
	const bool joined = !strncmp(option, "--check=", 8);

	if (!joined && strcmp(option, "--check") != 0)
		return false;
	choices->wanted |= CHECK;
	*bad = !check_choose(joined ? option + 8 : NULL);
	return true;
}

#define ADVERSARY vb_environment_rows[VB_ENV_ADVERSARY].name

/* A seed that nobody named is said, so that it can be named. */
static bool adversary_draw(void)
{
	char text[24];

	snprintf(text, sizeof(text), "%u", (unsigned)(vb_random64() >> 32));
	fprintf(stderr, "verbena: adversary seed %s\n", text);
	return !setenv(ADVERSARY, text, 1);
}

/* True: --adversary; its seed was chosen, or *bad is set. */
static bool take_adversary(const char *option, bool *bad)
{
	uint64_t seed;

	if (!strcmp(option, "--adversary")) {
		*bad = !adversary_draw();
		return true;
	}
	if (strncmp(option, "--adversary=", 12) != 0)
		return false;
	*bad = !vb_adversary_parse(option + 12, &seed) || setenv(ADVERSARY, option + 12, 1);
	if (*bad)
		complain("run: '%s' is not a seed of the adversary: a decimal number below 2^64",
			 option + 12);
	return true;
}

#define DEVICES vb_environment_rows[VB_ENV_DEVICES].name

/* The check knows Verbena's devices: it would watch half of a program. */
static bool choices_agree(const struct choices *choices)
{
	if (!(choices->wanted & CHECK) || !vb_environment_has(VB_ENV_DEVICES, VB_WORD_SYSTEM))
		return true;
	complain("run: --check watches Verbena's devices, and %s has +system: leave one out",
		 DEVICES);
	return false;
}

/* False: no option of this command. */
static bool take_option(const char *option, struct choices *choices)
{
	if (!strcmp(option, "--explain"))
		return !setenv(EXPLAIN, "1", 1);
	if (!strncmp(option, "--explain=", 10) && option[10])
		return explain_to(option + 10);
	if (!strcmp(option, "--system"))
		return set_joined(DEVICES, environment(DEVICES), "+system", ",");
	if (!strcmp(option, "--no-sysfs"))
		choices->wanted &= ~(unsigned)SYSFS;
	else if (!strcmp(option, "--sockets"))
		choices->wanted |= SOCKETS;
	else if (!strcmp(option, "--anyway"))
		choices->anyway = true;
	else if (!strcmp(option, "--quiet"))
		choices->quiet = true;
	else
		return false;
	return true;
}

int verbena_run(int argc, char **argv)
{
	struct choices choices = { .wanted = SYSFS, .trace.limit_mb = TRACE_LIMIT_MB };
	int next = 1, used = 1;
	bool bad = false;

	for (; next < argc && argv[next][0] == '-'; next += used) {
		used = 1;
		if (!strcmp(argv[next], "--help") || !strcmp(argv[next], "-h")) {
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		}
		if (!strcmp(argv[next], "--")) {
			next++;
			break;
		}
		if (take_valued(argv + next, &used, &choices, &bad) ||
		    take_check(argv[next], &choices, &bad) || take_adversary(argv[next], &bad)) {
			if (bad)
				return EXIT_USAGE;
			continue;
		}
		if (!take_option(argv[next], &choices))
			return option_unknown("run", argv[next], usage);
	}
	if (next >= argc) {
		complain("run: PROGRAM is missing");
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (!choices_agree(&choices))
		return EXIT_USAGE;
	if (!choices.quiet)
		explain_hint();
	choices.program = argv + next;
	choices.trace.quiet = choices.quiet;
	return choices.trace.output ? trace_program(&choices.trace, execute, &choices)
				    : execute(&choices);
}
