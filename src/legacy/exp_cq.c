/* SPDX-License-Identifier: BSD-2-Clause */
/* Experimental verbs: completion queues. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "legacy.h"

enum { BATCH = 16 };

/* CQs that carry times are polled in another way. While there was none no poll has to ask. */
static atomic_bool any_stamped;

static uint32_t flags_of(const struct ibv_exp_cq_init_attr *attr)
{
	return attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_FLAGS ? attr->flags : 0;
}

static struct ibv_cq *create_stamped(struct ibv_context *context, int cqe, void *cq_context,
				     struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq_init_attr_ex today = {
		.cqe = (uint32_t)cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &today);

	if (cq)
		atomic_store(&any_stamped, true);
	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

/* The CQ, whose completions work requests may wait for; NULL and errno. */
static struct ibv_cq *make_awaited(struct ibv_cq *cq)
{
	const struct vb_engine_table *engine = legacy_engine();
	int err = engine ? -engine->extended_cq(cq, false) : EOPNOTSUPP;

	if (!err)
		return cq;
	ibv_destroy_cq(cq);
	errno = err;
	return NULL;
}

EXPORT struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
					struct ibv_comp_channel *channel, int comp_vector,
					struct ibv_exp_cq_init_attr *attr)
{
	const uint32_t flags = flags_of(attr);
	struct ibv_cq *cq;

	if (attr->comp_mask >= IBV_EXP_CQ_INIT_ATTR_RESERVED1 || cqe < 1) {
		errno = EINVAL;
		return NULL;
	}
	if (attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT ||
	    flags & ~(uint32_t)(IBV_EXP_CQ_TIMESTAMP | IBV_EXP_CQ_COMPRESSED_CQE |
				IBV_EXP_CQ_CREATE_CROSS_CHANNEL)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (flags & IBV_EXP_CQ_TIMESTAMP)
		cq = create_stamped(context, cqe, cq_context, channel, comp_vector);
	else
		cq = ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
	return cq && flags & IBV_EXP_CQ_CREATE_CROSS_CHANNEL ? make_awaited(cq) : cq;
}

static int modify_flags(struct ibv_cq *cq, uint32_t flags)
{
	const struct vb_engine_table *engine = legacy_engine();

	if (flags & ~(uint32_t)IBV_EXP_CQ_IGNORE_OVERRUN)
		return EINVAL;
	if (!engine || !flags) /* no CQ goes back to the other kind */
		return EOPNOTSUPP;
	return -engine->extended_cq(cq, true);
}

EXPORT int ibv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int attr_mask)
{
	struct ibv_modify_cq_attr today = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { attr->moderation.cq_count, attr->moderation.cq_period },
	};
	int err = 0;

	if (attr->comp_mask >= IBV_EXP_CQ_ATTR_RESERVED ||
	    attr_mask & ~(IBV_EXP_CQ_MODERATION | IBV_EXP_CQ_CAP_FLAGS))
		return legacy_result(EINVAL);
	if (attr_mask & IBV_EXP_CQ_CAP_FLAGS)
		err = modify_flags(cq, attr->cq_cap_flags);
	if (!err && attr_mask & IBV_EXP_CQ_MODERATION)
		err = ibv_modify_cq(cq, &today);
	return legacy_result(err);
}

/* --- polling --- */

/* The extended opcode of a good completion is in vendor_err (nic/wr_opcode.h). */
static enum ibv_exp_wc_opcode opcode_of(const struct ibv_wc *wc)
{
	switch (wc->status == IBV_WC_SUCCESS ? wc->vendor_err >> VB_WR_EXTENDED_SHIFT : 0) {
	case VB_WR_MASKED_CMP_AND_SWP:
		return IBV_EXP_WC_MASKED_COMP_SWAP;
	case VB_WR_MASKED_FETCH_AND_ADD:
		return IBV_EXP_WC_MASKED_FETCH_ADD;
	case VB_WR_UMR:
		return IBV_EXP_WC_UMR;
	case VB_WR_NOP:
		return IBV_EXP_WC_NOP;
	}
	return wc->opcode == IBV_WC_TSO ? IBV_EXP_WC_TSO : (enum ibv_exp_wc_opcode)wc->opcode;
}

static struct ibv_exp_wc translate(const struct ibv_wc *wc)
{
	return (struct ibv_exp_wc){
		.wr_id = wc->wr_id,
		.status = wc->status,
		.exp_opcode = opcode_of(wc),
		.vendor_err = wc->vendor_err & ((1u << VB_WR_EXTENDED_SHIFT) - 1),
		.byte_len = wc->byte_len,
		.imm_data = wc->imm_data,
		.qp_num = wc->qp_num,
		.src_qp = wc->src_qp,
		.pkey_index = wc->pkey_index,
		.slid = wc->slid,
		.sl = wc->sl,
		.dlid_path_bits = wc->dlid_path_bits,
		.exp_wc_flags = wc->wc_flags,
	};
}

/* The caller's struct may be shorter than ours, or longer. */
static void put_at(struct ibv_exp_wc *to, int index, const struct ibv_exp_wc *wc, uint32_t size)
{
	char *at = (char *)to + (size_t)index * size;

	memset(at, 0, size);
	memcpy(at, wc, size < sizeof(*wc) ? size : sizeof(*wc));
}

static int poll_plain(struct ibv_cq *cq, int count, struct ibv_exp_wc *to, uint32_t size)
{
	struct ibv_wc wc[BATCH];
	int got = 0, more;

	do {
		more = ibv_poll_cq(cq, count - got < BATCH ? count - got : BATCH, wc);
		for (int i = 0; i < more; i++) {
			const struct ibv_exp_wc one = translate(&wc[i]);

			put_at(to, got + i, &one, size);
		}
		got += more > 0 ? more : 0;
	} while (more == BATCH && got < count);
	return more < 0 && !got ? more : got;
}

static struct ibv_exp_wc read_stamped(struct ibv_cq_ex *cq)
{
	const struct ibv_wc wc = {
		.wr_id = cq->wr_id,
		.status = cq->status,
		.opcode = ibv_wc_read_opcode(cq),
		.vendor_err = ibv_wc_read_vendor_err(cq),
		.byte_len = ibv_wc_read_byte_len(cq),
		.imm_data = ibv_wc_read_imm_data(cq),
		.qp_num = ibv_wc_read_qp_num(cq),
		.src_qp = ibv_wc_read_src_qp(cq),
		.wc_flags = ibv_wc_read_wc_flags(cq),
		.slid = (uint16_t)ibv_wc_read_slid(cq),
		.sl = ibv_wc_read_sl(cq),
		.dlid_path_bits = ibv_wc_read_dlid_path_bits(cq),
	};
	struct ibv_exp_wc one = translate(&wc);

	one.timestamp = ibv_wc_read_completion_ts(cq);
	one.exp_wc_flags |= IBV_EXP_WC_WITH_TIMESTAMP;
	return one;
}

static int poll_stamped(struct ibv_cq_ex *cq, int count, struct ibv_exp_wc *to, uint32_t size)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int got = 0, err = ibv_start_poll(cq, &attr);

	if (err)
		return err == ENOENT ? 0 : -1;
	do {
		const struct ibv_exp_wc one = read_stamped(cq);

		put_at(to, got++, &one, size);
	} while (got < count && !ibv_next_poll(cq));
	ibv_end_poll(cq);
	return got;
}

EXPORT int ibv_exp_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_exp_wc *wc,
			   uint32_t wc_size)
{
	const struct vb_engine_table *engine;
	struct ibv_cq_ex *stamped = NULL;

	if (num_entries < 1)
		return 0;
	if (atomic_load_explicit(&any_stamped, memory_order_relaxed)) {
		engine = legacy_engine();
		stamped = engine ? engine->extended_stamped(cq) : NULL;
	}
	return stamped ? poll_stamped(stamped, num_entries, wc, wc_size)
		       : poll_plain(cq, num_entries, wc, wc_size);
}
