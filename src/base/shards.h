/* SPDX-License-Identifier: BSD-2-Clause */
/* The adversary copies bytes in pieces, out of order, with pauses between them. */
#ifndef VB_BASE_SHARDS_H
#define VB_BASE_SHARDS_H

#include <stddef.h>

#include "base/adversary.h"

enum { VB_SHARDS_MAX = 8 };

struct vb_shard {
	size_t at, length; /* of the bytes that are copied */
};

struct vb_shards {
	struct vb_shard shard[VB_SHARDS_MAX];
	unsigned count, next;
	uint64_t bits;
};

/*
 * Cuts length bytes, for this deed. False: the copy is not cut, as ever without the adversary.
 * address: of the memory that a program may look at, for the note.
 */
bool vb_shards_begin(struct vb_shards *shards, enum vb_deed deed, uintptr_t address, size_t length);
/* The next piece to copy; before some of them time passes. False: that was all. */
bool vb_shards_next(struct vb_shards *shards, struct vb_shard *shard);

#endif
