/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives that failed. Their owner explains them: the sender may be another program. */
#include <stdio.h>

#include "base/config.h"
#include "base/log.h"
#include "nic/key_words.h"
#include "nic/rq.h"

static bool key_words(const struct vb_rq *rq, const struct vb_recv_wqe *twin,
		      char text[VB_KEY_WORDS])
{
	for (unsigned i = 0; i < twin->sge_count; i++) {
		const struct vb_key_use use = { .home = rq->nic->self,
						.key = twin->sge[i].lkey,
						.by_process = true,
						.pd = rq->pd->id,
						.addr = twin->sge[i].addr,
						.length = twin->sge[i].length,
						.access = IBV_ACCESS_LOCAL_WRITE };

		if (twin->sge[i].length && vb_key_words(&use, text))
			return true;
	}
	return false;
}

void vb_rq_explain(const struct vb_rq *rq, const struct vb_recv_wqe *twin, const struct ibv_wc *wc)
{
	char text[VB_KEY_WORDS] = "its memory is not mapped, or may not be written";

	switch (wc->status) {
	case IBV_WC_SUCCESS:
	case IBV_WC_WR_FLUSH_ERR:
		return;
	case IBV_WC_LOC_LEN_ERR:
		snprintf(text, sizeof(text), "a message of more than its %u bytes came",
			 twin->length);
		break;
	case IBV_WC_LOC_PROT_ERR:
		if (vb_config_explain())
			key_words(rq, twin, text);
		break;
	case IBV_WC_LOC_ACCESS_ERR:
		snprintf(text, sizeof(text), "a WRITE with immediate data was refused: its rkey");
		break;
	case IBV_WC_REM_INV_REQ_ERR:
		snprintf(text, sizeof(text), "the message told to invalidate an rkey that is none");
		break;
	case IBV_WC_GENERAL_ERR:
		snprintf(text, sizeof(text),
			 "its completion makes no sense: a process that shares the queue's memory "
			 "has damaged it");
		break;
	default:
		snprintf(text, sizeof(text), "it failed with status %d", wc->status);
	}
	vb_explain_work("QP 0x%06x, receive wr_id %llu: %s", wc->qp_num,
			(unsigned long long)wc->wr_id, text);
}

void vb_rq_unplaced(const struct vb_rq *rq, const struct vb_recv_wqe *twin, struct ibv_wc *wc)
{
	wc->status = IBV_WC_LOC_PROT_ERR;
	vb_rq_explain(rq, twin, wc);
}

void vb_rq_damaged(const struct vb_rq *rq, const struct vb_recv_wqe *twin, struct ibv_wc *wc)
{
	wc->status = IBV_WC_GENERAL_ERR;
	wc->vendor_err = 0;
	wc->byte_len = 0;
	wc->wc_flags = 0;
	vb_rq_explain(rq, twin, wc);
}
