/* SPDX-License-Identifier: BSD-2-Clause */
/* poll(2) and select(2) over rsockets and ordinary descriptors together. */
#ifndef VB_RSOCKET_POLL_H
#define VB_RSOCKET_POLL_H

#include <poll.h>
#include <signal.h>
#include <sys/select.h>

#include "rsocket/rsocket.h"

/*
 * rsockets[i] is the rsocket of fds[i]; NULL: fds[i] is an ordinary descriptor. The caller holds
 * references. Returns the count of ready descriptors, 0 after deadline_ns, or -errno. mask: as for
 * ppoll; NULL: the mask of the thread.
 */
int vb_rs_poll(struct pollfd *fds, struct vb_rs *const *rsockets, nfds_t count,
	       uint64_t deadline_ns, const sigset_t *mask);

typedef int vb_rs_poll_function(struct pollfd *fds, nfds_t count, uint64_t deadline_ns,
				const sigset_t *mask);
/* Programs may pass longer sets than fd_set, as the kernel allows. */
static inline bool vb_rs_set_has(int fd, const fd_set *set)
{
	return set && ((const fd_mask *)set)[fd / NFDBITS] & (fd_mask)(1ul << fd % NFDBITS);
}
/* The kernel reads no more bits than its table of descriptors has room for: sets may end there. */
int vb_rs_select_limit(int count);
/* select(2) on top of poll_fds, which knows the objects of the numbers. */
int vb_rs_select(int count, fd_set *read, fd_set *write, fd_set *except, uint64_t deadline_ns,
		 const sigset_t *mask, vb_rs_poll_function *poll_fds);

#endif
