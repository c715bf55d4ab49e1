/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/connect_retry.h"

#include "base/clock.h"

#define RETRY_NS    4000000u  /* between two tries */
#define PATIENCE_NS 60000000u /* since the first try */

/* In order of retry_ns: all identifiers wait for the same time. */
static struct vb_list waiting = VB_LIST_INIT(waiting);

bool vb_cma_connect_retry(struct vb_cma_id *id, uint64_t now_ns)
{
	if (id->passive || id->removing || id->at_once || now_ns - id->asked_ns > PATIENCE_NS)
		return false;
	vb_cma_connect_retry_soon(id, now_ns);
	return true;
}

void vb_cma_connect_retry_soon(struct vb_cma_id *id, uint64_t now_ns)
{
	id->retry_ns = now_ns + RETRY_NS;
	vb_list_append(&waiting, &id->retry_node);
}

static void ask_again(struct vb_cma_id *id)
{
	int err;

	vb_list_remove(&id->retry_node);
	err = vb_cma_connect_send(id);
	if (err)
		(void)vb_cma_event_raise(id, RDMA_CM_EVENT_UNREACHABLE, err);
}

void vb_cma_connect_retry_tick(uint64_t now_ns)
{
	vb_list_for(id, &waiting, struct vb_cma_id, retry_node) {
		if (id->retry_ns > now_ns)
			return;
		ask_again(id);
	}
}

uint64_t vb_cma_connect_retry_next_ns(void)
{
	if (vb_list_empty(&waiting))
		return VB_NEVER_NS;
	return vb_container(waiting.next, struct vb_cma_id, retry_node)->retry_ns;
}

void vb_cma_connect_retry_drop(struct vb_cma_id *id)
{
	vb_list_remove(&id->retry_node);
}

void vb_cma_connect_retry_end(struct vb_cma_id *id)
{
	if (vb_list_empty(&id->retry_node))
		return;
	vb_list_remove(&id->retry_node);
	if (vb_cma_is_datagram(id))
		(void)vb_cma_event_raise(id, RDMA_CM_EVENT_UNREACHABLE, VB_CM_SIDR_UNSUPPORTED);
	else
		(void)vb_cma_event_raise(id, RDMA_CM_EVENT_REJECTED, VB_CM_REJ_INVALID_SERVICE_ID);
}

void vb_cma_connect_retry_forget(void)
{
	vb_list_init(&waiting);
}
