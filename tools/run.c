/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena run: our libraries first on the library path, then the program in our place. */
#include "verbena.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char usage[] =
	"usage: verbena run [--explain] PROGRAM [ARGUMENTS]\n\n"
	"Runs PROGRAM with Verbena's libibverbs and librdmacm instead of the system's.\n\n"
	"  --explain  print a sentence on standard error for each call or completion that fails\n"
	"  --         what follows is the program, even if it begins with a dash\n";

/* Prepended, so that the program's own directories still count; an empty entry would be ".". */
static bool prepend_library_path(const char *directory)
{
	const char *old = getenv("LD_LIBRARY_PATH");
	const bool more = old && *old;
	char *path;
	int result;

	if (asprintf(&path, "%s%s%s", directory, more ? ":" : "", more ? old : "") < 0)
		return false;
	result = setenv("LD_LIBRARY_PATH", path, 1);
	free(path);
	return !result;
}

/* Where execvp will find the program. */
static bool search_program(const char *program, char path[PATH_SIZE])
{
	const char *list = getenv("PATH");

	if (strchr(program, '/')) {
		snprintf(path, PATH_SIZE, "%s", program);
		return !access(path, F_OK);
	}
	for (list = list ? list : "/bin:/usr/bin"; list; list = strchr(list, ':')) {
		list += *list == ':';
		snprintf(path, PATH_SIZE, "%.*s/%s", (int)strcspn(list, ":"), list, program);
		if (!access(path, X_OK))
			return true;
	}
	return false;
}

/* The loader drops LD_LIBRARY_PATH for a program that gains rights, and says nothing. */
static void warn_if_privileged(const char *path)
{
	struct stat file;

	if (stat(path, &file) || geteuid() == 0)
		return;
	if (((file.st_mode & S_ISUID) && file.st_uid != geteuid()) ||
	    ((file.st_mode & S_ISGID) && file.st_gid != getegid()) ||
	    getxattr(path, "security.capability", NULL, 0) > 0)
		complain("warning: %s runs with more rights than yours (set-user-ID, set-group-ID "
			 "or "
			 "file capabilities): the system ignores LD_LIBRARY_PATH for such "
			 "programs, it "
			 "will not use Verbena",
			 path);
}

static int explain_exec_failure(const char *program, const char *path, bool found)
{
	if (!found) {
		complain("%s: command not found", program);
		return EXIT_NOT_FOUND;
	}
	if (errno == ENOENT) {
		complain("%s: exists, but the interpreter or loader it asks for does not", path);
		return EXIT_NOT_FOUND;
	}
	complain("%s: %s", path, strerror(errno));
	return EXIT_NOT_EXECUTABLE;
}

static int execute(char **argv)
{
	char directory[PATH_SIZE], path[PATH_SIZE];
	bool found;

	if (!libdir_find(directory))
		return EXIT_NOT_EXECUTABLE;
	if (!prepend_library_path(directory)) {
		complain("out of memory");
		return EXIT_NOT_EXECUTABLE;
	}
	found = search_program(argv[0], path);
	if (found)
		warn_if_privileged(path);
	execvp(argv[0], argv);
	return explain_exec_failure(argv[0], path, found);
}

int verbena_run(int argc, char **argv)
{
	int next = 1;

	for (; next < argc && argv[next][0] == '-'; next++) {
		if (!strcmp(argv[next], "--explain")) {
			setenv("VERBENA_EXPLAIN", "1", 1);
		} else if (!strcmp(argv[next], "--help") || !strcmp(argv[next], "-h")) {
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		} else if (!strcmp(argv[next], "--")) {
			next++;
			break;
		} else {
			complain("run: option '%s' is not understood", argv[next]);
			return EXIT_USAGE;
		}
	}
	if (next >= argc) {
		complain("run: which program?");
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	return execute(argv + next);
}
