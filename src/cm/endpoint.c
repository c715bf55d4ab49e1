/* SPDX-License-Identifier: BSD-2-Clause */
/* The resources, the events and the messages of an endpoint. */
#include <errno.h>
#include <stdlib.h>

#include "cm/impl.h"

void vb_cm_endpoint_init(struct vb_cm *cm, struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_node *nodes[] = { &endpoint->in_local_id, &endpoint->in_remote_id,
				       &endpoint->in_remote_qpn, &endpoint->in_local_qpn,
				       &endpoint->in_service };

	*endpoint = (struct vb_cm_endpoint){ .cm = cm, .timer.due_ns = VB_NEVER_NS };
	for (unsigned i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		vb_list_init(&nodes[i]->list);
	vb_list_init(&endpoint->children);
	vb_list_init(&endpoint->sibling);
}

/* --- resources --- */

int vb_cm_enroll(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;
	int rc;

	if (cm->endpoint_count >= VB_CM_ENDPOINTS_MAX)
		return -ENOBUFS;
	rc = vb_timers_reserve(&cm->timers, cm->endpoint_count + 1);
	if (rc)
		return rc;
	cm->endpoint_count++;
	endpoint->timed = true;
	return 0;
}

void vb_cm_retire(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;

	vb_cm_leave_listener(endpoint);
	vb_cm_unfile(endpoint);
	vb_timer_remove(&cm->timers, &endpoint->timer);
	endpoint->timer.due_ns = VB_NEVER_NS;
	if (endpoint->timed)
		cm->endpoint_count--;
	endpoint->timed = false;
	endpoint->state = VB_CM_IDLE;
	endpoint->local_id = endpoint->remote_id = endpoint->mra_id = 0;
}

void vb_cm_finish(struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event)
{
	vb_cm_retire(endpoint);
	if (endpoint->orphan) {
		endpoint->cm->orphan_count--;
		vb_list_remove(&endpoint->sibling);
		free(endpoint);
	} else if (event) {
		vb_cm_raise(endpoint, event);
	}
}

void vb_cm_leave_listener(struct vb_cm_endpoint *endpoint)
{
	if (!endpoint->listener)
		return;
	endpoint->listener->half_open--;
	endpoint->listener = NULL;
	vb_list_remove(&endpoint->sibling);
}

void vb_cm_taken(struct vb_cm_endpoint *endpoint)
{
	vb_cm_leave_listener(endpoint);
}

void vb_cm_wait(struct vb_cm_endpoint *endpoint, uint64_t ns)
{
	struct vb_cm *cm = endpoint->cm;

	vb_timer_set(&cm->timers, &endpoint->timer, ns == VB_NEVER_NS ? ns : cm->now_ns + ns);
}

/* --- events --- */

struct vb_cm_event vb_cm_event(struct vb_cm_endpoint *endpoint, enum vb_cm_event_type type,
			       const struct vb_cm_message *message)
{
	struct vb_cm_event event = { .type = type, .route = &endpoint->route, .message = message };
	size_t size = 0;

	if (message) {
		/* The cast drops const: the codec has one accessor for readers and writers. */
		event.private_data =
			vb_cm_private_data((struct vb_cm_message *)(uintptr_t)message, &size);
		event.private_data_size = (uint8_t)size;
	}
	return event;
}

void vb_cm_raise(struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event)
{
	if (!endpoint->orphan)
		endpoint->cm->ops->event(endpoint->cm->arg, endpoint, event);
}

void vb_cm_raise_incoming(struct vb_cm_endpoint *endpoint, struct vb_cm_event *event,
			  struct vb_cm_endpoint *listener, const struct vb_cm_ip *ip)
{
	event->listener = listener;
	if (ip) {
		event->has_ip = true;
		event->ip = *ip;
		event->private_data += VB_CM_IP_SIZE;
		event->private_data_size -= VB_CM_IP_SIZE;
	}
	vb_cm_raise(endpoint, event);
}

void vb_cm_drop(struct vb_cm *cm, enum vb_cm_drop reason)
{
	cm->counters.drops[reason]++;
}

void vb_cm_duplicate(struct vb_cm *cm, const struct vb_cm_message *message)
{
	cm->counters.duplicates[message->attribute - VB_CM_REQ]++;
	vb_cm_drop(cm, VB_CM_DROP_DUPLICATE);
}

/* --- messages --- */

int vb_cm_fill(uint8_t *field, size_t size, const void *data, size_t length)
{
	if (length > size || (length && !data))
		return -EINVAL;
	memset(field, 0, size);
	if (length)
		memcpy(field, data, length);
	return 0;
}

void vb_cm_answer(struct vb_cm *cm, const struct vb_cm_route *route,
		  const struct vb_cm_message *message)
{
	cm->counters.sent[message->attribute - VB_CM_REQ]++;
	cm->ops->send(cm->arg, route, message);
}

void vb_cm_say(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_answer(endpoint->cm, &endpoint->route, message);
}

void vb_cm_say_again(struct vb_cm_endpoint *endpoint)
{
	endpoint->cm->counters.resent[endpoint->message.attribute - VB_CM_REQ]++;
	vb_cm_say(endpoint, &endpoint->message);
}

uint64_t vb_cm_exponent_ns(uint8_t exponent)
{
	return 4096ull << (exponent & 31);
}

uint64_t vb_cm_response_ns(const struct vb_cm_endpoint *endpoint)
{
	const uint64_t ns = vb_cm_exponent_ns(endpoint->cm_timeout);

	return ns > VB_CM_RESEND_CAP_MIN_NS ? ns : VB_CM_RESEND_CAP_MIN_NS;
}

/*
 * The wait is random, up to one and a half times the base: a thousand messages that were lost
 * together must not be repeated together. After the last REP the peer has all the time that it
 * asked for, however few repetitions it wants.
 */
void vb_cm_wait_for_answer(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;
	bool last = endpoint->resends >= endpoint->resends_max;
	uint64_t after_ns = endpoint->resend_after_ns;

	if (last && endpoint->message.attribute == VB_CM_REP)
		after_ns = endpoint->resend_cap_ns;
	vb_cm_wait(endpoint, after_ns + cm->ops->random(cm->arg) % (after_ns / 2));
}

void vb_cm_say_until_answered(struct vb_cm_endpoint *endpoint, uint8_t resends_max)
{
	endpoint->resend_cap_ns = vb_cm_response_ns(endpoint);
	endpoint->resend_after_ns = VB_CM_RESEND_FIRST_NS;
	endpoint->resends = 0;
	endpoint->resends_max = resends_max;
	vb_cm_wait_for_answer(endpoint);
	vb_cm_say(endpoint, &endpoint->message);
}
