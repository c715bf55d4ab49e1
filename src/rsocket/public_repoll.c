/* SPDX-License-Identifier: BSD-2-Clause */
/* repoll_create, repoll_ctl and repoll_wait. They answer as the calls of epoll do. */
#include <errno.h>

#include "abi/rdmacm.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/symver.h"
#include "rsocket/repoll.h"
#include "rsocket/rsocket.h"

VB_PUBLIC int repoll_create(int flags)
{
	VB_NO_CANCEL;

	return (int)vb_rs_return_count(vb_repoll_create(flags));
}

VB_PUBLIC int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	VB_NO_CANCEL;

	return vb_return_minus_one(epfd == fd ? -EINVAL : vb_repoll_control(epfd, op, fd, event));
}

VB_PUBLIC int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	VB_CANCEL_POINT;
	const uint64_t deadline_ns = timeout < 0 ? VB_NEVER_NS
				     : timeout   ? vb_now_ns() + (uint64_t)timeout * 1000000u
						 : 0;

	if (maxevents <= 0 || !events)
		return vb_return_minus_one(maxevents <= 0 ? -EINVAL : -EFAULT);
	return (int)vb_rs_return_count(vb_repoll_wait(epfd, events, maxevents, deadline_ns));
}
