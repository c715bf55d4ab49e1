/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the memory behind an indirect key, in this process or in that of a peer. */
#ifndef VB_SHM_PATTERN_H
#define VB_SHM_PATTERN_H

#include <sys/uio.h>

#include "shm/peer.h"

static inline size_t vb_pattern_size(uint32_t parts)
{
	return sizeof(struct vb_pattern) + parts * sizeof(struct vb_pattern_part);
}

/* A range of bytes, as addresses of the owner. */
struct vb_pieces {
	struct iovec *at;
	unsigned count, room;
	uint64_t bytes; /* of all pieces: less than asked for where room ends */
};

/*
 * The pieces of length bytes at va. False: the key does not open all of them, lacks a right, or is
 * being filled at this moment.
 */
bool vb_pattern_find(struct vb_peer *owner, const struct vb_key_entry *entry, uint64_t va,
		     uint64_t length, unsigned access, struct vb_pieces *pieces);

#endif
