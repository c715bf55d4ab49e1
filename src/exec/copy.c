/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/copy.h"

#include <errno.h>
#include <string.h>

#include "base/shards.h"
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
	size_t body = length && tail_address > address ? tail_address - address : 0;
	size_t taken = body ? vb_iov_slice(iov, sge, count, offset, body) : 0;

	return taken + vb_iov_slice(iov, sge, count, offset + body, length - body);
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

/* A walk over both sides of a copy, in pieces that lie in one element of each. */
struct walk {
	const struct iovec *here, *here_end, *there, *there_end;
	size_t here_done, there_done;
};

static struct walk walk_begin(const struct vb_iov *local, const struct vb_iov *remote)
{
	return (struct walk){ .here = local->at,
			      .here_end = local->at + local->count,
			      .there = remote->at,
			      .there_end = remote->at + remote->count };
}

static void step(const struct iovec **at, size_t *done, size_t by)
{
	*done += by;
	if (*done < (*at)->iov_len)
		return;
	++*at;
	*done = 0;
}

/* False: the walk has ended. */
static bool walk_on(struct walk *walk, struct iovec *here, struct iovec *there)
{
	size_t length, room;

	if (walk->here == walk->here_end || walk->there == walk->there_end)
		return false;
	length = walk->here->iov_len - walk->here_done;
	room = walk->there->iov_len - walk->there_done;
	if (length > room)
		length = room;
	*here = (struct iovec){ (char *)walk->here->iov_base + walk->here_done, length };
	*there = (struct iovec){ (char *)walk->there->iov_base + walk->there_done, length };
	step(&walk->here, &walk->here_done, length);
	step(&walk->there, &walk->there_done, length);
	return true;
}

/* Element by element, as the kernel copies: bytes become visible in the order of elements. The
 * fence pairs with the acquire by which the program of the target reads the last byte. */
ssize_t vb_copy_plain(enum vb_direction direction, const struct vb_iov *local,
		      const struct vb_iov *remote)
{
	struct walk walk = walk_begin(local, remote);
	struct iovec here, there;
	ssize_t total = 0;

	while (walk_on(&walk, &here, &there)) {
		if (direction == VB_FROM_TARGET)
			memmove(here.iov_base, there.iov_base, here.iov_len);
		else
			memmove(there.iov_base, here.iov_base, here.iov_len);
		atomic_thread_fence(memory_order_release);
		total += (ssize_t)here.iov_len;
	}
	return total;
}

/*
 * The kernel stores the bytes on the CPU of this thread, so a fence of this thread lies between the
 * bytes of two calls. It pairs as the one in vb_copy_plain.
 */
ssize_t vb_copy_in_order(struct vb_peer *target, const struct vb_iov *local,
			 const struct vb_iov *remote)
{
	struct walk walk = walk_begin(local, remote);
	struct iovec here, there;
	ssize_t total = 0;

	while (walk_on(&walk, &here, &there)) {
		ssize_t copied;

		atomic_thread_fence(memory_order_release);
		copied = process_vm_writev(target->tid, &here, 1, &there, 1, 0);
		if (copied < 0 && (errno != EFAULT || !total))
			return -errno;
		total += copied > 0 ? copied : 0;
		if (copied != (ssize_t)here.iov_len)
			break;
	}
	return total;
}

static ssize_t copy_call(pid_t tid, enum vb_direction direction, const struct iovec *here,
			 const struct iovec *there)
{
	return direction == VB_FROM_TARGET ? process_vm_readv(tid, here, 1, there, 1, 0)
					   : process_vm_writev(tid, here, 1, there, 1, 0);
}

static bool element_in_pieces(pid_t tid, enum vb_direction direction, const struct iovec *here,
			      const struct iovec *there)
{
	struct vb_shards shards;
	struct vb_shard shard;

	if (!vb_shards_begin(&shards,
			     direction == VB_FROM_TARGET ? VB_DEED_READ_SHARDS
							 : VB_DEED_WRITE_SHARDS,
			     (uintptr_t)there->iov_base, here->iov_len))
		return copy_call(tid, direction, here, there) == (ssize_t)here->iov_len;
	while (vb_shards_next(&shards, &shard)) {
		const struct iovec mine = { (char *)here->iov_base + shard.at, shard.length };
		const struct iovec other = { (char *)there->iov_base + shard.at, shard.length };

		if (copy_call(tid, direction, &mine, &other) != (ssize_t)shard.length)
			return false;
	}
	return true;
}

/*
 * The adversary: element by element, each in pieces or not. Elements stay in order, so the last
 * bytes of a WRITE are still the last. False: memory is missing somewhere.
 */
__attribute__((cold, noinline)) static bool copy_in_pieces(struct vb_peer *target,
							   enum vb_direction direction,
							   const struct vb_iov *local,
							   const struct vb_iov *remote)
{
	struct walk walk = walk_begin(local, remote);
	struct iovec here, there;

	while (walk_on(&walk, &here, &there))
		if (!element_in_pieces(target->tid, direction, &here, &there))
			return false;
	return true;
}

ssize_t vb_copy(struct vb_peer *target, enum vb_direction direction, const struct vb_iov *local,
		const struct vb_iov *remote)
{
	ssize_t copied;

	if (target->self && !vb_odp_in_use())
		return vb_copy_plain(direction, local, remote);
	if (vb_adversary_on() && copy_in_pieces(target, direction, local, remote))
		return (ssize_t)local->bytes;
	if (!VB_STORES_IN_ORDER && direction == VB_TO_TARGET_IN_ORDER)
		return vb_copy_in_order(target, local, remote);
	vb_tell_sending(true);
	if (direction == VB_FROM_TARGET)
		copied = process_vm_readv(target->tid, local->at, local->count, remote->at,
					  remote->count, 0);
	else
		copied = process_vm_writev(target->tid, local->at, local->count, remote->at,
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
