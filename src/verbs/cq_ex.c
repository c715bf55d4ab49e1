/* SPDX-License-Identifier: BSD-2-Clause */
/* The extended completion queue: the same poll, one completion at a time, field by field. */
#include "nic/cq.h"
#include "base/log.h"
#include "engine/engine.h"
#include "verbs/ops.h"
#include "verbs/result.h"

enum {
	WC_FLAGS_KNOWN = IBV_WC_STANDARD_FLAGS,
};

static struct vb_cq *of(struct ibv_cq_ex *ex)
{
	return vb_container(ex, struct vb_cq, ex);
}

static int advance(struct ibv_cq_ex *ex)
{
	struct vb_cq *cq = of(ex);
	int got = vb_ops_poll_cq(&cq->ibv, 1, &cq->wc);

	if (got < 0)
		return -got;
	if (!got)
		return ENOENT;
	ex->wr_id = cq->wc.wr_id;
	ex->status = cq->wc.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	return attr->comp_mask ? EINVAL : advance(ex);
}

static void end_poll(struct ibv_cq_ex *ex)
{
	(void)ex;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.dlid_path_bits;
}

struct ibv_cq_ex *vb_ops_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	const struct vb_cq_spec spec = {
		.cqe = (int)attr->cqe,
		.cq_context = attr->cq_context,
		.channel = attr->channel ? vb_channel(attr->channel) : NULL,
		.comp_vector = (int)attr->comp_vector,
	};
	struct vb_cq *cq;
	int err;

	if (attr->comp_mask || attr->wc_flags & ~(uint64_t)WC_FLAGS_KNOWN) {
		vb_explain("ibv_create_cq_ex: timestamps, flow tags and the like are not supported "
			   "(wc_flags 0x%llx, comp_mask 0x%x)", (unsigned long long)attr->wc_flags,
			   attr->comp_mask);
		return vb_return_null(-EOPNOTSUPP);
	}
	err = attr->cqe > VB_CQE_MAX ? -EINVAL : vb_cq_create(context, &spec, &cq);
	if (err)
		return vb_return_null(err);
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = advance;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_imm_data = read_imm_data;
	cq->ex.read_qp_num = read_qp_num;
	cq->ex.read_src_qp = read_src_qp;
	cq->ex.read_wc_flags = read_wc_flags;
	cq->ex.read_slid = read_slid;
	cq->ex.read_sl = read_sl;
	cq->ex.read_dlid_path_bits = read_dlid_path_bits;
	return &cq->ex;
}
