/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repoll_create, repoll_ctl and repoll_wait. They answer as the calls of epoll do. A thread that is
 * cancelled inside would keep a lock, so they are no cancellation points.
 */
#include <errno.h>

#include "abi/rdmacm.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/symver.h"
#include "rsocket/repoll.h"
#include "rsocket/rsocket.h"

VB_PUBLIC int repoll_create(int flags)
{
	return (int)vb_rs_return_count(vb_repoll_create(flags));
}

VB_PUBLIC int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	int cancel_state, err;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	err = epfd == fd ? -EINVAL : vb_repoll_control(epfd, op, fd, event);
	pthread_setcancelstate(cancel_state, NULL);
	return vb_return_minus_one(err);
}

VB_PUBLIC int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	const uint64_t deadline_ns = timeout < 0 ? VB_NEVER_NS
				     : timeout   ? vb_now_ns() + (uint64_t)timeout * 1000000u
						 : 0;

	int cancel_state, result;

	if (maxevents <= 0 || !events)
		return vb_return_minus_one(maxevents <= 0 ? -EINVAL : -EFAULT);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	result = vb_repoll_wait(epfd, events, maxevents, deadline_ns);
	pthread_setcancelstate(cancel_state, NULL);
	return (int)vb_rs_return_count(result);
}
