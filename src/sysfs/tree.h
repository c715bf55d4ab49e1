/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tree of this process.
 *
 * It is made of real files, in a directory of the user's alone ($XDG_RUNTIME_DIR, /dev/shm, $TMPDIR
 * or /tmp), because everything that programs do with directories then works: openat, chdir,
 * scandir, find, and the same inode from stat and fstat. Descriptors without a name could not do
 * that. All processes with the same devices and P_Keys share one; it comes into being when the first
 * of them looks, and goes with the last (lease.h). Files are brought up to date when they are opened
 * by their full name, and all of them when a directory is opened or entered.
 */
#ifndef VB_SYSFS_TREE_H
#define VB_SYSFS_TREE_H

#include <limits.h>
#include <stdbool.h>

/* Where the tree is, without a slash at the end. False: there is none. */
bool vb_tree_root(char root[PATH_MAX]);

/*
 * Before the file or directory path (within the tree, free of links) is opened. VB_TREE_AS_IT_IS:
 * go on; VB_TREE_REFUSED: fail with *error; else the descriptor of a nameless file to open in its
 * place, because what it says is this process's alone.
 */
enum { VB_TREE_AS_IT_IS = -1, VB_TREE_REFUSED = -2 };
int vb_tree_prepare(const char *path, int *error);

/* Before the process ends. */
void vb_tree_leave(void);
/* Before another program takes over: it may never look, and then nobody would remove the tree. */
void vb_tree_leave_for_exec(void);

#endif
