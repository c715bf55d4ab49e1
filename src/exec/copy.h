/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies between this process and a target: memmove within it, process_vm_* between processes. */
#ifndef VB_EXEC_COPY_H
#define VB_EXEC_COPY_H

#include <errno.h>
#include <sys/uio.h>

#include "base/adversary.h"
#include "shm/peer.h"

enum vb_direction {
	VB_TO_TARGET,
	VB_TO_TARGET_IN_ORDER, /* an element becomes visible after all that was copied before it */
	VB_FROM_TARGET,
};

struct vb_iov {
	struct iovec *at;
	unsigned count, room;
	size_t bytes;
};

/* Appends up to limit bytes of a scatter/gather list from offset on; returns the bytes that fit. */
size_t vb_iov_slice(struct vb_iov *iov, const struct ibv_sge *sge, unsigned count, size_t offset,
		    size_t limit);
bool vb_iov_add(struct vb_iov *iov, void *base, size_t length);

/*
 * The local side of a WRITE of length bytes to a remote address. Programs watch the last byte, so
 * that byte must become visible last. The bytes of one element may become visible out of order, but
 * the kernel copies element by element. So the tail, from the last multiple of 8 on, is an element
 * of its own; on the local side, because a remote element costs a look-up of pages. Where stores
 * may become visible out of order, so may those of the kernel: there an element is a call.
 */
size_t vb_iov_slice_ordered(struct vb_iov *iov, const struct ibv_sge *sge, unsigned count,
			    size_t offset, size_t length, uint64_t address);

/* The remote side: a range that continues the last element makes that element longer. */
bool vb_iov_add_remote(struct vb_iov *iov, uint64_t address, size_t length);

/*
 * True: the target exists, but the kernel does not let this process touch its memory. One of the
 * two has another user now, or is not dumpable, or is in a sandbox.
 */
static inline bool vb_copy_is_denied(ssize_t result)
{
	return result == -EPERM || result == -EACCES || result == -ENOSYS;
}

/* Asks the kernel whether it denies access, and notes the answer in peer->denied. */
void vb_copy_probe(struct vb_peer *peer);

/* Bytes copied (fewer: a fault on one side), or -errno: -EFAULT, -ESRCH, or a denial as above. */
ssize_t vb_copy(struct vb_peer *target, enum vb_direction direction, const struct vb_iov *local,
		const struct vb_iov *remote);
/* The same with plain loads and stores, where both sides are mapped here. */
ssize_t vb_copy_plain(enum vb_direction direction, const struct vb_iov *local,
		      const struct vb_iov *remote);
/* The same to a target in order, by a call for each element with a fence before it. */
ssize_t vb_copy_in_order(struct vb_peer *target, const struct vb_iov *local,
			 const struct vb_iov *remote);

/* True: vb_copy is a single system call. */
static inline bool vb_copy_is_one_call(enum vb_direction direction, const struct vb_iov *local,
				       const struct vb_iov *remote)
{
	if (vb_adversary_on())
		return false;
	return VB_STORES_IN_ORDER || direction != VB_TO_TARGET_IN_ORDER ||
	       (local->count < 2 && remote->count < 2);
}

#endif
