/* SPDX-License-Identifier: BSD-2-Clause */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- finding the program --- */

/* 0, or the reason for which a shell would not start it. */
static int check_file(const char *path)
{
	struct stat info;

	if (stat(path, &info))
		return -errno;
	if (S_ISDIR(info.st_mode))
		return -EISDIR;
	if (!S_ISREG(info.st_mode))
		return -EACCES;
	return access(path, X_OK) ? -errno : 0;
}

/* A file that may not be executed counts only if no later directory has a better one. */
static int search_directories(const char *list, const char *name, char path[PATH_SIZE])
{
	char first[PATH_SIZE] = "";
	int denied = 0;

	for (;; list++) {
		const size_t length = strcspn(list, ":");
		const bool fits = snprintf(path, PATH_SIZE, "%.*s%s%s", (int)length, list,
					   length ? "/" : "", name) < PATH_SIZE;
		const int err = fits ? check_file(path) : -ENAMETOOLONG;

		if (!err)
			return 0;
		if (err == -EACCES && !denied && !access(path, F_OK)) {
			denied = err;
			memcpy(first, path, sizeof(first));
		}
		list += length;
		if (!*list)
			break;
	}
	memcpy(path, first, sizeof(first));
	return denied ? denied : -ENOENT;
}

int program_search(const char *name, char path[PATH_SIZE])
{
	const char *list = getenv("PATH");

	if (!strchr(name, '/'))
		return *name ? search_directories(list ? list : "/bin:/usr/bin", name, path)
			     : -ENOENT;
	if (snprintf(path, PATH_SIZE, "%s", name) >= PATH_SIZE)
		return -ENAMETOOLONG;
	return check_file(path);
}

/* --- scripts --- */

/* Numbers of the kernel: the bytes of the first line that count, and the length of a chain. */
enum { LINE_SIZE = 256, CHAIN_MAX = 5 };

/* The words of the first line of a script: the interpreter, and the rest as one argument. */
struct script {
	char line[LINE_SIZE];
	char *interpreter, *argument; /* in line; argument "": none */
};

static char *skip_blanks(char *text)
{
	return text + strspn(text, " \t");
}

static void trim_end(char *text)
{
	size_t length = strlen(text);

	while (length && strchr(" \t", text[length - 1]))
		text[--length] = '\0';
}

/* False: the file is no script. Without a first line of its own /bin/sh runs it, as in execvp. */
static bool read_script(int fd, struct script *script)
{
	ssize_t n = pread(fd, script->line, LINE_SIZE - 1, 0);

	if (n >= 4 && !memcmp(script->line, "\177ELF", 4))
		return false;
	script->interpreter = "/bin/sh";
	script->argument = "";
	if (n < 2 || memcmp(script->line, "#!", 2))
		return true;
	script->line[n] = '\0';
	script->line[strcspn(script->line, "\n")] = '\0';
	script->interpreter = skip_blanks(script->line + 2);
	trim_end(script->interpreter);
	n = (ssize_t)strcspn(script->interpreter, " \t");
	script->argument = skip_blanks(script->interpreter + n);
	script->interpreter[n] = '\0';
	return true;
}

/* --- env --- */

static bool is_env(const char *path)
{
	const char *slash = strrchr(path, '/');

	return !strcmp(slash ? slash + 1 : path, "env");
}

/* The program that env starts, and whether the variables get lost before. */
struct env_line {
	const char *program; /* NULL: none */
	bool clears;
};

static bool clears_environment(const char *word)
{
	return !strcmp(word, "-") || !strcmp(word, "--ignore-environment") ||
	       (word[0] == '-' && word[1] != '-' && strchr(word, 'i'));
}

static bool takes_a_word(const char *word)
{
	return !strcmp(word, "-u") || !strcmp(word, "-C") || !strcmp(word, "--unset") ||
	       !strcmp(word, "--chdir");
}

/* Words in quotes are not understood: then there is no program to look at. */
static struct env_line read_env(char *argument)
{
	struct env_line line = { 0 };
	char *rest = NULL, *word;

	if (argument[0] != '-') {
		line.program = *argument && !strchr(argument, '=') ? argument : NULL;
		return line;
	}
	if (!strncmp(argument, "-S", 2))
		argument += 2;
	else if (!strncmp(argument, "--split-string=", 15))
		argument += 15;
	if (strpbrk(argument, "\"'\\$"))
		return line;
	for (word = strtok_r(argument, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
		line.clears |= clears_environment(word);
		if (takes_a_word(word))
			strtok_r(NULL, " \t", &rest);
		else if (word[0] != '-' && !strchr(word, '='))
			break;
	}
	line.program = word;
	return line;
}

/* --- the chain --- */

static bool follow(struct verdict *verdict, unsigned depth);

static bool follow_path(const struct verdict *verdict, const char *path, unsigned depth)
{
	struct verdict next = *verdict;

	next.path = path;
	return follow(&next, depth);
}

static bool follow_env(const struct verdict *verdict, char *argument, unsigned depth)
{
	struct env_line line = read_env(argument);
	char path[PATH_SIZE];

	if (line.clears)
		return verdict_refuse(verdict, "empties the environment (-i), which tells the "
					       "loader where Verbena is; leave the option out");
	if (!line.program || program_search(line.program, path))
		return true; /* env explains it */
	return follow_path(verdict, path, depth);
}

static bool follow_script(const struct verdict *verdict, struct script *script, unsigned depth)
{
	if (!*script->interpreter)
		return true; /* the kernel explains it */
	if (!follow_path(verdict, script->interpreter, depth))
		return false;
	return !is_env(script->interpreter) || follow_env(verdict, script->argument, depth);
}

/* A file that cannot be read can perhaps be executed: the kernel decides. */
static bool follow(struct verdict *verdict, unsigned depth)
{
	struct script script;
	bool accepted = true;

	verdict->fd = open(verdict->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (verdict->fd < 0)
		return true;
	if (!read_script(verdict->fd, &script))
		accepted = verdict_allows(verdict);
	else if (depth < CHAIN_MAX)
		accepted = follow_script(verdict, &script, depth + 1);
	close(verdict->fd);
	return accepted;
}

bool program_accepts(const char *path, const char *libdir)
{
	struct verdict verdict = { .asked = path, .path = path, .libdir = libdir };

	return follow(&verdict, 0);
}
