/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does the peer of a connection still exist? With a kernel driver the kernel sends the DREQ of a
 * killed process. Here the process itself is the NIC, so a killed process sends nothing. A probe
 * asks for it: a DREQ with a QPN that the connection does not have. A process with the connection
 * compares the QPN and drops the message, as Linux does. Any other process answers DREP, as to
 * every DREQ of a connection that is over. The probe of an unanswered request or DREQ is that
 * message.
 */
#include "cm/impl.h"

enum { NO_QPN = 1 }; /* QP 1 has no connection; programs without a QP send 0 */

/* The peer's id of the connection; 0: no peer is known to have it. */
static uint32_t peer_id(const struct vb_cm_endpoint *endpoint)
{
	if (endpoint->state == VB_CM_REQ_SENT)
		return endpoint->mra_id;
	return endpoint->state == VB_CM_REP_SENT || endpoint->state == VB_CM_ESTABLISHED
		       ? endpoint->remote_id
		       : 0;
}

/* Is endpoint->message itself a question that a peer must answer? */
static bool is_question(const struct vb_cm_endpoint *endpoint)
{
	return endpoint->state == VB_CM_REQ_SENT || endpoint->state == VB_CM_SIDR_REQ_SENT ||
	       endpoint->state == VB_CM_DREQ_SENT;
}

bool vb_cm_probe(struct vb_cm_endpoint *endpoint, struct vb_cm_message *probe)
{
	struct vb_cm *cm = endpoint->cm;
	const uint32_t peer = peer_id(endpoint);

	if (!peer && is_question(endpoint))
		*probe = endpoint->message;
	if (!peer)
		return is_question(endpoint);
	endpoint->probe_id = cm->ops->random(cm->arg) | 1;
	*probe = (struct vb_cm_message){ .attribute = VB_CM_DREQ,
					 .transaction_id = endpoint->probe_id };
	probe->dreq.local_comm_id = endpoint->local_id;
	probe->dreq.remote_comm_id = peer;
	probe->dreq.remote_qpn = NO_QPN;
	return true;
}

/* The random transaction id proves that the DREP answers our probe. */
void vb_cm_on_drep_probe(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	if (endpoint->probe_id && message->transaction_id == endpoint->probe_id)
		vb_cm_enter_timewait(endpoint, message, 0);
	else
		vb_cm_drop(endpoint->cm, VB_CM_DROP_STATE);
}

/* The peer process is gone. The timer repeats the message at once: another process may answer. */
void vb_cm_on_drep_probe_early(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	if (endpoint->probe_id && message->transaction_id == endpoint->probe_id)
		vb_cm_wait(endpoint, 0);
	else
		vb_cm_drop(endpoint->cm, VB_CM_DROP_STATE);
}

void vb_cm_host_died(struct vb_cm *cm, const union ibv_gid *gid, uint64_t now_ns)
{
	cm->now_ns = now_ns;
	for (uint32_t i = 0; i <= cm->by_local_id.mask; i++)
		vb_list_for(endpoint, &cm->by_local_id.buckets[i], struct vb_cm_endpoint,
			    in_local_id.list) {
			if ((!peer_id(endpoint) && !is_question(endpoint)) ||
			    !vb_cm_host_is(cm, endpoint, gid))
				continue;
			if (endpoint->state == VB_CM_ESTABLISHED)
				vb_cm_refused(endpoint, VB_CM_REJ_TIMEOUT, NULL);
			else if (endpoint->state == VB_CM_DREQ_SENT)
				vb_cm_enter_timewait(endpoint, NULL, 0);
			else
				vb_cm_unreachable(endpoint);
		}
}
