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
static bool piece_write(struct vb_remote *memory, const struct iovec *piece, uint8_t *from)
{
	struct iovec here = { from, piece->iov_len }, there = *piece;
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

/* A piece of the memory behind the key, and the bytes of a packet that belong there. */
typedef bool piece_copy(struct vb_remote *memory, const struct iovec *piece, uint8_t *bytes);

static enum vb_reason each_piece(struct vb_remote *memory, uint32_t rkey, uint64_t va,
				 uint8_t *bytes, uint32_t length, unsigned access, piece_copy *copy)
{
	struct iovec at[PIECES_MAX];
	uint32_t done = 0;

	while (done < length) {
		struct vb_pieces pieces = { at, 0, PIECES_MAX, 0 };
		enum vb_reason reason =
			vb_rkey_pieces(memory->home, &memory->key_cache, memory->pd, rkey,
				       va + done, length - done, access, &pieces);

		if (reason)
			return reason;
		for (unsigned i = 0; i < pieces.count; i++) {
			if (!copy(memory, &at[i], bytes + done))
				return VB_WHY_REMOTE_MEMORY;
			done += (uint32_t)at[i].iov_len;
		}
	}
	return VB_OK;
}

enum vb_reason vb_indirect_write(struct vb_remote *memory, uint32_t rkey, uint64_t va,
				 const uint8_t *from, uint32_t length)
{
	return each_piece(memory, rkey, va, (uint8_t *)from, length, IBV_ACCESS_REMOTE_WRITE,
			  piece_write);
}

enum vb_reason vb_indirect_read(struct vb_remote *memory, uint32_t rkey, uint64_t va, uint8_t *out,
				uint32_t length)
{
	return each_piece(memory, rkey, va, out, length, IBV_ACCESS_REMOTE_READ, piece_read);
}
