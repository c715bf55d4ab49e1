/* SPDX-License-Identifier: BSD-2-Clause */
/* The device fails as a whole. */
#include "exec/reason.h"
#include "nic/context.h"
#include "nic/qp.h"
#include "path/fault/fault.h"

/* One event per context, however many CQs the context has. */
static void raise_events(struct vb_nic *nic)
{
	static uint32_t occasion; /* under nic->lock */

	occasion++;
	vb_list_for(cq, &nic->cqs, struct vb_cq, node) {
		struct vb_context *context = vb_context(cq->ibv.context);

		if (context->fatal_told == occasion)
			continue;
		context->fatal_told = occasion;
		vb_async_raise(cq->ibv.context, IBV_EVENT_DEVICE_FATAL, NULL, NULL);
	}
}

void vb_fault_device_fatal(struct vb_nic *nic)
{
	pthread_mutex_lock(&nic->lock);
	/* The engine moves the QPs: it has the tokens to flush their send queues. */
	vb_list_for(qp, &nic->qps, struct vb_qp, node)
		vb_peer_attend_qp(nic->self, qp->entry,
				  VB_QP_ATTN_FAIL | VB_QP_ATTN_QUIET |
					  (uint32_t)VB_WHY_INJECTED_FATAL);
	raise_events(nic);
	pthread_mutex_unlock(&nic->lock);
}
