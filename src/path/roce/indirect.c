/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder's side of WRITE and READ through an indirect key (nic/umr.h). */
#include <string.h>

#include "exec/copy.h"
#include "exec/rkey.h"
#include "nic/odp.h"
#include "path/roce/responder.h"

enum { PIECES_MAX = 64 };

enum vb_reason vb_indirect_check(struct vb_remote *memory, uint32_t rkey, uint64_t va,
				 uint64_t length, unsigned access)
{
	struct iovec at[1];
	struct vb_pieces pieces = { at, 0, 1, 0 };

	return vb_rkey_pieces(memory->home, &memory->key_cache, memory->pd, rkey, va, length,
			      access, &pieces);
}

/* A piece of this process, or of the process that has the SRQ of an XRC message. */
static bool piece_write(struct vb_remote *memory, const struct iovec *piece, const uint8_t *from)
{
	struct iovec here = { (void *)(uintptr_t)from, piece->iov_len }, there = *piece;
	const struct vb_iov local = { &here, 1, 1, here.iov_len };
	const struct vb_iov remote = { &there, 1, 1, there.iov_len };

	if (memory->home->self)
		return vb_path_copy_ordered(piece->iov_base, from, (uint32_t)piece->iov_len);
	return vb_copy(memory->home, VB_TO_TARGET_IN_ORDER, &local, &remote) ==
	       (ssize_t)here.iov_len;
}

static bool piece_read(struct vb_remote *memory, const struct iovec *piece, uint8_t *out)
{
	struct iovec here = { out, piece->iov_len }, there = *piece;
	const struct vb_iov local = { &here, 1, 1, here.iov_len };
	const struct vb_iov remote = { &there, 1, 1, there.iov_len };

	if (memory->home->self)
		return vb_user_read(out, piece->iov_base, piece->iov_len);
	return vb_copy(memory->home, VB_FROM_TARGET, &local, &remote) == (ssize_t)here.iov_len;
}

enum vb_reason vb_indirect_write(struct vb_remote *memory, uint32_t rkey, uint64_t va,
				 const uint8_t *from, uint32_t length)
{
	struct iovec at[PIECES_MAX];
	uint32_t done = 0;

	while (done < length) {
		struct vb_pieces pieces = { at, 0, PIECES_MAX, 0 };
		enum vb_reason reason =
			vb_rkey_pieces(memory->home, &memory->key_cache, memory->pd, rkey,
				       va + done, length - done, IBV_ACCESS_REMOTE_WRITE, &pieces);

		if (reason)
			return reason;
		for (unsigned i = 0; i < pieces.count; i++) {
			if (!piece_write(memory, &at[i], from + done))
				return VB_WHY_REMOTE_MEMORY;
			done += (uint32_t)at[i].iov_len;
		}
	}
	return VB_OK;
}

enum vb_reason vb_indirect_read(struct vb_remote *memory, uint32_t rkey, uint64_t va, uint8_t *out,
				uint32_t length)
{
	struct iovec at[PIECES_MAX];
	uint32_t done = 0;

	while (done < length) {
		struct vb_pieces pieces = { at, 0, PIECES_MAX, 0 };
		enum vb_reason reason =
			vb_rkey_pieces(memory->home, &memory->key_cache, memory->pd, rkey,
				       va + done, length - done, IBV_ACCESS_REMOTE_READ, &pieces);

		if (reason)
			return reason;
		for (unsigned i = 0; i < pieces.count; i++) {
			if (!piece_read(memory, &at[i], out + done))
				return VB_WHY_REMOTE_MEMORY;
			done += (uint32_t)at[i].iov_len;
		}
	}
	return VB_OK;
}
