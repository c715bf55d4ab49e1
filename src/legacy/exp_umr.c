/* SPDX-License-Identifier: BSD-2-Clause */
/* Experimental verbs: work requests that fill and empty indirect keys. */
#include <errno.h>
#include <stdlib.h>

#include "legacy.h"

static void put_list(const struct ibv_exp_send_wr *wr, struct vb_umr *umr)
{
	const struct ibv_exp_mem_region *list = wr->ext_op.umr.mem_list.mem_reg_list;

	umr->rounds = 1;
	for (uint32_t i = 0; i < umr->count; i++)
		umr->parts[i] = (struct vb_umr_part){
			.addr = list[i].base_addr,
			.bytes = list[i].length,
			.lkey = list[i].mr ? list[i].mr->lkey : 0,
		};
}

static void put_pattern(const struct ibv_exp_send_wr *wr, struct vb_umr *umr)
{
	const struct ibv_exp_mem_repeat_block *list =
		wr->ext_op.umr.mem_list.rb.mem_repeat_block_list;

	umr->rounds = wr->ext_op.umr.mem_list.rb.repeat_count[0];
	for (uint32_t i = 0; i < umr->count; i++)
		umr->parts[i] = (struct vb_umr_part){
			.addr = list[i].base_addr,
			.bytes = list[i].byte_count[0],
			.stride = list[i].stride[0],
			.lkey = list[i].mr ? list[i].mr->lkey : 0,
		};
}

/* The error of the list itself, before its entries are looked at; 0: none. */
static int check(const struct ibv_exp_send_wr *wr)
{
	const uint32_t count = wr->ext_op.umr.num_mrs;
	const struct ibv_exp_mkey_list_container *memory = wr->ext_op.umr.memory_objects;

	if (!wr->ext_op.umr.modified_mr || !count || count > VB_PATTERN_PARTS_MAX)
		return EINVAL;
	if (!(wr->exp_send_flags & IBV_EXP_SEND_INLINE) &&
	    (!memory || count > memory->max_klm_list_size))
		return EINVAL;
	if (wr->ext_op.umr.umr_type == IBV_EXP_UMR_MR_LIST)
		return 0;
	if (wr->ext_op.umr.umr_type != IBV_EXP_UMR_REPEAT ||
	    wr->ext_op.umr.mem_list.rb.stride_dim != 1)
		return EOPNOTSUPP;
	return wr->ext_op.umr.mem_list.rb.repeat_count[0] ? 0 : EINVAL;
}

int legacy_umr(const struct ibv_exp_send_wr *wr, struct vb_umr **out)
{
	const bool empties = wr->exp_opcode == IBV_EXP_WR_UMR_INVALIDATE;
	const uint32_t count = empties ? 0 : wr->ext_op.umr.num_mrs;
	struct vb_umr *umr;
	unsigned access = 0;
	int err = empties ? wr->ext_op.umr.modified_mr ? 0 : EINVAL : check(wr);

	if (err)
		return err;
	if (!empties && !legacy_access(wr->ext_op.umr.exp_access, &access))
		return EOPNOTSUPP;
	umr = calloc(1, sizeof(*umr) + (size_t)count * sizeof(umr->parts[0]));
	if (!umr)
		return ENOMEM;
	umr->lkey = wr->ext_op.umr.modified_mr->lkey;
	umr->empties = empties;
	umr->access = access;
	umr->base = wr->ext_op.umr.base_addr;
	umr->count = count;
	if (!empties && wr->ext_op.umr.umr_type == IBV_EXP_UMR_REPEAT)
		put_pattern(wr, umr);
	else if (!empties)
		put_list(wr, umr);
	*out = umr;
	return 0;
}
