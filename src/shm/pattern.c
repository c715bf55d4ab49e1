/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/pattern.h"

/* The owner's numbers may be anything: each is read once and bounded. */
struct shape {
	const struct vb_pattern *pattern;
	uint32_t count;
	uint64_t rounds, round_bytes;
};

static bool shape_read(struct vb_peer *owner, const struct vb_key_entry *entry, struct shape *shape)
{
	const uint32_t room = VB_READ_ONCE(entry->qpn);

	if (room > VB_PATTERN_PARTS_MAX)
		return false;
	shape->pattern = vb_peer_at(owner, VB_READ_ONCE(entry->addr), vb_pattern_size(room));
	if (!shape->pattern)
		return false;
	shape->count = VB_READ_ONCE(shape->pattern->count);
	shape->rounds = VB_READ_ONCE(shape->pattern->rounds);
	shape->round_bytes = VB_READ_ONCE(shape->pattern->round_bytes);
	return shape->count && shape->count <= room && shape->rounds && shape->round_bytes;
}

/* The last part that begins at or before a byte of the round. */
static uint32_t part_find(const struct shape *shape, uint64_t inside)
{
	uint32_t low = 0, high = shape->count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (VB_READ_ONCE(shape->pattern->parts[middle].start) <= inside)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The address of a byte, and the bytes that follow it there; 0: the pattern is damaged. */
static uint64_t run_at(const struct shape *shape, uint64_t offset, uint64_t *address)
{
	const uint64_t round = offset / shape->round_bytes, inside = offset % shape->round_bytes;
	const struct vb_pattern_part *part = &shape->pattern->parts[part_find(shape, inside)];
	const uint64_t into = inside - VB_READ_ONCE(part->start), bytes = VB_READ_ONCE(part->bytes);

	*address = VB_READ_ONCE(part->addr) + round * VB_READ_ONCE(part->stride) + into;
	return into < bytes ? bytes - into : 0;
}

static bool piece_add(struct vb_pieces *pieces, uint64_t address, uint64_t length)
{
	struct iovec *last = pieces->count ? &pieces->at[pieces->count - 1] : NULL;

	if (last && (uintptr_t)last->iov_base + last->iov_len == address) {
		last->iov_len += length;
	} else if (pieces->count == pieces->room) {
		return false;
	} else {
		pieces->at[pieces->count++] = (struct iovec){ (void *)(uintptr_t)address, length };
	}
	pieces->bytes += length;
	return true;
}

static bool pieces_collect(const struct shape *shape, uint64_t offset, uint64_t length,
			   struct vb_pieces *pieces)
{
	pieces->count = 0;
	pieces->bytes = 0;
	while (pieces->bytes < length) {
		uint64_t address, run = run_at(shape, offset + pieces->bytes, &address);

		if (!run)
			return false;
		if (run > length - pieces->bytes)
			run = length - pieces->bytes;
		if (!piece_add(pieces, address, run))
			break;
	}
	return true;
}

bool vb_pattern_find(struct vb_peer *owner, const struct vb_key_entry *entry, uint64_t va,
		     uint64_t length, unsigned access, struct vb_pieces *pieces)
{
	const uint64_t offset = va - VB_READ_ONCE(entry->iova), size = VB_READ_ONCE(entry->length);
	struct shape shape;
	uint32_t version;

	if (!shape_read(owner, entry, &shape))
		return false;
	/* Pairs with the stores of vb_umr_fill (nic/umr.c). */
	version = atomic_load_explicit(&shape.pattern->version, memory_order_acquire);
	if (version & 1 || !shape_read(owner, entry, &shape))
		return false;
	if (access & ~VB_READ_ONCE(shape.pattern->access) || offset > size ||
	    length > size - offset || !pieces_collect(&shape, offset, length, pieces))
		return false;
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&shape.pattern->version, memory_order_relaxed) == version;
}
