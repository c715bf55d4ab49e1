/* SPDX-License-Identifier: BSD-2-Clause */
/* Loose completions: in nodes of their own, not in a ring. */
#include <stdlib.h>

#include "base/annotate.h"
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

static struct vb_wc_node *first_node(const struct vb_loose *loose)
{
	return vb_list_element(loose->nodes.next, &loose->nodes, struct vb_wc_node, node);
}

uint64_t vb_loose_peek(struct vb_loose *loose)
{
	uint64_t stamp;

	if (!atomic_load_explicit(&loose->count, memory_order_acquire))
		return VB_NO_COMPLETION;
	vb_spin_lock(&loose->lock);
	stamp = first_node(loose)->stamp;
	vb_spin_unlock(&loose->lock);
	return stamp;
}

static void take_one(struct vb_cq_queue *queue, struct ibv_wc *wc)
{
	struct vb_loose *loose = queue->loose;
	struct vb_cq *cq = queue->cq;
	struct vb_wc_node *node;

	vb_spin_lock(&loose->lock);
	node = first_node(loose);
	vb_list_remove(&node->node);
	atomic_fetch_sub(&loose->count, 1);
	vb_spin_unlock(&loose->lock);
	*wc = node->wc;
	vb_tell_filled(wc, sizeof(*wc));
	vb_cq_polled(cq, node->stamp);
	cq->tm = node->tm;
	if (node->polled)
		atomic_store(node->polled, node->polled_to);
	vb_cq_forget(cq, 1);
	free(node);
}

int vb_loose_take(struct vb_cq_queue *queue, uint64_t last, int count, struct ibv_wc *wc)
{
	int got = 0;

	while (got < count && vb_loose_peek(queue->loose) <= last)
		take_one(queue, &wc[got++]);
	return got;
}

void vb_loose_free(struct vb_loose *loose)
{
	vb_list_for(node, &loose->nodes, struct vb_wc_node, node)
		free(node);
}
