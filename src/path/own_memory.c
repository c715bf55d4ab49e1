/* SPDX-License-Identifier: BSD-2-Clause */
/* The initiator's own side of both paths: its memory, its windows. */
#include <string.h>

#include "nic/odp.h"
#include "nic/qp_ext.h"
#include "path/bounce.h"
#include "path/complete.h"

static enum vb_reason bind_window(struct vb_qp *qp, const struct vb_wqe *wqe,
				  struct vb_report *report)
{
	report->key = wqe->bind.rkey;
	return vb_mw_bind(&wqe->bind, qp->pd, qp->ibv.qp_num) ? VB_OK : VB_WHY_WINDOW_BIND;
}

static enum vb_reason invalidate_window(struct vb_qp *qp, const struct vb_wqe *wqe,
					struct vb_report *report)
{
	report->key = wqe->imm;
	return vb_mw_invalidate(qp->nic->self, wqe->imm, qp->pd->id, qp->ibv.qp_num)
		       ? VB_OK
		       : VB_WHY_WINDOW_INVALID;
}

static enum vb_reason fill_key(struct vb_qp *qp, const struct vb_wqe *wqe, struct vb_report *report)
{
	report->key = vb_wqe_umr(wqe)->lkey;
	return vb_umr_fill(qp->nic, qp->pd, vb_wqe_umr(wqe)) ? VB_OK : VB_WHY_UMR;
}

static enum vb_reason wait_for_cqe(const struct vb_wqe *wqe, struct vb_report *report)
{
	const struct vb_cross *cross = vb_wqe_cross(wqe);
	struct vb_ledger_gap gap;

	switch (vb_ledger_reach(cross->ledger, cross->index)) {
	case VB_LEDGER_REACHED:
		return VB_OK;
	case VB_LEDGER_CLOSED:
		return VB_WHY_CQE_GONE;
	case VB_LEDGER_SHORT:
		break;
	}
	gap = vb_ledger_gap(cross->ledger, cross->index);
	report->have = gap.cq;
	report->want = gap.missing;
	return VB_WHY_CQE_WAIT;
}

enum vb_reason vb_path_stay(struct vb_qp *qp, const struct vb_wqe *wqe, struct vb_report *report)
{
	switch (wqe->opcode) {
	case IBV_WR_BIND_MW:
		return bind_window(qp, wqe, report);
	case IBV_WR_LOCAL_INV:
		return invalidate_window(qp, wqe, report);
	case VB_WR_UMR:
		return fill_key(qp, wqe, report);
	case VB_WR_SEND_ENABLE:
	case VB_WR_RECV_ENABLE:
		return vb_cross_enable(qp->nic, vb_wqe_cross(wqe)) ? VB_OK : VB_WHY_ENABLE;
	case VB_WR_CQE_WAIT:
		return wait_for_cqe(wqe, report);
	}
	return VB_OK; /* NOP */
}

/* Elements of the SRQ, which an internal work request has, do not go through the queue's cache:
 * they may be of another PD. */
static bool element_translate(struct vb_qp *qp, const struct ibv_sge *sge, bool internal,
			      unsigned access, uint64_t *address)
{
	struct vb_mr_cache *cache = &qp->sq.mr_cache;
	struct vb_mr *mr;

	if (!internal && vb_mr_cached(cache, qp->nic, sge, address) && !(access & ~cache->access))
		return true;
	mr = internal ? vb_mr_lookup(qp->nic, qp->srq->pd, sge, access)
		      : vb_mr_cache_fill(cache, qp->nic, qp->pd, sge, access);
	if (mr)
		*address = vb_mr_at(mr, sge->addr, access);
	return mr;
}

enum vb_reason vb_path_check_sges(struct vb_qp *qp, const struct vb_wqe *wqe, unsigned access,
				  struct ibv_sge *sge, unsigned *count, struct vb_report *report)
{
	if (wqe->inlined) {
		sge[0] = (struct ibv_sge){ (uintptr_t)wqe->bytes, wqe->length, 0 };
		*count = 1;
		return VB_OK;
	}
	*count = wqe->sge_count;
	for (unsigned i = 0; i < wqe->sge_count; i++) {
		sge[i] = wqe->sge[i];
		if (!sge[i].length ||
		    element_translate(qp, &wqe->sge[i], wqe->internal, access, &sge[i].addr))
			continue;
		if (vb_bounce_take(qp, wqe, access, sge)) {
			*count = 1;
			break;
		}
		report->key = wqe->sge[i].lkey;
		report->addr = wqe->sge[i].addr;
		report->length = wqe->sge[i].length;
		return VB_WHY_LOCAL_KEY;
	}
	return VB_OK;
}

/* --- between packets and the elements of a list --- */

/* A walk through a list of elements. */
struct walk {
	const struct ibv_sge *sge, *end;
	uint64_t offset; /* from the start of the current element */
};

/* The next contiguous bytes, at most length of them; 0: the list has ended. */
static inline uint32_t walk_on(struct walk *walk, uint32_t length, uint8_t **at)
{
	uint32_t part;

	for (; walk->sge != walk->end && walk->offset >= walk->sge->length; walk->sge++)
		walk->offset -= walk->sge->length;
	if (walk->sge == walk->end)
		return 0;
	part = walk->sge->length - (uint32_t)walk->offset;
	if (part > length)
		part = length;
	*at = (uint8_t *)(uintptr_t)(walk->sge->addr + walk->offset);
	walk->offset += part;
	return part;
}

bool vb_path_present(const struct ibv_sge *sge, unsigned count, bool write)
{
	if (__builtin_expect(!vb_odp_in_use(), 1))
		return true;
	for (unsigned i = 0; i < count; i++)
		if (vb_odp_make_present(sge[i].addr, sge[i].length, write))
			return false;
	return true;
}

bool vb_path_gather(const struct ibv_sge *sge, unsigned count, uint64_t offset, uint32_t length,
		    uint8_t *out)
{
	struct walk walk = { sge, sge + count, offset };
	uint32_t part;
	uint8_t *at;

	if (__builtin_expect(count == 1 && offset + length <= sge->length, 1))
		return vb_user_read(out, (const void *)(uintptr_t)(sge->addr + offset), length);
	for (; length && (part = walk_on(&walk, length, &at)); length -= part, out += part)
		if (!vb_user_read(out, at, part))
			return false;
	return true;
}

bool vb_path_copy_ordered(uint8_t *to, const uint8_t *from, uint32_t length)
{
	uintptr_t end = (uintptr_t)to + length;
	uint32_t body = 0;

	if (length && ((end - 1) & ~(uintptr_t)7) > (uintptr_t)to)
		body = (uint32_t)(((end - 1) & ~(uintptr_t)7) - (uintptr_t)to);
	if (!vb_user_write(to, from, body))
		return false;
	atomic_thread_fence(memory_order_release);
	return vb_user_write(to + body, from + body, length - body);
}

bool vb_path_scatter(const struct ibv_sge *sge, unsigned count, uint64_t offset, uint32_t length,
		     const uint8_t *from)
{
	struct walk walk = { sge, sge + count, offset };
	uint32_t part;
	uint8_t *at;

	for (; length && (part = walk_on(&walk, length, &at)); length -= part, from += part)
		if (!vb_path_copy_ordered(at, from, part))
			return false;
	return true;
}
