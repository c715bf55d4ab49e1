/* SPDX-License-Identifier: BSD-2-Clause */
/* Experimental verbs: regions, windows and indirect keys. */
#include <errno.h>
#include <stdlib.h>

#include "legacy.h"

enum {
	PLAIN = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
};

bool legacy_access(uint64_t exp_access, unsigned *access)
{
	const uint64_t known = PLAIN | IBV_EXP_ACCESS_MW_ZERO_BASED | IBV_EXP_ACCESS_ON_DEMAND |
			       IBV_EXP_ACCESS_RELAXED;

	*access = (unsigned)(exp_access & PLAIN);
	if (exp_access & IBV_EXP_ACCESS_ON_DEMAND)
		*access |= IBV_ACCESS_ON_DEMAND;
	if (exp_access & IBV_EXP_ACCESS_MW_ZERO_BASED)
		*access |= IBV_ACCESS_ZERO_BASED;
	if (exp_access & IBV_EXP_ACCESS_RELAXED)
		*access |= IBV_ACCESS_RELAXED_ORDERING;
	return !(exp_access & ~known);
}

static struct ibv_mr *no_mr(int err)
{
	errno = err;
	return NULL;
}

EXPORT struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	unsigned access;

	if (in->comp_mask >= IBV_EXP_REG_MR_RESERVED)
		return no_mr(EINVAL);
	/* Pages that lie side by side are worth nothing here, so that hint is no request. */
	if (in->comp_mask && in->create_flags & ~(uint32_t)IBV_EXP_REG_MR_CREATE_CONTIG)
		return no_mr(EINVAL);
	if (!legacy_access(in->exp_access, &access))
		return no_mr(EOPNOTSUPP);
	return ibv_reg_mr(in->pd, in->addr, in->length, access);
}

EXPORT int ibv_exp_prefetch_mr(struct ibv_mr *mr, struct ibv_exp_prefetch_attr *attr)
{
	struct ibv_sge sge;
	const bool writes = attr->flags & IBV_EXP_PREFETCH_WRITE_ACCESS;

	if (attr->comp_mask || attr->flags & ~(uint32_t)IBV_EXP_PREFETCH_WRITE_ACCESS ||
	    attr->length > UINT32_MAX)
		return legacy_result(EINVAL);
	sge = (struct ibv_sge){ (uintptr_t)attr->addr, (uint32_t)attr->length, mr->lkey };
	return legacy_result(ibv_advise_mr(mr->pd,
					   writes ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
						  : IBV_ADVISE_MR_ADVICE_PREFETCH,
					   IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
}

EXPORT int ibv_exp_bind_mw(struct ibv_exp_mw_bind *bind)
{
	struct ibv_mw_bind today = {
		.wr_id = bind->wr_id,
		.bind_info.mr = bind->bind_info.mr,
		.bind_info.addr = bind->bind_info.addr,
		.bind_info.length = bind->bind_info.length,
	};

	if (bind->comp_mask || bind->exp_send_flags >> 32)
		return legacy_result(EINVAL);
	today.send_flags = (unsigned)bind->exp_send_flags;
	if (!legacy_access(bind->bind_info.exp_mw_access_flags, &today.bind_info.mw_access_flags))
		return legacy_result(EOPNOTSUPP);
	return legacy_result(ibv_bind_mw(bind->qp, bind->mw, &today));
}

/* --- indirect keys --- */

EXPORT struct ibv_mr *ibv_exp_create_mr(struct ibv_exp_create_mr_in *in)
{
	const struct vb_engine_table *engine = legacy_engine();
	unsigned access;

	if (in->comp_mask)
		return no_mr(EINVAL);
	if (!engine || in->attr.create_flags != IBV_EXP_MR_INDIRECT_KLMS ||
	    !legacy_access(in->attr.exp_access_flags, &access))
		return no_mr(EOPNOTSUPP);
	return engine->extended_key(in->pd, in->attr.max_klm_list_size, access);
}

EXPORT int ibv_exp_query_mkey(struct ibv_mr *mr, struct ibv_exp_mkey_attr *attr)
{
	const struct vb_engine_table *engine = legacy_engine();
	uint32_t room = engine ? engine->extended_key_room(mr) : 0;

	if (attr->comp_mask || !room)
		return legacy_result(EINVAL);
	attr->max_klm_list_size = room;
	return 0;
}

EXPORT struct ibv_exp_mkey_list_container *
ibv_exp_alloc_mkey_list_memory(struct ibv_exp_mkey_list_container_attr *attr)
{
	struct ibv_exp_mkey_list_container *memory;

	if (attr->comp_mask || attr->mkey_list_type != IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR ||
	    !attr->max_klm_list_size || attr->max_klm_list_size > VB_PATTERN_PARTS_MAX) {
		errno = EINVAL;
		return NULL;
	}
	memory = calloc(1, sizeof(*memory)); /* a post copies the list to memory of the QP */
	if (memory)
		*memory = (struct ibv_exp_mkey_list_container){ attr->max_klm_list_size,
								attr->pd->context };
	return memory;
}

EXPORT int ibv_exp_dealloc_mkey_list_memory(struct ibv_exp_mkey_list_container *memory)
{
	free(memory);
	return 0;
}
