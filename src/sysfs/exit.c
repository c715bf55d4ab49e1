/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaced calls: the end of the program, where the last process removes the tree. */
#include "sysfs/real.h"

#include <stdlib.h>
#include <unistd.h>

#include "sysfs/tree.h"

__attribute__((destructor)) static void leave_at_exit(void)
{
	vb_tree_leave();
}

/* Shells end with _exit; exit() runs the destructor above instead. */
VB_PUBLIC void _exit(int status)
{
	vb_tree_leave();
	REAL(_exit)(status);
	__builtin_unreachable();
}

VB_PUBLIC void _Exit(int status)
{
	_exit(status);
}

/* --- exec --- */

VB_PUBLIC int execve(const char *path, char *const argv[], char *const envp[])
{
	vb_tree_leave_for_exec();
	return REAL(execve)(path, argv, envp);
}

VB_PUBLIC int execv(const char *path, char *const argv[])
{
	vb_tree_leave_for_exec();
	return REAL(execv)(path, argv);
}

VB_PUBLIC int execvp(const char *file, char *const argv[])
{
	vb_tree_leave_for_exec();
	return REAL(execvp)(file, argv);
}

VB_PUBLIC int execvpe(const char *file, char *const argv[], char *const envp[])
{
	vb_tree_leave_for_exec();
	return REAL(execvpe)(file, argv, envp);
}
