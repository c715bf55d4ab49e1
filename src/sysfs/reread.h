/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs keep the file of a counter open and read it again from the start. A kernel then makes
 * the text anew. Here the library writes the nameless file behind the descriptor again.
 */
#ifndef VB_SYSFS_REREAD_H
#define VB_SYSFS_REREAD_H

/* fd is open for the counter at path, in the tree. */
void vb_reread_watch(int fd, const char *path);

#endif
