/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll and rselect. */
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/symver.h"
#include "rsocket/poll.h"
#include "rsocket/public.h"

static int poll_fds(struct pollfd *fds, nfds_t count, uint64_t deadline_ns, const sigset_t *mask)
{
	enum { FEW = 32 };
	struct vb_rs *few[FEW] = { 0 }, **rsockets = few;
	int result;

	if (count > FEW)
		rsockets = calloc(count, sizeof(struct vb_rs *));
	if (!rsockets)
		return -ENOMEM;
	for (nfds_t i = 0; i < count; i++)
		rsockets[i] = vb_rs_lookup(fds[i].fd);
	result = vb_rs_poll(fds, rsockets, count, deadline_ns, mask);
	for (nfds_t i = 0; i < count; i++) {
		if (rsockets[i])
			vb_rs_put(rsockets[i]);
	}
	if (rsockets != few)
		free(rsockets);
	return result;
}

VB_PUBLIC int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	const uint64_t deadline_ns = timeout < 0 ? VB_NEVER_NS
				     : timeout   ? vb_now_ns() + (uint64_t)timeout * 1000000u
						 : 0;

	return vb_rs_return_count(poll_fds(fds, nfds, deadline_ns, NULL));
}

VB_PUBLIC int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		      struct timeval *timeout)
{
	uint64_t deadline_ns = VB_NEVER_NS, wait_ns;

	if (timeout) {
		if (timeout->tv_sec < 0 || timeout->tv_usec < 0)
			return vb_rs_return_count(-EINVAL);
		wait_ns = (uint64_t)timeout->tv_sec * 1000000000u +
			  (uint64_t)timeout->tv_usec * 1000u;
		deadline_ns = wait_ns ? vb_now_ns() + wait_ns : 0;
	}
	return vb_rs_return_count(
		vb_rs_select(nfds, readfds, writefds, exceptfds, deadline_ns, NULL, poll_fds));
}
