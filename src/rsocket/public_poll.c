/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll and rselect. */
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/symver.h"
#include "rsocket/poll.h"
#include "rsocket/public.h"

enum { FEW = 32 };

struct looked_up {
	struct vb_rs **rsockets; /* NULL: an ordinary descriptor */
	nfds_t count;
	struct vb_rs *few[FEW];
};

static void looked_up_put(void *held)
{
	struct looked_up *up = held;

	for (nfds_t i = 0; i < up->count; i++) {
		if (up->rsockets[i])
			vb_rs_put(up->rsockets[i]);
	}
	if (up->rsockets != up->few)
		free(up->rsockets);
}

static int poll_fds(struct pollfd *fds, nfds_t count, uint64_t deadline_ns, const sigset_t *mask)
{
	struct looked_up up = { .rsockets = up.few, .count = count };
	struct vb_undo undo;
	int result;

	if (count > FEW)
		up.rsockets = calloc(count, sizeof(struct vb_rs *));
	if (!up.rsockets)
		return -ENOMEM;
	for (nfds_t i = 0; i < count; i++)
		up.rsockets[i] = vb_rs_lookup(fds[i].fd);
	vb_undo_push(&undo, looked_up_put, &up);
	result = vb_rs_poll(fds, up.rsockets, count, deadline_ns, mask);
	vb_undo_pop(&undo);
	looked_up_put(&up);
	return result;
}

VB_PUBLIC int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	VB_CANCEL_POINT;
	const uint64_t deadline_ns = timeout < 0 ? VB_NEVER_NS
				     : timeout   ? vb_now_ns() + (uint64_t)timeout * 1000000u
						 : 0;

	return vb_rs_return_count(poll_fds(fds, nfds, deadline_ns, NULL));
}

VB_PUBLIC int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		      struct timeval *timeout)
{
	VB_CANCEL_POINT;
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
