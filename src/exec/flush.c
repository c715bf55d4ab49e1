/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/flush.h"

#include "exec/rkey.h"
#include "nic/mr.h"

/* The access flags that a QP and a region must have; 0: no such kind of placement. */
static unsigned access_needed(uint32_t feth)
{
	uint32_t types = feth & VB_FLUSH_TYPES;

	if (!types || types & ~(uint32_t)(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT))
		return 0;
	return (types & IBV_FLUSH_GLOBAL ? IBV_ACCESS_FLUSH_GLOBAL : 0) |
	       (types & IBV_FLUSH_PERSISTENT ? IBV_ACCESS_FLUSH_PERSISTENT : 0);
}

static enum vb_reason check_key(struct vb_peer *target, struct vb_key_cache *cache, uint32_t pd,
				uint32_t qpn, const struct vb_flush *flush, unsigned access)
{
	const struct vb_key_entry *region;
	uint64_t va = flush->va, length = flush->length, address;

	if (flush->feth >> VB_FLUSH_SELECT_SHIFT == IBV_FLUSH_MR) {
		/* The request means the whole region: its range is ignored. */
		region = vb_peer_key(target, flush->rkey, true);
		va = region ? region->iova : 0;
		length = 0;
	} else if (!length) { /* without bytes the key is ignored */
		return VB_OK;
	}
	return vb_rkey_check(target, cache, pd, qpn, flush->rkey, va, length, access, &address);
}

enum vb_reason vb_flush_apply(struct vb_peer *target, struct vb_key_cache *cache, uint32_t pd,
			      uint32_t qpn, const struct vb_flush *flush)
{
	unsigned access = access_needed(flush->feth);
	enum vb_reason reason;

	if (!access || flush->feth >> VB_FLUSH_SELECT_SHIFT > IBV_FLUSH_MR)
		return VB_WHY_FLUSH_KIND;
	if (access & ~flush->qp_access)
		return VB_WHY_QP_RIGHT;
	reason = check_key(target, cache, pd, qpn, flush, access);
	if (!reason)
		atomic_thread_fence(memory_order_seq_cst);
	return reason;
}
