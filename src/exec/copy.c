/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/copy.h"

#include <errno.h>
#include <string.h>

#include "nic/odp.h"

bool vb_iov_add(struct vb_iov *iov, void *base, size_t length)
{
	if (!length)
		return true;
	if (iov->count == iov->room)
		return false;
	iov->at[iov->count++] = (struct iovec){ base, length };
	iov->bytes += length;
	return true;
}

size_t vb_iov_slice(struct vb_iov *iov, const struct ibv_sge *sge, unsigned count, size_t offset,
		    size_t limit)
{
	size_t taken = 0;

	for (unsigned i = 0; i < count && taken < limit; i++) {
		size_t part;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		part = sge[i].length - offset;
		if (part > limit - taken)
			part = limit - taken;
		if (!vb_iov_add(iov, (void *)(uintptr_t)(sge[i].addr + offset), part))
			break;
		taken += part;
		offset = 0;
	}
	return taken;
}

size_t vb_iov_slice_ordered(struct vb_iov *iov, const struct ibv_sge *sge, unsigned count,
			    size_t offset, size_t length, uint64_t address)
{
	uint64_t tail_address = (address + length - 1) & ~7ull;
	size_t body = tail_address > address ? tail_address - address : 0;

	if (!length)
		return 0;
	return vb_iov_slice(iov, sge, count, offset, body) +
	       vb_iov_slice(iov, sge, count, offset + body, length - body);
}

bool vb_iov_add_remote(struct vb_iov *iov, uint64_t address, size_t length)
{
	struct iovec *last = iov->count ? &iov->at[iov->count - 1] : NULL;

	if (!last || (uintptr_t)last->iov_base + last->iov_len != address)
		return vb_iov_add(iov, (void *)(uintptr_t)address, length);
	last->iov_len += length;
	iov->bytes += length;
	return true;
}

/* Element by element, as the kernel copies: bytes become visible in the order of elements. */
static ssize_t copy_own(enum vb_direction direction, const struct vb_iov *local,
			const struct vb_iov *remote)
{
	unsigned l = 0;
	size_t l_done = 0;
	ssize_t total = 0;

	for (unsigned r = 0; r < remote->count; r++) {
		char *there = remote->at[r].iov_base;
		size_t left = remote->at[r].iov_len;

		while (left && l < local->count) {
			char *here = (char *)local->at[l].iov_base + l_done;
			size_t part = local->at[l].iov_len - l_done;

			if (part > left)
				part = left;
			if (direction == VB_TO_TARGET)
				memmove(there, here, part);
			else
				memmove(here, there, part);
			atomic_thread_fence(memory_order_release);
			there += part;
			left -= part;
			total += (ssize_t)part;
			l_done += part;
			if (l_done == local->at[l].iov_len) {
				l++;
				l_done = 0;
			}
		}
	}
	return total;
}

ssize_t vb_copy(struct vb_peer *target, enum vb_direction direction, const struct vb_iov *local,
		const struct vb_iov *remote)
{
	ssize_t copied;

	if (target->self && !vb_odp_in_use())
		return copy_own(direction, local, remote);
	vb_tell_sending(true);
	if (direction == VB_TO_TARGET)
		copied = process_vm_writev(target->tid, local->at, local->count, remote->at,
					   remote->count, 0);
	else
		copied = process_vm_readv(target->tid, local->at, local->count, remote->at,
					  remote->count, 0);
	vb_tell_sending(false);
	return copied < 0 ? -errno : copied;
}

void vb_copy_probe(struct vb_peer *peer)
{
	uint64_t nonce;
	struct iovec here = { &nonce, sizeof(nonce) }, there;

	/* Before READY the service thread writes nonce_at. */
	if (peer->self || atomic_load(&peer->state) != VB_PEER_READY)
		return;
	there = (struct iovec){ (void *)(uintptr_t)peer->nonce_at, sizeof(nonce) };
	atomic_store(&peer->denied, process_vm_readv(peer->tid, &here, 1, &there, 1, 0) < 0 &&
					    vb_copy_is_denied(-errno));
}
