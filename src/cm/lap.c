/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * LAP and APR (IBA 12.8): the peer asks for an alternate path. The owner of the endpoint loads the
 * path, which may take a while. Copies of the LAP that come meanwhile get no answer; later copies
 * get the same answer. RoCE has no alternate paths.
 */
#include <errno.h>

#include "cm/impl.h"

static void say_apr(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_message apr = { .attribute = VB_CM_APR, .transaction_id = endpoint->lap_id };

	apr.apr.local_comm_id = endpoint->local_id;
	apr.apr.remote_comm_id = endpoint->remote_id;
	apr.apr.status = endpoint->apr_status;
	vb_cm_say(endpoint, &apr);
}

static void answer_lap(struct vb_cm_endpoint *endpoint, enum vb_cm_apr_status status)
{
	endpoint->apr_status = (uint8_t)status;
	endpoint->lap = VB_CM_LAP_ANSWERED;
	say_apr(endpoint);
}

/* SUCCESS: the owner of the endpoint decides. */
static enum vb_cm_apr_status check_lap(const struct vb_cm_endpoint *endpoint,
				       const struct vb_cm_lap *lap)
{
	if (!endpoint->infiniband)
		return VB_CM_APR_UNSUPPORTED;
	/* Some peers name no QP. */
	if (lap->remote_qpn && endpoint->local_qpn && lap->remote_qpn != endpoint->local_qpn)
		return VB_CM_APR_INVALID_QPN;
	return vb_cm_is_between_ports(endpoint->cm, &endpoint->route, &lap->alternate)
		       ? VB_CM_APR_SUCCESS
		       : VB_CM_APR_INVALID_LID;
}

void vb_cm_on_lap(struct vb_cm_endpoint *endpoint, const struct vb_cm_message *message)
{
	struct vb_cm_event event;
	enum vb_cm_apr_status status;

	if (endpoint->lap != VB_CM_LAP_NONE && endpoint->lap_id == message->transaction_id) {
		vb_cm_duplicate(endpoint->cm, message);
		if (endpoint->lap == VB_CM_LAP_ANSWERED)
			say_apr(endpoint);
		return;
	}
	endpoint->lap_id = message->transaction_id;
	status = check_lap(endpoint, &message->lap);
	if (status) {
		answer_lap(endpoint, status);
		return;
	}
	endpoint->lap = VB_CM_LAP_ASKED;
	event = vb_cm_event(endpoint, VB_CM_EVENT_LAP_RECEIVED, message);
	vb_cm_raise(endpoint, &event);
}

int vb_cm_lap_answer(struct vb_cm_endpoint *endpoint, enum vb_cm_apr_status status, uint64_t now_ns)
{
	if (endpoint->state != VB_CM_ESTABLISHED || endpoint->lap != VB_CM_LAP_ASKED)
		return -EINVAL;
	endpoint->cm->now_ns = now_ns;
	answer_lap(endpoint, status);
	return 0;
}
