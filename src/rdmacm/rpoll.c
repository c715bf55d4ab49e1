/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting. These two take rsockets and ordinary descriptors together, and programs use them for
 * ordinary ones alone (a completion channel, standard input). As long as there are no rsockets
 * every descriptor is an ordinary one.
 */
#include <rdma/rsocket.h>

#include "verbs/symver.h"

VB_PUBLIC int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return poll(fds, nfds, timeout);
}

VB_PUBLIC int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		      struct timeval *timeout)
{
	return select(nfds, readfds, writefds, exceptfds, timeout);
}
