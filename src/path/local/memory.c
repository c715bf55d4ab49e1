/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies from and to a peer's memory, which the peer may be about to take away. */
#include <errno.h>

#include "path/local/step.h"

/* A grace waits for the threads of its own process in any case (grace.c). */
static bool target_is_own(const struct vb_step_context *step)
{
	return step->qp->remote.home->self;
}

bool vb_step_copy_begin(struct vb_step_context *step, uint64_t address, uint64_t length)
{
	return target_is_own(step) ||
	       vb_hazard_copy_begin(step->run->thread, address, address + length, 0);
}

void vb_step_copy_end(struct vb_step_context *step)
{
	if (!target_is_own(step))
		vb_hazard_copy_end(step->run->thread);
}

/* The range from the lowest to the highest byte of a list. */
static inline void iov_hull(const struct vb_iov *iov, uint64_t *from, uint64_t *to)
{
	*from = iov->count ? (uintptr_t)iov->at[0].iov_base : 0;
	*to = iov->count ? *from + iov->at[0].iov_len : 0;
	for (unsigned i = 1; i < iov->count; i++) {
		uint64_t start = (uintptr_t)iov->at[i].iov_base, end = start + iov->at[i].iov_len;

		*from = start < *from ? start : *from;
		*to = end > *to ? end : *to;
	}
}

ssize_t vb_step_copy(struct vb_step_context *step, enum vb_direction direction,
		     const struct vb_iov *local, const struct vb_iov *remote)
{
	struct vb_peer *home = step->qp->remote.home;
	struct vb_thread *thread = step->run->thread;
	uint64_t from, to;
	ssize_t copied;

	if (target_is_own(step))
		return vb_copy(home, direction, local, remote);
	iov_hull(remote, &from, &to);
	if (!vb_hazard_copy_begin(thread, from, to,
				  vb_copy_is_one_call(direction, local, remote) ? VB_COPY_ONE_CALL
										: 0))
		return -ECANCELED;
	copied = vb_copy(home, direction, local, remote);
	vb_hazard_copy_end(thread);
	return copied;
}

ssize_t vb_step_copy_mapped(struct vb_step_context *step, enum vb_direction direction,
			    const struct vb_iov *local, const struct vb_iov *remote,
			    const struct vb_aim *aim)
{
	struct vb_thread *thread = step->run->thread;
	ssize_t copied;

	if (!vb_hazard_copy_begin(thread, aim->from, aim->to, VB_COPY_MAPPED))
		return -ECANCELED;
	copied = vb_copy_plain(direction, local, remote);
	if (__builtin_expect(!vb_mapped_is_current(&aim->view, thread), 0))
		copied = -ECANCELED;
	vb_hazard_copy_end(thread);
	return copied;
}

enum vb_reason vb_step_copy_refused(ssize_t copied)
{
	if (copied == -ECANCELED)
		return VB_WHY_PEER_NOT_READY;
	if (copied == -ESRCH)
		return VB_WHY_PEER_ENDED;
	return vb_copy_is_denied(copied) ? VB_WHY_PEER_UNTOUCHABLE : VB_OK;
}
