/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/umr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum {
	WRITES = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
};

/* --- life --- */

static void indirect_free(struct vb_nic *nic, struct vb_indirect *indirect)
{
	vb_segment_free(&nic->seg, indirect->offset, vb_pattern_size(indirect->room));
	free(indirect->lkeys);
	free(indirect);
}

static struct vb_indirect *indirect_make(struct vb_nic *nic, uint32_t room)
{
	struct vb_indirect *indirect = calloc(1, sizeof(*indirect));

	if (!indirect)
		return NULL;
	indirect->room = room;
	indirect->lkeys = calloc(room, sizeof(*indirect->lkeys));
	indirect->offset = vb_segment_alloc(&nic->seg, vb_pattern_size(room));
	if (!indirect->lkeys || !indirect->offset) {
		indirect_free(nic, indirect);
		return NULL;
	}
	indirect->pattern = vb_segment_at(&nic->seg, indirect->offset);
	return indirect;
}

int vb_umr_create(struct vb_pd *pd, uint32_t room, unsigned access, struct vb_mr **out)
{
	const struct vb_mr_spec spec = { 0 };
	struct vb_indirect *indirect;
	int err = vb_mr_check_access(access);

	if (err)
		return err;
	if (!room || room > VB_PATTERN_PARTS_MAX) {
		vb_explain("ibv_exp_create_mr: max_klm_list_size is %u; the device has 1 to %u",
			   room, VB_PATTERN_PARTS_MAX);
		return -EINVAL;
	}
	indirect = indirect_make(pd->nic, room);
	*out = calloc(1, sizeof(**out));
	if (!indirect || !*out) {
		if (indirect)
			indirect_free(pd->nic, indirect);
		free(*out);
		return -ENOMEM;
	}
	(*out)->indirect = indirect;
	err = vb_mr_create(*out, pd, &spec);
	if (err) {
		indirect_free(pd->nic, indirect);
		return err;
	}
	indirect->mr = *out;
	vb_spin_lock(&pd->nic->umr_lock);
	vb_list_append(&pd->nic->indirects, &indirect->node);
	vb_spin_unlock(&pd->nic->umr_lock);
	return 0;
}

void vb_umr_withdraw(struct vb_mr *mr)
{
	vb_spin_lock(&mr->nic->umr_lock);
	vb_list_remove(&mr->indirect->node);
	vb_spin_unlock(&mr->nic->umr_lock);
}

void vb_umr_drop(struct vb_mr *mr)
{
	free(mr->indirect->lkeys);
	free(mr->indirect);
	mr->indirect = NULL;
}

void vb_umr_free(struct vb_mr *mr)
{
	vb_nic_free_later(mr->nic, 0, mr->indirect->offset, vb_pattern_size(mr->indirect->room));
	vb_umr_drop(mr);
}

/* --- filling; under nic->umr_lock --- */

/* Readers that find an odd version, or another one afterwards, take nothing of the pattern. */
static void change_begin(struct vb_indirect *indirect)
{
	atomic_fetch_add(&indirect->pattern->version, 1);
	atomic_thread_fence(memory_order_release);
}

static void change_end(struct vb_indirect *indirect)
{
	atomic_fetch_add_explicit(&indirect->pattern->version, 1, memory_order_release);
}

static void empty(struct vb_indirect *indirect)
{
	change_begin(indirect);
	indirect->pattern->count = 0;
	indirect->pattern->access = 0;
	indirect->mr->entry->length = 0;
	change_end(indirect);
}

/* All rounds of the part lie in its region, which has the right that the key gives. */
static bool part_fits(const struct vb_mr *mr, const struct vb_pd *pd, const struct vb_umr *umr,
		      const struct vb_umr_part *part)
{
	uint64_t inside = part->addr - mr->iova, end;

	if (mr->indirect || mr->null || !vb_pd_same(mr->pd, pd) ||
	    (umr->access & WRITES && !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
		return false;
	return part->bytes && !__builtin_mul_overflow(umr->rounds - 1, part->stride, &end) &&
	       !__builtin_add_overflow(end, part->bytes, &end) && part->addr >= mr->iova &&
	       inside <= mr->length && end <= mr->length - inside;
}

static bool parts_check(struct vb_nic *nic, const struct vb_pd *pd, const struct vb_umr *umr,
			uint64_t *length)
{
	uint64_t round_bytes = 0;

	for (uint32_t i = 0; i < umr->count; i++) {
		const struct vb_mr *mr = vb_mr_by_lkey(nic, umr->parts[i].lkey);

		if (!mr || !part_fits(mr, pd, umr, &umr->parts[i]) ||
		    __builtin_add_overflow(round_bytes, umr->parts[i].bytes, &round_bytes))
			return false;
	}
	return umr->count && umr->rounds &&
	       !__builtin_mul_overflow(round_bytes, umr->rounds, length) &&
	       umr->base + *length >= umr->base;
}

static void fill(struct vb_nic *nic, struct vb_indirect *indirect, const struct vb_umr *umr,
		 uint64_t length)
{
	struct vb_pattern *pattern = indirect->pattern;
	uint64_t start = 0;

	change_begin(indirect);
	for (uint32_t i = 0; i < umr->count; i++) {
		const struct vb_umr_part *part = &umr->parts[i];
		const struct vb_mr *mr = vb_mr_by_lkey(nic, part->lkey);

		pattern->parts[i] = (struct vb_pattern_part){
			.start = start,
			.addr = mr->addr + (part->addr - mr->iova),
			.bytes = part->bytes,
			.stride = part->stride,
		};
		indirect->lkeys[i] = part->lkey;
		start += part->bytes;
	}
	pattern->count = umr->count;
	pattern->rounds = umr->rounds;
	pattern->round_bytes = start;
	pattern->access = umr->access;
	indirect->mr->entry->iova = umr->base;
	indirect->mr->entry->length = length;
	change_end(indirect);
}

bool vb_umr_fill(struct vb_nic *nic, const struct vb_pd *pd, const struct vb_umr *umr)
{
	struct vb_mr *mr;
	uint64_t length;
	bool done;

	vb_spin_lock(&nic->umr_lock);
	mr = vb_mr_by_lkey(nic, umr->lkey);
	done = mr && mr->indirect && vb_pd_same(mr->pd, pd) &&
	       (umr->empties ||
		(umr->count <= mr->indirect->room && parts_check(nic, pd, umr, &length)));
	if (done && umr->empties)
		empty(mr->indirect);
	else if (done)
		fill(nic, mr->indirect, umr, length);
	vb_spin_unlock(&nic->umr_lock);
	return done;
}

static bool names(const struct vb_indirect *indirect, uint32_t lkey)
{
	for (uint32_t i = 0; i < indirect->pattern->count; i++)
		if (indirect->lkeys[i] == lkey)
			return true;
	return false;
}

void vb_umr_forget(struct vb_mr *mr)
{
	vb_spin_lock(&mr->nic->umr_lock);
	vb_list_for(indirect, &mr->nic->indirects, struct vb_indirect, node)
		if (names(indirect, mr->ibv.lkey))
			empty(indirect);
	vb_spin_unlock(&mr->nic->umr_lock);
}

bool vb_umr_find(struct vb_nic *nic, const struct vb_pd *pd, const struct ibv_sge *sge,
		 unsigned access, struct vb_pieces *pieces)
{
	const struct vb_mr *mr = vb_mr_by_lkey(nic, sge->lkey);

	return mr && mr->indirect && vb_pd_same(mr->pd, pd) &&
	       vb_pattern_find(nic->self, mr->entry, sge->addr, sge->length, access, pieces);
}

struct vb_mr *vb_umr_region(struct vb_nic *nic, uint32_t lkey, uint64_t addr, uint64_t length)
{
	struct vb_mr *found = NULL, *mr;

	vb_spin_lock(&nic->umr_lock);
	mr = vb_mr_by_lkey(nic, lkey);
	for (uint32_t i = 0; mr && mr->indirect && i < mr->indirect->pattern->count; i++) {
		struct vb_mr *region = vb_mr_by_lkey(nic, mr->indirect->lkeys[i]);

		if (region && addr >= region->addr && addr - region->addr <= region->length &&
		    length <= region->length - (addr - region->addr))
			found = region;
	}
	vb_spin_unlock(&nic->umr_lock);
	return found;
}
