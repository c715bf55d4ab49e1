/* SPDX-License-Identifier: BSD-2-Clause */
/* A message arrives: which endpoint is it for, and what does it mean in the endpoint's state? */
#include "cm/impl.h"
#include "wire/bytes.h"

void vb_cm_on_duplicate(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_duplicate(endpoint->cm, message);
}

/* A missing row: the message has no meaning in the state, and is dropped and counted. */
#define ON(message) [VB_CM_##message - VB_CM_REQ]
static vb_cm_handler *const handlers[VB_CM_STATES][VB_CM_ATTRIBUTES] = {
	[VB_CM_REQ_SENT] = {
		ON(MRA) = vb_cm_on_mra_req,
		ON(REJ) = vb_cm_on_rej,
		ON(REP) = vb_cm_on_rep,
		ON(DREP) = vb_cm_on_drep_probe_early,
	},
	[VB_CM_REQ_RECEIVED] = {
		ON(REQ) = vb_cm_on_req_again_mra,
		ON(REJ) = vb_cm_on_rej,
	},
	[VB_CM_REP_SENT] = {
		ON(REQ) = vb_cm_on_again,
		ON(MRA) = vb_cm_on_mra_rep,
		ON(REJ) = vb_cm_on_rej,
		ON(RTU) = vb_cm_on_rtu,
		ON(DREQ) = vb_cm_on_dreq_early,
		ON(DREP) = vb_cm_on_drep_probe_early,
	},
	[VB_CM_REP_RECEIVED] = {
		ON(REJ) = vb_cm_on_rej,
		ON(REP) = vb_cm_on_rep_again_mra,
		ON(DREQ) = vb_cm_on_dreq,
	},
	[VB_CM_ESTABLISHED] = {
		ON(REQ) = vb_cm_on_duplicate,
		ON(MRA) = vb_cm_on_duplicate,
		ON(REJ) = vb_cm_on_rej,
		ON(REP) = vb_cm_on_rep_again_rtu,
		ON(RTU) = vb_cm_on_duplicate,
		ON(DREQ) = vb_cm_on_dreq,
		ON(DREP) = vb_cm_on_drep_probe,
		ON(LAP) = vb_cm_on_lap,
	},
	[VB_CM_DREQ_SENT] = {
		ON(REQ) = vb_cm_on_duplicate,
		ON(REJ) = vb_cm_on_rej,
		ON(REP) = vb_cm_on_duplicate,
		ON(RTU) = vb_cm_on_duplicate,
		ON(DREQ) = vb_cm_on_dreq_crossing,
		ON(DREP) = vb_cm_on_drep,
	},
	[VB_CM_DREQ_RECEIVED] = {
		ON(REQ) = vb_cm_on_duplicate,
		ON(REP) = vb_cm_on_duplicate,
		ON(RTU) = vb_cm_on_duplicate,
		ON(DREQ) = vb_cm_on_dreq_waiting,
		ON(DREP) = vb_cm_on_duplicate,
	},
	[VB_CM_TIMEWAIT] = {
		ON(REQ) = vb_cm_on_req_again_stale,
		ON(REP) = vb_cm_on_duplicate,
		ON(RTU) = vb_cm_on_duplicate,
		ON(DREQ) = vb_cm_on_dreq_again,
		ON(DREP) = vb_cm_on_duplicate,
	},
	[VB_CM_REJECTED] = {
		ON(REQ) = vb_cm_on_again_kept,
		ON(REP) = vb_cm_on_again_kept,
		ON(RTU) = vb_cm_on_again_kept,
		ON(DREQ) = vb_cm_on_dreq_again,
	},
	[VB_CM_SIDR_REQ_SENT] = {
		ON(SIDR_REP) = vb_cm_on_sidr_rep,
	},
	[VB_CM_SIDR_REQ_RECEIVED] = {
		ON(SIDR_REQ) = vb_cm_on_duplicate,
	},
	[VB_CM_SIDR_REP_SENT] = {
		ON(SIDR_REQ) = vb_cm_on_again_kept,
	},
};
#undef ON

void vb_cm_dispatch(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	vb_cm_handler *handler = handlers[endpoint->state][message->attribute - VB_CM_REQ];

	if (handler)
		handler(endpoint, message);
	else
		vb_cm_drop(endpoint->cm, VB_CM_DROP_STATE);
}

/*
 * A peer that gives up before it got an answer does not know our id. Its REJ has its own id and the
 * GUID of its device (IBA 12.6.7.2, reason 4). A stranger may find out both, but not the
 * transaction id of the request.
 */
static struct vb_cm_endpoint *find_by_timeout(struct vb_cm *cm, const struct vb_cm_route *route,
					      const struct vb_cm_message *message)
{
	const struct vb_cm_rej *rej = &message->rej;
	union ibv_gid host = vb_cm_host(cm, &route->remote);
	struct vb_cm_endpoint *endpoint =
		vb_cm_find_remote_id(cm, &host, rej->local_comm_id, false);

	if (!endpoint || rej->info_length < sizeof(uint64_t) ||
	    vb_get64(rej->info) != endpoint->peer.ca_guid ||
	    message->transaction_id != endpoint->transaction_id)
		return NULL;
	return endpoint;
}

static struct vb_cm_endpoint *find_endpoint(struct vb_cm *cm, const struct vb_cm_route *route,
					    const struct vb_cm_message *message)
{
	uint32_t id = vb_cm_receiver_id(message);

	if (!id && message->attribute == VB_CM_REJ && message->rej.reason == VB_CM_REJ_TIMEOUT)
		return find_by_timeout(cm, route, message);
	return vb_cm_find_local_id(cm, id);
}

/*
 * The peer's id is not known yet, and a stranger can guess ours. But an answer has the transaction
 * id of the request (IBA 12.6.1), which no stranger can guess. A DREP answers a probe, which has a
 * transaction id of its own.
 */
static bool knows_request(const struct vb_cm_endpoint *endpoint,
			  const struct vb_cm_message *message)
{
	if (endpoint->state != VB_CM_REQ_SENT && endpoint->state != VB_CM_SIDR_REQ_SENT)
		return true;
	return message->attribute == VB_CM_DREP ||
	       message->transaction_id == endpoint->transaction_id;
}

/* Does the message have the peer's id, and for an answer the transaction id of the request? */
static bool is_from_peer(const struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	if (!knows_request(endpoint, message))
		return false;
	return message->attribute == VB_CM_SIDR_REP || !endpoint->remote_id ||
	       vb_cm_sender_id(message) == endpoint->remote_id;
}

static void answer_stray(struct vb_cm *cm, const struct vb_cm_route *route,
			 const struct vb_cm_message *message)
{
	struct vb_cm_message answer;

	vb_cm_drop(cm, VB_CM_DROP_NO_ENDPOINT);
	if (vb_cm_stray(message, &answer))
		vb_cm_answer(cm, route, &answer);
}

/* The first answer tells which user has the address that the request went to. */
static void dispatch_from(struct vb_cm_endpoint *endpoint, const struct vb_cm_route *route,
			  const struct vb_cm_message *message)
{
	if (!endpoint->route.user)
		endpoint->route.user = route->user;
	vb_cm_dispatch(endpoint, message);
}

static void input_answer(struct vb_cm *cm, const struct vb_cm_route *route,
			 const struct vb_cm_message *message)
{
	struct vb_cm_endpoint *endpoint = find_endpoint(cm, route, message);

	if (!endpoint || !is_from_peer(endpoint, message))
		answer_stray(cm, route, message);
	else if (!vb_cm_host_is(cm, endpoint, &route->remote))
		vb_cm_drop(cm, VB_CM_DROP_ADDRESS);
	else
		dispatch_from(endpoint, route, message);
}

void vb_cm_input(struct vb_cm *cm, const struct vb_cm_route *route,
		 const struct vb_cm_message *message, uint64_t now_ns)
{
	cm->now_ns = now_ns;
	if (message->attribute < VB_CM_REQ || message->attribute > VB_CM_APR) {
		vb_cm_drop(cm, VB_CM_DROP_MALFORMED);
		return;
	}
	cm->counters.received[message->attribute - VB_CM_REQ]++;
	if (message->attribute == VB_CM_REQ)
		vb_cm_input_req(cm, route, message);
	else if (message->attribute == VB_CM_SIDR_REQ)
		vb_cm_input_sidr_req(cm, route, message);
	else
		input_answer(cm, route, message);
}
