/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tree of this process.
 *
 * The tree has real files, in a directory of the user alone ($XDG_RUNTIME_DIR, /dev/shm, $TMPDIR or
 * /tmp), because then everything works that programs do with directories: openat, chdir, scandir,
 * find, and the same inode from stat and fstat. Nameless files could not do that. All processes
 * with the same devices and P_Keys share one tree. The first process that looks makes the tree, and
 * the last one removes it (lease.h). Opening a file by its full name updates the file. Opening or
 * entering a directory updates all files.
 */
#ifndef VB_SYSFS_TREE_H
#define VB_SYSFS_TREE_H

#include <limits.h>
#include <stdbool.h>

/* The path of the tree, without a slash at the end. False: there is no tree. */
bool vb_tree_root(char root[PATH_MAX]);

/*
 * Called before the file or directory path (in the tree, without links) is opened.
 * VB_TREE_AS_IT_IS: open it; VB_TREE_REFUSED: fail with *error; else the descriptor of a nameless
 * file to open instead, because the text belongs to this process alone.
 */
enum { VB_TREE_AS_IT_IS = -1, VB_TREE_REFUSED = -2 };
int vb_tree_prepare(const char *path, int *error);

/* Before the process ends. */
void vb_tree_leave(void);
/* Before exec: the new program may never look, and then no process would remove the tree. */
void vb_tree_leave_for_exec(void);

#endif
