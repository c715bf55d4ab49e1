/* SPDX-License-Identifier: BSD-2-Clause */
/* REJ, of both sides, and stale connections. */
#include <errno.h>

#include "cm/impl.h"
#include "wire/bytes.h"

static uint8_t answers(const struct vb_cm_endpoint *endpoint)
{
	switch (endpoint->state) {
	case VB_CM_REQ_RECEIVED:
		return VB_CM_ANSWERS_REQ;
	case VB_CM_REP_RECEIVED:
		return VB_CM_ANSWERS_REP;
	default: /* the REJ answers neither */
		return VB_CM_ANSWERS_OTHER;
	}
}

struct vb_cm_message vb_cm_make_rej(const struct vb_cm_endpoint *endpoint, uint16_t reason)
{
	struct vb_cm_message rej = { .attribute = VB_CM_REJ,
				     .transaction_id = endpoint->transaction_id };

	rej.rej.local_comm_id = endpoint->local_id;
	rej.rej.remote_comm_id = endpoint->remote_id ? endpoint->remote_id : endpoint->mra_id;
	rej.rej.answers = answers(endpoint);
	rej.rej.reason = reason;
	if (reason == VB_CM_REJ_TIMEOUT) {
		/* A peer that has not told its id finds its endpoint by our device and our id. */
		rej.rej.info_length = sizeof(uint64_t);
		vb_put64(rej.rej.info, endpoint->local_guid);
	}
	return rej;
}

/* How often the timer repeats a REJ. */
static uint8_t repeats(const struct vb_cm_endpoint *endpoint)
{
	/* The peer may have got the REP, and then sends no copy that could be answered. */
	if (endpoint->state == VB_CM_REP_SENT)
		return VB_CM_REJ_REPEATS;
	return endpoint->asked_for_time ? VB_CM_MRA_REPEATS : 0;
}

void vb_cm_rejected(struct vb_cm_endpoint *endpoint)
{
	uint8_t resends_max = repeats(endpoint);

	endpoint->state = VB_CM_REJECTED;
	vb_cm_leave_listener(endpoint);
	vb_cm_unfile_qpns(endpoint);
	if (resends_max) {
		vb_cm_say_until_answered(endpoint, resends_max);
		return;
	}
	endpoint->resends_max = 0;
	vb_cm_wait(endpoint, VB_CM_ANSWER_KEPT_NS);
	vb_cm_say(endpoint, &endpoint->message);
}

int vb_cm_reject(struct vb_cm_endpoint *endpoint, enum vb_cm_reason reason, const void *info,
		 uint8_t info_length, const void *private_data, uint8_t private_data_length,
		 uint64_t now_ns)
{
	struct vb_cm_message rej = vb_cm_make_rej(endpoint, (uint16_t)reason);
	int rc = 0;

	if (endpoint->state != VB_CM_REQ_RECEIVED && endpoint->state != VB_CM_REP_RECEIVED &&
	    endpoint->state != VB_CM_REP_SENT)
		return -EINVAL;
	if (info_length) {
		rej.rej.info_length = info_length;
		rc = vb_cm_fill(rej.rej.info, sizeof(rej.rej.info), info, info_length);
	}
	if (!rc)
		rc = vb_cm_fill(rej.rej.private_data, sizeof(rej.rej.private_data), private_data,
				private_data_length);
	if (rc)
		return rc;
	endpoint->cm->now_ns = now_ns;
	endpoint->message = rej;
	vb_cm_rejected(endpoint);
	return 0;
}

void vb_cm_refuse(struct vb_cm *cm, const struct vb_cm_route *route,
		  const struct vb_cm_message *message, uint16_t reason, const void *info,
		  uint8_t info_length)
{
	struct vb_cm_message rej = { .attribute = VB_CM_REJ,
				     .transaction_id = message->transaction_id };

	rej.rej.local_comm_id = vb_cm_receiver_id(message);
	rej.rej.remote_comm_id = vb_cm_sender_id(message);
	rej.rej.answers = message->attribute == VB_CM_REP ? VB_CM_ANSWERS_REP : VB_CM_ANSWERS_REQ;
	rej.rej.reason = reason;
	rej.rej.info_length = info_length;
	vb_cm_fill(rej.rej.info, sizeof(rej.rej.info), info, info_length);
	vb_cm_answer(cm, route, &rej);
}

void vb_cm_refuse_for_good(struct vb_cm *cm, const struct vb_cm_route *route,
			   const struct vb_cm_message *message, uint16_t reason)
{
	/* Strangers can cause these orphans: half of the room stays for destroyed endpoints. */
	struct vb_cm_endpoint *orphan =
		cm->orphan_count < VB_CM_ORPHANS_MAX / 2 ? vb_cm_orphan(cm) : NULL;

	if (!orphan) {
		vb_cm_refuse(cm, route, message, reason, NULL, 0);
		return;
	}
	orphan->state = VB_CM_REQ_RECEIVED;
	orphan->route = *route;
	orphan->host = vb_cm_host(cm, &route->remote);
	orphan->transaction_id = message->transaction_id;
	orphan->remote_id = message->req.local_comm_id;
	orphan->remote_qpn = message->req.qpn;
	vb_cm_file_remote_id(orphan);
	orphan->message = vb_cm_make_rej(orphan, reason);
	vb_cm_rejected(orphan);
}

/* --- REJ of the peer --- */

static void end_refused(struct vb_cm_endpoint *endpoint, unsigned reason,
			const struct vb_cm_message *message)
{
	struct vb_cm_event event = vb_cm_event(endpoint, VB_CM_EVENT_REJECTED, message);

	event.reason = reason;
	if (endpoint->state == VB_CM_REP_RECEIVED)
		endpoint->over = VB_CM_REFUSED;
	vb_cm_finish(endpoint, &event);
}

/* The endpoint stays for a while: a copy of the REQ that the REJ overtook is no new request. */
static void end_refused_passive(struct vb_cm_endpoint *endpoint, unsigned reason,
				const struct vb_cm_message *message)
{
	struct vb_cm_event event = vb_cm_event(endpoint, VB_CM_EVENT_REJECTED, message);

	event.reason = reason;
	endpoint->state = VB_CM_TIMEWAIT;
	endpoint->never_was = true;
	vb_cm_leave_listener(endpoint);
	vb_cm_unfile_qpns(endpoint);
	vb_cm_wait(endpoint, VB_CM_ANSWER_KEPT_NS);
	vb_cm_raise(endpoint, &event);
}

void vb_cm_refused(struct vb_cm_endpoint *endpoint, unsigned reason,
		   const struct vb_cm_message *message)
{
	switch (endpoint->state) {
	case VB_CM_REQ_SENT:
		if (reason == VB_CM_REJ_STALE && endpoint->stale_tries < VB_CM_STALE_TRIES) {
			vb_cm_connect_again(endpoint);
			break;
		}
		end_refused(endpoint, reason, message);
		break;
	case VB_CM_REP_RECEIVED:
		end_refused(endpoint, reason, message);
		break;
	case VB_CM_REQ_RECEIVED:
	case VB_CM_REP_SENT:
		end_refused_passive(endpoint, reason, message);
		break;
	case VB_CM_ESTABLISHED:
	case VB_CM_DREQ_SENT:
		/* The application knows the connection, so it hears DISCONNECTED. */
		vb_cm_enter_timewait(endpoint, message, reason);
		break;
	case VB_CM_IDLE:
	case VB_CM_LISTEN:
	case VB_CM_DREQ_RECEIVED:
	case VB_CM_TIMEWAIT:
	case VB_CM_REJECTED:
	case VB_CM_SIDR_REQ_SENT:
	case VB_CM_SIDR_REQ_RECEIVED:
	case VB_CM_SIDR_REP_SENT:
	case VB_CM_STATES:
		break; /* the connection is over already, or there is none */
	}
}

void vb_cm_on_rej(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_refused(endpoint, message->rej.reason, message);
}

/* --- stale --- */

/* The peer may have got the REP and be connected, if the message that proves it stale came late. */
static void withdraw_rep(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_event event = vb_cm_event(endpoint, VB_CM_EVENT_REJECTED, NULL);

	event.reason = VB_CM_REJ_STALE;
	endpoint->message = vb_cm_make_rej(endpoint, VB_CM_REJ_STALE);
	vb_cm_rejected(endpoint);
	vb_cm_raise(endpoint, &event);
}

void vb_cm_stale(struct vb_cm_endpoint *old)
{
	if (old->state == VB_CM_ESTABLISHED)
		vb_cm_send_dreq(old);
	else if (old->state == VB_CM_REP_SENT)
		withdraw_rep(old);
	else if (old->state == VB_CM_REQ_RECEIVED || old->state == VB_CM_REP_RECEIVED)
		vb_cm_refused(old, VB_CM_REJ_STALE, NULL);
}

void vb_cm_slot_died(struct vb_cm *cm, uint32_t slot, uint64_t now_ns)
{
	static const union ibv_gid this_host;

	cm->now_ns = now_ns;
	for (uint32_t i = 0; i <= cm->by_local_id.mask; i++)
		vb_list_for(endpoint, &cm->by_local_id.buckets[i], struct vb_cm_endpoint,
			    in_local_id.list) {
			if (!vb_cm_gid_equal(&endpoint->host, &this_host))
				continue;
			if (endpoint->remote_id >> VB_COMM_ID_SLOT_SHIFT == slot)
				vb_cm_refused(endpoint, VB_CM_REJ_TIMEOUT, NULL);
			else if (endpoint->mra_id >> VB_COMM_ID_SLOT_SHIFT == slot)
				vb_cm_wait(endpoint, 0); /* repeats the REQ at once */
		}
}

/* Orphans do not count: they raise no event when their peer dies. */
void vb_cm_slots_met(const struct vb_cm *cm, bool met[VB_CM_SLOTS])
{
	static const union ibv_gid this_host;

	memset(met, 0, VB_CM_SLOTS * sizeof(*met));
	for (uint32_t i = 0; i <= cm->by_local_id.mask; i++)
		vb_list_for(endpoint, &cm->by_local_id.buckets[i], struct vb_cm_endpoint,
			    in_local_id.list) {
			if (endpoint->orphan || !vb_cm_gid_equal(&endpoint->host, &this_host))
				continue;
			met[endpoint->remote_id >> VB_COMM_ID_SLOT_SHIFT] = true;
			met[endpoint->mra_id >> VB_COMM_ID_SLOT_SHIFT] = true;
		}
}
