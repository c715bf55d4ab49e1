/* SPDX-License-Identifier: BSD-2-Clause */
/* The libraries' file descriptors in a program: high numbers, closed at exec. */
#ifndef VB_BASE_FD_H
#define VB_BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The buffer size that sockets for packets ask for, in each direction. */
enum { VB_SOCKET_BUFFER = 8 << 20 };

/* Moves fd above the numbers that programs use (select, inherited descriptors). -1 stays -1. */
int vb_fd_high(int fd);
void vb_fd_close(int *fd);
/* True: fd is an eventfd. A write to any other descriptor may block, or raise a signal. */
bool vb_fd_is_eventfd(int fd);
/* True: more than half of a socket's send buffer lies unread at its receivers. */
bool vb_fd_send_room_is_used(int fd);
/* Sends a message, with a descriptor unless fd is -1. Never waits. False: it was not sent. */
bool vb_fd_send(int socket, const void *bytes, size_t size, int fd);
/* Takes a message, with at most one descriptor: the kernel closes further ones. Without a
 * descriptor *fd is -1. Returns the size of the message, or -errno. flags as for recvmsg. */
ssize_t vb_fd_receive(int socket, void *bytes, size_t size, int flags, int *fd);

#endif
