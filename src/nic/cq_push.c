/* SPDX-License-Identifier: BSD-2-Clause */
/* Loose completions: in nodes of their own, not in a ring. */
#include <stdlib.h>

#include "nic/cq.h"
#include "nic/nic.h"

bool vb_cq_push(struct vb_cq_queue *queue, struct vb_wc_node *node, bool solicited)
{
	struct vb_loose *loose = queue->loose;
	struct vb_cq *cq = queue->cq;
	uint32_t asks = vb_cq_own_asks(cq);

	if (!vb_cq_account(cq->shared)) {
		free(node);
		vb_peer_attend(cq->nic->self, VB_ATTN_CQ);
		return false;
	}
	vb_spin_lock(&loose->lock);
	if (asks & VB_CQ_ORDERED)
		node->stamp = vb_cq_stamp(cq->shared, asks);
	vb_list_append(&loose->nodes, &node->node);
	atomic_fetch_add(&loose->count, 1);
	if (asks & VB_CQ_NUMBERS)
		vb_cq_trail_mark(cq, node->stamp, queue->bit);
	vb_spin_unlock(&loose->lock);
	/* Full fence between the completion and vb_cq_notify's looks at ready_pages and the arm. */
	atomic_thread_fence(memory_order_seq_cst);
	vb_cq_notify(cq, queue->bit, solicited);
	return true;
}

void vb_loose_free(struct vb_loose *loose)
{
	vb_list_for(node, &loose->nodes, struct vb_wc_node, node)
		free(node);
}
