/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The application destroys an endpoint. The peer hears, by state:
 *
 *   REQ sent            REJ, timeout
 *   REQ received        REJ, consumer
 *   REP sent, received  REJ, consumer
 *   established         DREQ
 *   DREQ received       DREP
 *   SIDR_REQ received   SIDR_REP, reject
 *
 * as from Linux. Linux sends the message once. Here an orphan repeats it, and answers copies of the
 * peer's messages.
 */
#include <stdlib.h>

#include "cm/impl.h"

static void move_node(struct vb_list *from, struct vb_list *to)
{
	if (vb_list_empty(from)) {
		vb_list_init(to);
		return;
	}
	*to = *from;
	to->next->prev = to;
	to->prev->next = to;
	vb_list_init(from);
}

static void move_nodes(struct vb_cm_endpoint *from, struct vb_cm_endpoint *to)
{
	move_node(&from->in_local_id.list, &to->in_local_id.list);
	move_node(&from->in_remote_id.list, &to->in_remote_id.list);
	move_node(&from->in_remote_qpn.list, &to->in_remote_qpn.list);
	move_node(&from->in_local_qpn.list, &to->in_local_qpn.list);
	move_node(&from->in_service.list, &to->in_service.list);
}

static void move_timer(struct vb_cm_endpoint *from, struct vb_cm_endpoint *to)
{
	struct vb_cm *cm = from->cm;

	vb_timer_remove(&cm->timers, &from->timer);
	to->timer = (struct vb_timer){ .due_ns = VB_NEVER_NS };
	vb_timer_set(&cm->timers, &to->timer, from->timer.due_ns);
	from->timer.due_ns = VB_NEVER_NS;
}

static struct vb_cm_endpoint *orphan_allocate(struct vb_cm *cm)
{
	return cm->orphan_count < VB_CM_ORPHANS_MAX ? malloc(sizeof(struct vb_cm_endpoint)) : NULL;
}

static void orphan_add(struct vb_cm *cm, struct vb_cm_endpoint *orphan)
{
	orphan->orphan = true;
	vb_list_append(&cm->orphans, &orphan->sibling);
	cm->orphan_count++;
}

struct vb_cm_endpoint *vb_cm_orphan(struct vb_cm *cm)
{
	struct vb_cm_endpoint *orphan = orphan_allocate(cm);

	if (!orphan)
		return NULL;
	vb_cm_endpoint_init(cm, orphan);
	if (vb_cm_enroll(orphan)) {
		free(orphan);
		return NULL;
	}
	orphan_add(cm, orphan);
	return orphan;
}

/* An orphan takes over from the endpoint, if there is memory. */
static void linger(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;
	struct vb_cm_endpoint *orphan = orphan_allocate(cm);

	if (!orphan)
		return;
	vb_cm_leave_listener(endpoint);
	*orphan = *endpoint;
	vb_list_init(&orphan->children);
	move_nodes(endpoint, orphan);
	move_timer(endpoint, orphan);
	endpoint->timed = false;
	orphan_add(cm, orphan);
}

static void reject_by_consumer(struct vb_cm_endpoint *endpoint)
{
	endpoint->message = vb_cm_make_rej(endpoint, VB_CM_REJ_CONSUMER);
	vb_cm_rejected(endpoint);
}

/*
 * Copies of a request reach this process through the claim of the listener. When the claim is gone,
 * the host refuses them. So an MRA keeps the peers of unanswered requests from repeating them.
 */
static void keep_patient(struct vb_cm_endpoint *listener)
{
	struct vb_cm *cm = listener->cm;

	for (uint32_t i = 0; i <= cm->by_local_id.mask; i++)
		vb_list_for(child, &cm->by_local_id.buckets[i], struct vb_cm_endpoint,
			    in_local_id.list)
			if ((child->state == VB_CM_REQ_RECEIVED ||
			     child->state == VB_CM_REP_SENT) &&
			    child->service_id == listener->service_id)
				vb_cm_ask_for_time(child);
}

static void say_goodbye(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_message rej;

	switch (endpoint->state) {
	case VB_CM_REQ_SENT:
		rej = vb_cm_make_rej(endpoint, VB_CM_REJ_TIMEOUT);
		vb_cm_say(endpoint, &rej);
		break;
	case VB_CM_REQ_RECEIVED:
	case VB_CM_REP_SENT:
	case VB_CM_REP_RECEIVED:
		reject_by_consumer(endpoint);
		linger(endpoint);
		break;
	case VB_CM_ESTABLISHED:
		vb_cm_send_dreq(endpoint);
		linger(endpoint);
		break;
	case VB_CM_DREQ_RECEIVED:
		vb_cm_answer_dreq(endpoint);
		linger(endpoint);
		break;
	case VB_CM_SIDR_REQ_RECEIVED:
		endpoint->message.sidr_rep.status = VB_CM_SIDR_REJECT;
		vb_cm_sidr_answer(endpoint);
		linger(endpoint);
		break;
	case VB_CM_DREQ_SENT:
	case VB_CM_TIMEWAIT:
	case VB_CM_REJECTED:
	case VB_CM_SIDR_REP_SENT:
		linger(endpoint);
		break;
	case VB_CM_LISTEN:
		keep_patient(endpoint);
		break;
	case VB_CM_IDLE:
	case VB_CM_SIDR_REQ_SENT:
	case VB_CM_STATES:
		break; /* the peer has no connection to end */
	}
}

void vb_cm_destroy(struct vb_cm_endpoint *endpoint, uint64_t now_ns)
{
	endpoint->cm->now_ns = now_ns;
	say_goodbye(endpoint);
	vb_cm_forget(endpoint);
}

void vb_cm_forget(struct vb_cm_endpoint *endpoint)
{
	/* Unanswered requests outlive their listener. */
	vb_list_for(child, &endpoint->children, struct vb_cm_endpoint, sibling)
		vb_cm_leave_listener(child);
	vb_cm_retire(endpoint);
}
