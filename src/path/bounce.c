/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/bounce.h"

#include <stdlib.h>

#include "exec/reason.h"
#include "nic/odp.h"
#include "nic/qp_ext.h"

enum { PIECES_MAX = 64, KEPT_MAX = 1 << 16 }; /* a longer buffer is freed after its use */

/* NULL: the WQE is a copy, of a datagram that was put aside. */
static struct vb_bounce *bounce_of(struct vb_qp *qp, const struct vb_wqe *wqe)
{
	const size_t place = (size_t)((const uint8_t *)wqe - qp->sq.slots);

	if ((const uint8_t *)wqe < qp->sq.slots || place / qp->sq.stride > qp->sq.mask)
		return NULL;
	if (!qp->bounces)
		qp->bounces = calloc(qp->sq.mask + 1ull, sizeof(*qp->bounces));
	return qp->bounces ? &qp->bounces[place / qp->sq.stride] : NULL;
}

/* Looks at each element; true: all are good, and one is indirect. */
static bool elements_check(struct vb_qp *qp, const struct vb_wqe *wqe, unsigned access)
{
	bool any = false;

	for (unsigned i = 0; i < wqe->sge_count; i++) {
		struct iovec at[1];
		struct vb_pieces pieces = { at, 0, 1, 0 };

		if (!wqe->sge[i].length || vb_mr_lookup(qp->nic, qp->pd, &wqe->sge[i], access))
			continue;
		if (!vb_umr_find(qp->nic, qp->pd, &wqe->sge[i], access, &pieces))
			return false;
		any = true;
	}
	return any;
}

static bool piece_move(const struct iovec *piece, uint8_t *bytes, bool out)
{
	return out ? vb_user_write(piece->iov_base, bytes, piece->iov_len)
		   : vb_user_read(bytes, piece->iov_base, piece->iov_len);
}

/* Moves the bytes of one element to or from the buffer. */
static bool element_move(struct vb_qp *qp, struct ibv_sge sge, unsigned access, uint8_t *bytes)
{
	const struct vb_mr *mr = vb_mr_lookup(qp->nic, qp->pd, &sge, access);
	struct iovec at[PIECES_MAX];

	if (mr) {
		at[0] = (struct iovec){ (void *)(uintptr_t)vb_mr_at(mr, sge.addr, access),
					sge.length };
		return piece_move(&at[0], bytes, access);
	}
	while (sge.length) {
		struct vb_pieces pieces = { at, 0, PIECES_MAX, 0 };

		if (!vb_umr_find(qp->nic, qp->pd, &sge, access, &pieces))
			return false;
		for (unsigned i = 0; i < pieces.count; bytes += at[i++].iov_len)
			if (!piece_move(&at[i], bytes, access))
				return false;
		sge.addr += pieces.bytes;
		sge.length -= (uint32_t)pieces.bytes;
	}
	return true;
}

static bool all_move(struct vb_qp *qp, const struct vb_wqe *wqe, unsigned access, uint8_t *bytes)
{
	for (unsigned i = 0; i < wqe->sge_count; bytes += wqe->sge[i++].length)
		if (wqe->sge[i].length && !element_move(qp, wqe->sge[i], access, bytes))
			return false;
	return true;
}

static bool room_make(struct vb_bounce *bounce, size_t length)
{
	if (bounce->room >= length)
		return true;
	free(bounce->at);
	bounce->at = malloc(length);
	bounce->room = bounce->at ? length : 0;
	return bounce->at;
}

__attribute__((cold, noinline)) bool vb_bounce_take(struct vb_qp *qp, const struct vb_wqe *wqe,
						    unsigned access, struct ibv_sge *element)
{
	struct vb_bounce *bounce;

	if (wqe->internal || !elements_check(qp, wqe, access))
		return false;
	bounce = bounce_of(qp, wqe);
	if (!bounce)
		return false;
	if (!bounce->used) {
		if (!room_make(bounce, wqe->length) ||
		    (!access && !all_move(qp, wqe, 0, bounce->at)))
			return false;
		bounce->used = true;
		bounce->scatters = access; /* a capture looks at the same bytes later */
	}
	qp->slow_sends |= VB_SENDS_BOUNCED;
	*element = (struct ibv_sge){ (uintptr_t)bounce->at, wqe->length, 0 };
	return true;
}

void vb_bounce_end(struct vb_qp *qp, struct vb_wqe *wqe)
{
	struct vb_bounce *bounce = bounce_of(qp, wqe);

	if (!bounce || !bounce->used)
		return;
	bounce->used = false;
	if (bounce->scatters && wqe->status == IBV_WC_SUCCESS &&
	    !all_move(qp, wqe, IBV_ACCESS_LOCAL_WRITE, bounce->at)) {
		wqe->status = IBV_WC_LOC_PROT_ERR;
		wqe->reason = VB_WHY_LOCAL_KEY;
	}
	if (bounce->room > KEPT_MAX) {
		free(bounce->at);
		*bounce = (struct vb_bounce){ 0 };
	}
}
