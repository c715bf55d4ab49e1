/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives with indirect keys (umr.h): a post makes ordinary elements of their pieces. */
#include "nic/rq.h"
#include "nic/umr.h"

struct list {
	struct ibv_sge sge[VB_SGE_MAX];
	unsigned count, room;
};

static bool list_add(struct list *list, uint64_t addr, uint32_t length, uint32_t lkey)
{
	if (list->count == list->room)
		return false;
	list->sge[list->count++] = (struct ibv_sge){ addr, length, lkey };
	return true;
}

/* The deregistration of the region that a piece lies in finds the receive by that region's key. */
static bool piece_add(struct vb_rq *rq, struct list *list, uint32_t lkey, const struct iovec *piece)
{
	struct vb_mr *mr = vb_umr_region(rq->nic, lkey, (uintptr_t)piece->iov_base, piece->iov_len);

	if (!mr)
		return false;
	atomic_store(&mr->used_by_recv, 1);
	return list_add(list, (uintptr_t)piece->iov_base, (uint32_t)piece->iov_len, mr->ibv.lkey);
}

static bool element_add(struct vb_rq *rq, struct list *list, const struct ibv_sge *sge)
{
	struct vb_mr *mr = vb_mr_lookup(rq->nic, rq->pd, sge, IBV_ACCESS_LOCAL_WRITE);
	struct iovec at[VB_SGE_MAX];
	struct vb_pieces pieces = { at, 0, list->room - list->count, 0 };

	if (mr) {
		atomic_store(&mr->used_by_recv, 1);
		return list_add(list, vb_mr_at(mr, sge->addr, IBV_ACCESS_LOCAL_WRITE), sge->length,
				sge->lkey);
	}
	if (!vb_umr_find(rq->nic, rq->pd, sge, IBV_ACCESS_LOCAL_WRITE, &pieces) ||
	    pieces.bytes != sge->length)
		return false;
	for (unsigned i = 0; i < pieces.count; i++)
		if (!piece_add(rq, list, sge->lkey, &at[i]))
			return false;
	return true;
}

__attribute__((cold, noinline)) bool vb_rq_expand(struct vb_rq *rq, const struct ibv_recv_wr *wr,
						  struct vb_recv_wqe *twin,
						  struct vb_recv_sges *shown)
{
	struct list list = { .room = rq->sge_max };

	for (int i = 0; i < wr->num_sge; i++)
		if (wr->sg_list[i].length && !element_add(rq, &list, &wr->sg_list[i]))
			return false;
	for (unsigned i = 0; i < list.count; i++)
		twin->sge[i] = shown->sge[i] = list.sge[i];
	shown->count = twin->sge_count = (uint8_t)list.count;
	return true;
}
