/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs keep a counter's file open and read it again from the start. A kernel then makes the
 * text anew; here the nameless file behind the descriptor is written again.
 */
#ifndef VB_SYSFS_REREAD_H
#define VB_SYSFS_REREAD_H

/* fd reads the counter at path, within the tree. */
void vb_reread_watch(int fd, const char *path);

#endif
