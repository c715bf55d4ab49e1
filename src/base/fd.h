/* SPDX-License-Identifier: BSD-2-Clause */
/* File descriptors of ours in other people's processes: out of their way, closed at exec. */
#ifndef VB_BASE_FD_H
#define VB_BASE_FD_H

/* Moves fd above the numbers that programs use (select, inherited fds). -1 stays -1. */
int vb_fd_high(int fd);
void vb_fd_close(int *fd);

#endif
