/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rendezvous: the message holds only the address of its data. The receiving QP reads the data into
 * the tagged buffer and tells the sender with a FIN. It posts two internal WQEs to its own send
 * queue for that. They make no completions, and do not count against the depth that the application
 * asked for.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/tm_types.h>
#include <string.h>

#include "nic/tm.h"

enum { ENTRIES = 64, EACH = 2 };

int vb_tm_sq_init(struct vb_sq *sq, const struct ibv_qp_cap *cap)
{
	uint32_t sges = cap->max_send_sge > VB_TM_SGE_MAX ? cap->max_send_sge : VB_TM_SGE_MAX;
	int err = vb_sq_init(sq, cap->max_send_wr + ENTRIES, sges, cap->max_inline_data);

	sq->depth = cap->max_send_wr;
	sq->sge_max = cap->max_send_sge;
	return err;
}

bool vb_tm_rndv_room(struct vb_qp *qp)
{
	return atomic_load(&qp->sq.internal) + EACH <= ENTRIES;
}

/* Under sq->lock. */
static struct vb_wqe *wqe_append(struct vb_sq *sq, enum vb_internal internal, uint8_t opcode)
{
	struct vb_wqe *wqe = vb_sq_wqe(sq, sq->tail++);

	memset(wqe, 0, sizeof(*wqe));
	wqe->internal = (uint8_t)internal;
	wqe->opcode = opcode;
	atomic_fetch_add(&sq->internal, 1);
	return wqe;
}

static void append_read(struct vb_sq *sq, struct vb_tag *tag, const struct vb_rendezvous *rndv)
{
	struct vb_wqe *wqe = wqe_append(sq, VB_INTERNAL_READ, IBV_WR_RDMA_READ);
	uint32_t left = rndv->length;

	wqe->wr_id = tag->recv_wr_id;
	wqe->operand[0] = (uintptr_t)tag;
	wqe->remote_addr = rndv->va;
	wqe->rkey = rndv->rkey;
	wqe->length = rndv->length;
	wqe->solicited = rndv->solicited;
	for (uint32_t i = 0; left && i < tag->sge_count; i++) {
		wqe->sge[i] = tag->sge[i];
		if (wqe->sge[i].length > left)
			wqe->sge[i].length = left;
		left -= wqe->sge[i].length;
		wqe->sge_count++;
	}
}

/* Fenced: the sender may use its buffer again as soon as it has the FIN. */
static void append_fin(struct vb_sq *sq, const struct vb_rendezvous *rndv)
{
	struct vb_wqe *wqe = wqe_append(sq, VB_INTERNAL_FIN, IBV_WR_SEND);
	const struct ibv_tmh header = {
		.opcode = IBV_TMH_FIN,
		.app_ctx = htobe32(rndv->app_ctx),
		.tag = htobe64(rndv->tag),
	};

	wqe->fenced = true;
	wqe->inlined = true;
	wqe->length = sizeof(header);
	memcpy(wqe->bytes, &header, sizeof(header));
}

void vb_tm_rndv_post(struct vb_qp *qp, struct vb_tag *tag, const struct vb_rendezvous *rndv)
{
	struct vb_sq *sq = &qp->sq;

	vb_spin_lock(&sq->lock);
	append_read(sq, tag, rndv);
	append_fin(sq, rndv);
	vb_spin_unlock(&sq->lock);
}

void vb_tm_rndv_done(struct vb_qp *qp, const struct vb_wqe *wqe)
{
	const struct vb_tm_message message = {
		.length = wqe->length,
		.qpn = qp->ibv.qp_num,
		.src_qpn = qp->attr.dest_qp_num,
		.wc_flags = wqe->status == IBV_WC_SUCCESS ? IBV_WC_TM_DATA_VALID : 0,
		.solicited = wqe->solicited,
	};

	if (wqe->internal == VB_INTERNAL_READ)
		vb_tm_received(qp->srq->tm, (struct vb_tag *)(uintptr_t)wqe->operand[0], &message,
			       wqe->status, wqe->reason);
}

/* The WQE makes no completion: it may be scanned without a poll. */
static bool is_silent(const struct vb_wqe *wqe)
{
	return wqe->internal || (!wqe->signaled && wqe->status == IBV_WC_SUCCESS);
}

void vb_tm_rndv_retire(struct vb_qp *qp)
{
	struct vb_sq *sq = &qp->sq;

	vb_spin_lock(&qp->send_cq->poll_lock);
	while (sq->scanned != atomic_load(&sq->done) && is_silent(vb_sq_wqe(sq, sq->scanned))) {
		if (vb_sq_wqe(sq, sq->scanned++)->internal)
			vb_sq_retire_internal(sq);
	}
	vb_spin_unlock(&qp->send_cq->poll_lock);
}

void vb_tm_rndv_forget(struct vb_qp *qp)
{
	struct vb_sq *sq = &qp->sq;

	for (uint32_t i = sq->next; i != sq->tail; i++) {
		struct vb_wqe *wqe = vb_sq_wqe(sq, i);

		wqe->status = IBV_WC_WR_FLUSH_ERR;
		if (wqe->internal)
			vb_tm_rndv_done(qp, wqe);
	}
}
