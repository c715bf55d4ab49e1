/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives that failed. Their owner explains them: the sender may be another program. */
#include <pthread.h>
#include <stdio.h>

#include "base/config.h"
#include "base/log.h"
#include "nic/far_words.h"
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

/* Writes the words of a status; text has others already, for memory that no key explains. */
static void status_words(const struct vb_rq *rq, const struct vb_recv_wqe *twin,
			 const struct ibv_wc *wc, char text[VB_KEY_WORDS])
{
	switch (wc->status) {
	case IBV_WC_LOC_LEN_ERR: /* the length of a message in packets is known at its end only */
		if (wc->byte_len > twin->length)
			snprintf(text, VB_KEY_WORDS,
				 "the receive has room for %u bytes, and %u came", twin->length,
				 wc->byte_len);
		else
			snprintf(text, VB_KEY_WORDS,
				 "the receive has room for %u bytes, and more came", twin->length);
		break;
	case IBV_WC_LOC_PROT_ERR:
		key_words(rq, twin, text);
		break;
	case IBV_WC_LOC_ACCESS_ERR:
		snprintf(text, VB_KEY_WORDS,
			 "the message was a WRITE with immediate data, and its rkey was refused");
		break;
	case IBV_WC_REM_INV_REQ_ERR:
		snprintf(text, VB_KEY_WORDS,
			 "the message told to invalidate an rkey that is none of its windows");
		break;
	case IBV_WC_GENERAL_ERR:
		snprintf(text, VB_KEY_WORDS,
			 "its completion makes no sense: a process that shares the queue's memory "
			 "has damaged it");
		break;
	default:
		snprintf(text, VB_KEY_WORDS, "the receive failed with status %d", wc->status);
	}
}

enum { SENDER_WORDS = 32 + VB_FAR_WORDS };

/* Writes ", for a message of QP 0x2a1003 (pid 4711, rping)". */
static void sender_words(const struct vb_rq *rq, const struct ibv_wc *wc, char text[SENDER_WORDS])
{
	const bool xrc = rq->srq && rq->srq->xrcd;
	const bool guarded = !xrc || !pthread_mutex_trylock(&rq->nic->lock);
	/* The poll's lock keeps the QP. That of an XRC SRQ does not: the lock of the NIC does. */
	const struct vb_qp *qp = guarded ? vb_nic_qp(rq->nic, wc->qp_num) : NULL;
	const uint32_t src = qp && qp->type != IBV_QPT_UD ? vb_far_qpn(qp, NULL) : wc->src_qp;
	char far[VB_FAR_WORDS] = "";

	if (qp)
		vb_far_words(qp, NULL, far);
	if (xrc && guarded)
		pthread_mutex_unlock(&rq->nic->lock);
	snprintf(text, SENDER_WORDS, ", for a message of QP 0x%06x%s", src, far);
}

void vb_rq_explain(const struct vb_rq *rq, const struct vb_recv_wqe *twin, const struct ibv_wc *wc)
{
	char text[VB_KEY_WORDS] = "its memory is not mapped, or may not be written";
	char sender[SENDER_WORDS] = "";

	if (wc->status == IBV_WC_SUCCESS || wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	if (vb_config_explain()) {
		status_words(rq, twin, wc, text);
		sender_words(rq, wc, sender);
	}
	vb_explain_work("QP 0x%06x, receive wr_id %llu%s: %s", wc->qp_num,
			(unsigned long long)wc->wr_id, sender, text);
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
