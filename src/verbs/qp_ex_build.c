/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that build work requests, and the calls that begin and end a batch of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/result.h"
#include "exec/flush.h"
#include "nic/wq.h"
#include "verbs/qp_ex.h"
#include "wire/opcode.h"

static struct vb_qp *qp_of(struct ibv_qp_ex *ex)
{
	return vb_container(ex, struct vb_qp, ex);
}

/* The first error counts; calls after it do nothing. */
static void fail_batch(struct ibv_qp_ex *ex, int err, const char *why)
{
	struct vb_builder *builder = qp_of(ex)->builder;

	if (builder->err)
		return;
	builder->err = err;
	builder->now = NULL;
	vb_explain("ibv_wr_complete: QP 0x%06x wr_id %llu: %s", ex->qp_base.qp_num,
		   (unsigned long long)ex->wr_id, why);
}

/* --- the batch --- */

static int grow_list(struct vb_builder *builder)
{
	uint32_t room = builder->room ? 2 * builder->room : 16;
	uint8_t *list = realloc(builder->list, (size_t)room * builder->stride);

	if (!list)
		return -ENOMEM;
	builder->list = list;
	builder->room = room;
	return 0;
}

static void start_batch(struct ibv_qp_ex *ex)
{
	struct vb_builder *builder = qp_of(ex)->builder;

	if (!builder->single_threaded)
		vb_spin_lock(&builder->lock);
	builder->count = 0;
	builder->err = 0;
	builder->now = NULL;
}

static void end_batch(struct vb_builder *builder)
{
	builder->count = 0;
	builder->now = NULL;
	if (!builder->single_threaded)
		vb_spin_unlock(&builder->lock);
}

/* At the end: from now on the list does not move. */
static void link_all(struct vb_builder *builder)
{
	for (uint32_t i = 0; i < builder->count; i++) {
		struct vb_built *built = vb_builder_at(builder, i);
		bool last = i + 1 == builder->count;

		built->wr.next = last ? NULL : &vb_builder_at(builder, i + 1)->wr;
		built->wr.sg_list = built->sge;
		if (built->wr.send_flags & IBV_SEND_INLINE)
			built->sge[0].addr = (uintptr_t)(built->sge + 1);
		if (built->wr.opcode == IBV_WR_TSO)
			built->wr.tso.hdr =
				(uint8_t *)built + builder->stride - builder->header_max;
	}
}

struct ibv_send_wr *vb_builder_list(struct ibv_qp_ex *ex)
{
	struct vb_builder *builder = qp_of(ex)->builder;

	if (builder->err || !builder->count)
		return NULL;
	link_all(builder);
	return &vb_builder_at(builder, 0)->wr;
}

static int complete_batch(struct ibv_qp_ex *ex)
{
	struct vb_builder *builder = qp_of(ex)->builder;
	int err = vb_return_errno_of("ibv_wr_complete", builder->err);

	if (!err && builder->count) {
		link_all(builder);
		err = -vb_post_whole(qp_of(ex), &vb_builder_at(builder, 0)->wr); /* sets errno */
	}
	end_batch(builder);
	vb_explained = false; /* the batch has no guard */
	return err;
}

static void abort_batch(struct ibv_qp_ex *ex)
{
	end_batch(qp_of(ex)->builder);
}

/* --- operations --- */

static struct ibv_send_wr *begin_wr(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct vb_builder *builder = qp_of(ex)->builder;
	struct vb_built *built;

	if (builder->err)
		return NULL;
	if (!(builder->ops & vb_wr_row_any(opcode)->create_flag))
		fail_batch(ex, -EINVAL,
			   "the QP was not created for the operation (send_ops_flags)");
	else if (builder->count == builder->room && grow_list(builder))
		fail_batch(ex, -ENOMEM, "no memory for another work request");
	if (builder->err)
		return NULL;
	built = vb_builder_at(builder, builder->count++);
	built->wr = (struct ibv_send_wr){
		.wr_id = ex->wr_id,
		.opcode = opcode,
		/* A setter decides about inlining. */
		.send_flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE,
	};
	builder->now = built;
	return &built->wr;
}

static void send_plain(struct ibv_qp_ex *ex)
{
	begin_wr(ex, IBV_WR_SEND);
}

static void send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	struct ibv_send_wr *wr = begin_wr(ex, IBV_WR_SEND_WITH_IMM);

	if (wr)
		wr->imm_data = imm_data;
}

static void send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct ibv_send_wr *wr = begin_wr(ex, IBV_WR_SEND_WITH_INV);

	if (wr)
		wr->invalidate_rkey = rkey;
}

/* At the end of the work request: the application may change its own copy with the next one. */
static uint8_t *header_at(const struct vb_builder *builder, struct vb_built *built)
{
	return (uint8_t *)built + builder->stride - builder->header_max;
}

static void send_tso(struct ibv_qp_ex *ex, void *header, uint16_t header_size, uint16_t mss)
{
	struct ibv_send_wr *wr = begin_wr(ex, IBV_WR_TSO);

	if (!wr)
		return;
	if (header_size > qp_of(ex)->builder->header_max) {
		fail_batch(ex, -EINVAL, "a longer header than max_tso_header");
		return;
	}
	memcpy(header_at(qp_of(ex)->builder, qp_of(ex)->builder->now), header, header_size);
	wr->tso.hdr_sz = header_size;
	wr->tso.mss = mss;
}

static struct ibv_send_wr *begin_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode,
				      uint32_t rkey, uint64_t remote_addr)
{
	struct ibv_send_wr *wr = begin_wr(ex, opcode);

	if (wr) {
		wr->wr.rdma.rkey = rkey;
		wr->wr.rdma.remote_addr = remote_addr;
	}
	return wr;
}

static void rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			   __be32 imm_data)
{
	struct ibv_send_wr *wr = begin_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

	if (wr)
		wr->imm_data = imm_data;
}

static void begin_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
			 uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = begin_wr(ex, opcode);

	if (!wr)
		return;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			   uint64_t compare, uint64_t swap)
{
	begin_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void atomic_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	begin_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

static void bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		    const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = begin_wr(ex, IBV_WR_BIND_MW);

	if (!wr)
		return;
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct ibv_send_wr *wr = begin_wr(ex, IBV_WR_LOCAL_INV);

	if (wr)
		wr->invalidate_rkey = rkey;
}

/* The operands have the places of those of atomics: struct ibv_send_wr has none for FLUSH. The
 * length of a packet has 32 bits; for a whole region it means nothing. */
static void flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t length,
		  uint8_t type, uint8_t level)
{
	const unsigned types = IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT;

	if (length > UINT32_MAX && level == IBV_FLUSH_MR)
		length = UINT32_MAX;
	begin_atomic(ex, IBV_WR_FLUSH, rkey, remote_addr, length,
		     type | (uint64_t)level << VB_FLUSH_SELECT_SHIFT);
	if (!type || type & ~types || level > IBV_FLUSH_MR)
		fail_batch(ex, -EINVAL, "FLUSH has no such placement type or selectivity level");
	else if (length > UINT32_MAX)
		fail_batch(ex, -EINVAL, "FLUSH has a range of up to 4 GB - 1");
}

/* --- setters --- */

static struct vb_built *current_wr(struct ibv_qp_ex *ex)
{
	struct vb_built *built = qp_of(ex)->builder->now;

	if (!built)
		fail_batch(ex, -EINVAL, "a setter has no operation before it");
	return built;
}

static void set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			uint32_t remote_qkey)
{
	struct vb_built *built = current_wr(ex);

	if (!built)
		return;
	built->wr.wr.ud.ah = ah;
	built->wr.wr.ud.remote_qpn = remote_qpn;
	built->wr.wr.ud.remote_qkey = remote_qkey;
}

static void set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct vb_built *built = current_wr(ex);

	if (built)
		built->wr.qp_type.xrc.remote_srqn = remote_srqn;
}

static void set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
	struct vb_built *built = current_wr(ex);

	if (!built)
		return;
	if (count > qp_of(ex)->sq.sge_max) {
		fail_batch(ex, -EINVAL, "more SGEs than max_send_sge");
		return;
	}
	memcpy(built->sge, list, count * sizeof(*list));
	built->wr.num_sge = (int)count;
}

static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = { addr, length, lkey };

	set_sge_list(ex, 1, &sge);
}

static void set_inline_data_list(struct ibv_qp_ex *ex, size_t count,
				 const struct ibv_data_buf *list)
{
	struct vb_built *built = current_wr(ex);
	uint32_t max = qp_of(ex)->sq.inline_max, length = 0;

	if (!built)
		return;
	for (size_t i = 0; i < count; i++) {
		if (list[i].length > max - length) {
			fail_batch(ex, -EINVAL, "more inline data than max_inline_data");
			return;
		}
		memcpy((uint8_t *)(built->sge + 1) + length, list[i].addr, list[i].length);
		length += (uint32_t)list[i].length;
	}
	built->sge[0] = (struct ibv_sge){ .length = length };
	built->wr.num_sge = 1;
	built->wr.send_flags |= IBV_SEND_INLINE;
}

static void set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf buffer = { .addr = addr, .length = length };

	set_inline_data_list(ex, 1, &buffer);
}

static void atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			 const void *value)
{
	struct ibv_send_wr *wr = begin_rdma(ex, IBV_WR_ATOMIC_WRITE, rkey, remote_addr);
	struct vb_built *built = qp_of(ex)->builder->now;

	if (!wr)
		return;
	memcpy(built->sge + 1, value, VB_ATOMIC_WRITE_LENGTH);
	built->sge[0] = (struct ibv_sge){ .length = VB_ATOMIC_WRITE_LENGTH };
	wr->num_sge = 1;
	wr->send_flags |= IBV_SEND_INLINE;
}

/* --- the table --- */

static void fill_table(struct ibv_qp_ex *ex)
{
	ex->wr_start = start_batch;
	ex->wr_complete = complete_batch;
	ex->wr_abort = abort_batch;
	ex->wr_send = send_plain;
	ex->wr_send_imm = send_imm;
	ex->wr_send_inv = send_inv;
	ex->wr_send_tso = send_tso;
	ex->wr_rdma_read = rdma_read;
	ex->wr_rdma_write = rdma_write;
	ex->wr_rdma_write_imm = rdma_write_imm;
	ex->wr_atomic_cmp_swp = atomic_cmp_swp;
	ex->wr_atomic_fetch_add = atomic_add;
	ex->wr_atomic_write = atomic_write;
	ex->wr_bind_mw = bind_mw;
	*vb_qp_ex_wr_flush(ex) = flush;
	ex->wr_local_inv = local_inv;
	ex->wr_set_ud_addr = set_ud_addr;
	ex->wr_set_xrc_srqn = set_xrc_srqn;
	ex->wr_set_sge = set_sge;
	ex->wr_set_sge_list = set_sge_list;
	ex->wr_set_inline_data = set_inline_data;
	ex->wr_set_inline_data_list = set_inline_data_list;
}

int vb_builder_create(struct vb_qp *qp, uint64_t ops)
{
	struct vb_builder *builder = calloc(1, sizeof(*builder));
	uint32_t elements = qp->sq.sge_max * (uint32_t)sizeof(struct ibv_sge);
	uint32_t inline_max = qp->sq.inline_max > VB_ATOMIC_WRITE_LENGTH ? qp->sq.inline_max
									 : VB_ATOMIC_WRITE_LENGTH;
	uint32_t inlined = (uint32_t)sizeof(struct ibv_sge) + inline_max;

	if (!builder)
		return -ENOMEM;
	builder->ops = ops;
	builder->single_threaded = vb_pd_single_threaded(qp->pd);
	builder->header_max = qp->raw ? (qp->raw->tso_header_max + 7) & ~7u : 0;
	builder->stride = ((uint32_t)offsetof(struct vb_built, sge) + builder->header_max +
			   (elements > inlined ? elements : inlined) + 7) &
			  ~7u;
	qp->builder = builder;
	fill_table(&qp->ex);
	return 0;
}

void vb_builder_destroy(struct vb_builder *builder)
{
	if (builder)
		free(builder->list);
	free(builder);
}
