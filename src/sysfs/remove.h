/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_SYSFS_REMOVE_H
#define VB_SYSFS_REMOVE_H

/* Empties the directory, and follows no link. Allocates no memory, because _exit calls it. */
void vb_remove_content(int directory_fd);

#endif
