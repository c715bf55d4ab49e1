/* SPDX-License-Identifier: BSD-2-Clause */
/* The TCP connection over which two verbs programs exchange their addresses. */
#ifndef EXAMPLES_VERBS_TCP_H
#define EXAMPLES_VERBS_TCP_H

#include <stddef.h>

/* Connects to a host, or (NULL) waits as a server for one client. Exits on failure. */
int tcp_meet(const char *host, const char *port);
/* Sends size bytes and receives as many. Exits on failure. */
void tcp_exchange(int fd, const void *mine, void *theirs, size_t size);
/* Returns when the other side has called it, too. */
void tcp_synchronize(int fd);

_Noreturn void die(const char *what);

#endif
