/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions that lie in no queue but in the CQ itself. */
#include "base/clock.h"
#include "nic/cq.h"
#include "nic/nic.h"

#include <stdlib.h>

bool vb_cq_push(struct vb_cq *cq, struct vb_wc_node *node, bool solicited)
{
	if (!vb_cq_account(cq->shared)) {
		free(node);
		vb_peer_attend(cq->nic->self, VB_ATTN_CQ);
		return false;
	}
	if (cq->stamped)
		node->stamp = vb_device_clock();
	vb_spin_lock(&cq->stray_lock);
	vb_list_append(&cq->stray, &node->node);
	atomic_fetch_add(&cq->stray_count, 1);
	vb_spin_unlock(&cq->stray_lock);
	/* Between the completion and the looks at what pollers asked for. */
	atomic_thread_fence(memory_order_seq_cst);
	vb_cq_notify(cq, 0, solicited);
	return true;
}

void vb_cq_purge(struct vb_cq *cq, const void *owner)
{
	uint32_t gone = 0;

	vb_spin_lock(&cq->poll_lock);
	vb_spin_lock(&cq->stray_lock);
	vb_list_for(stray, &cq->stray, struct vb_wc_node, node) {
		if (stray->owner != owner)
			continue;
		vb_list_remove(&stray->node);
		free(stray);
		gone++;
	}
	atomic_fetch_sub(&cq->stray_count, gone);
	vb_cq_forget(cq, gone);
	vb_spin_unlock(&cq->stray_lock);
	vb_spin_unlock(&cq->poll_lock);
}
