/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_SYSFS_REMOVE_H
#define VB_SYSFS_REMOVE_H

/* Removes everything in the directory, following no link. Allocates nothing: it runs at _exit. */
void vb_remove_content(int directory_fd);

#endif
