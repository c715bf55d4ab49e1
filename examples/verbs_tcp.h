/* SPDX-License-Identifier: BSD-2-Clause */
/* The TCP connection over which two verbs programs tell each other how to be reached. */
#ifndef EXAMPLES_VERBS_TCP_H
#define EXAMPLES_VERBS_TCP_H

#include <stddef.h>

/* As client of a host, or (NULL) as server that waits for one client. Exits on failure. */
int tcp_meet(const char *host, const char *port);
/* Sends size bytes and receives as many. Exits on failure. */
void tcp_exchange(int fd, const void *mine, void *theirs, size_t size);
/* Returns when the other side got here, too. */
void tcp_synchronize(int fd);

_Noreturn void die(const char *what);

#endif
