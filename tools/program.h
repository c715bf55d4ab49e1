/* SPDX-License-Identifier: BSD-2-Clause */
/* The program of verbena run: where it is, and whether it can run with Verbena's libraries. */
#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

#include <stdbool.h>

#include "verbena.h"

/* The path at which execvp finds the program. 0, or -ENOENT, -EACCES, -EISDIR. */
int program_search(const char *name, char path[PATH_SIZE]);

/*
 * True: the kernel will start the program, as far as its files tell, and its loader will take the
 * libraries of the directory. Looks through scripts, at the program that runs them. False after a
 * complaint.
 */
bool program_accepts(const char *path, const char *libdir);

/* --- verdict.c --- */

/* The file that the kernel loads in the end, and the name by which the user asked for it. */
struct verdict {
	const char *asked, *path, *libdir;
	int fd;
};

/* False after a complaint. */
bool verdict_allows(const struct verdict *verdict);
/* Prints the reason and the hint; always false. */
bool verdict_refuse(const struct verdict *verdict, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
