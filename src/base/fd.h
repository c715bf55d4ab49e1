/* SPDX-License-Identifier: BSD-2-Clause */
/* File descriptors of ours in other people's processes: out of their way, closed at exec. */
#ifndef VB_BASE_FD_H
#define VB_BASE_FD_H

#include <stdbool.h>

/* What sockets for packets ask for, each way. */
enum { VB_SOCKET_BUFFER = 8 << 20 };

/* Moves fd above the numbers that programs use (select, inherited fds). -1 stays -1. */
int vb_fd_high(int fd);
void vb_fd_close(int *fd);
/* An eventfd: writing to anything else may block, or raise a signal. */
bool vb_fd_is_eventfd(int fd);
/* Does most of what a socket may send lie unread? With readers who do not read it stays so. */
bool vb_fd_send_room_is_used(int fd);

#endif
