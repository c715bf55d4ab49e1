/* SPDX-License-Identifier: BSD-2-Clause */
/* The attributes for each state of a QP, from the messages of both sides. */
#include <errno.h>
#include <string.h>

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/cma.h"
#include "rdmacm/qp.h"
#include "rdmacm/route.h"
#include "rdmacm/system.h"

static bool is_reliable(const struct vb_cma_id *id)
{
	return id->id.qp_type != IBV_QPT_UC;
}

/* Each of the two XRC QP types is one half of a reliable QP. */
static bool is_responder(const struct vb_cma_id *id)
{
	return is_reliable(id) && id->id.qp_type != IBV_QPT_XRC_SEND;
}

static bool is_requester(const struct vb_cma_id *id)
{
	return is_reliable(id) && id->id.qp_type != IBV_QPT_XRC_RECV;
}

/* A copy of what the service thread, or a thread that destroys the identifier, may change. */
struct agreed {
	bool begun;    /* there is a connection, or a request */
	bool answered; /* there is a peer whose QP is known */
	uint32_t remote_qpn, rq_psn;
	struct vb_cm_peer peer;
};

static bool is_answered(const struct vb_cma_id *id)
{
	switch (id->has_endpoint ? id->endpoint.state : VB_CM_IDLE) {
	case VB_CM_REQ_RECEIVED:
	case VB_CM_REP_SENT:
	case VB_CM_REP_RECEIVED:
	case VB_CM_ESTABLISHED:
		return true;
	case VB_CM_IDLE:
	case VB_CM_LISTEN:
	case VB_CM_REQ_SENT:
	case VB_CM_DREQ_SENT:
	case VB_CM_DREQ_RECEIVED:
	case VB_CM_TIMEWAIT:
	case VB_CM_REJECTED:
	case VB_CM_SIDR_REQ_SENT:
	case VB_CM_SIDR_REQ_RECEIVED:
	case VB_CM_SIDR_REP_SENT:
	case VB_CM_STATES:
		return false;
	}
	return false;
}

static struct agreed agreed(const struct vb_cma_id *id)
{
	struct agreed values;

	vb_cma_lock();
	values.begun = id->has_endpoint;
	values.answered = is_answered(id);
	values.remote_qpn = id->endpoint.remote_qpn;
	values.rq_psn = id->endpoint.rq_psn;
	values.peer = id->endpoint.peer;
	vb_cma_unlock();
	return values;
}

uint32_t vb_cma_qkey(const struct vb_cma_id *id)
{
	return id->id.ps == RDMA_PS_IPOIB && vb_cma_is_infiniband(id) ? VB_CMA_IPOIB_QKEY
								      : RDMA_UDP_QKEY;
}

static int to_init(struct vb_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	const int pkey_index = vb_cma_pkey_index(id);

	if (pkey_index < 0)
		return pkey_index;
	attr->pkey_index = (uint16_t)pkey_index;
	attr->port_num = 1;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (vb_cma_is_datagram(id)) {
		attr->qkey = vb_cma_qkey(id);
		*mask |= IBV_QP_QKEY;
		return 0;
	}
	*mask |= IBV_QP_ACCESS_FLAGS;
	/* A QP without a peer grants no rights. */
	if (!agreed(id).begun)
		return 0;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	return 0;
}

/* Both sides load the alternate path in RTR and arm it in RTS. */
static void load_alternate(const struct vb_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	const struct ibv_sa_path_rec *path = vb_cma_alternate_path(id);

	if (!path)
		return;
	vb_cma_ah_attr_of(path, &attr->alt_ah_attr);
	attr->alt_port_num = 1;
	attr->alt_timeout = path->packet_life_time + 1;
	*mask |= IBV_QP_ALT_PATH;
}

static void arm_alternate(const struct vb_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	if (!vb_cma_alternate_path(id))
		return;
	attr->path_mig_state = IBV_MIG_REARM;
	*mask |= IBV_QP_PATH_MIG_STATE;
}

int vb_cma_qp_alternate(const struct vb_cma_id *id, struct ibv_qp_attr *attr)
{
	int mask = 0;

	load_alternate(id, attr, &mask);
	arm_alternate(id, attr, &mask);
	return mask;
}

static int to_rtr(struct vb_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	const struct agreed values = agreed(id);
	int err;

	*mask = IBV_QP_STATE;
	if (vb_cma_is_datagram(id))
		return 0;
	if (!values.answered)
		return -EINVAL;
	err = vb_cma_ah_attr(id, &attr->ah_attr);
	if (err)
		return err;
	attr->path_mtu = id->id.route.path_rec->mtu;
	attr->dest_qp_num = values.remote_qpn;
	attr->rq_psn = values.rq_psn;
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	load_alternate(id, attr, mask);
	if (!is_responder(id))
		return 0;
	attr->max_dest_rd_atomic = id->responder_resources;
	attr->min_rnr_timer = 0; /* 655 ms, as the man page of rdma_accept says */
	*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return 0;
}

static uint8_t ack_timeout(const struct vb_cma_id *id)
{
	return id->ack_timeout_set ? id->ack_timeout
				   : (uint8_t)(id->id.route.path_rec->packet_life_time + 1);
}

static int to_rts(struct vb_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	const struct agreed values = agreed(id);

	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (vb_cma_is_datagram(id))
		return 0;
	if (!values.answered)
		return -EINVAL;
	attr->sq_psn = values.peer.sq_psn;
	arm_alternate(id, attr, mask);
	if (!is_reliable(id))
		return 0;
	attr->timeout = ack_timeout(id);
	*mask |= IBV_QP_TIMEOUT;
	if (!is_requester(id))
		return 0;
	attr->retry_cnt = id->retry_count;
	attr->rnr_retry = values.peer.rnr_retry_count;
	attr->max_rd_atomic = id->initiator_depth;
	*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return 0;
}

/* The message of a peer may ask for more than the device allows. */
static void limit_depths(const struct vb_cma_id *id, struct ibv_qp_attr *attr)
{
	if (attr->max_dest_rd_atomic > id->device->max_responder_resources)
		attr->max_dest_rd_atomic = id->device->max_responder_resources;
	if (attr->max_rd_atomic > id->device->max_initiator_depth)
		attr->max_rd_atomic = id->device->max_initiator_depth;
}

static int fill_attr(struct vb_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		return to_init(id, attr, mask);
	case IBV_QPS_RTR:
		return to_rtr(id, attr, mask);
	case IBV_QPS_RTS:
		return to_rts(id, attr, mask);
	default:
		return -EINVAL;
	}
}

int vb_cma_qp_attr(struct vb_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	enum ibv_qp_state state = attr->qp_state;
	int err;

	if (!id->device) {
		vb_explain("rdma_init_qp_attr: the identifier is not bound to a device");
		return -EINVAL;
	}
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	err = fill_attr(id, attr, mask);
	/* The functions that find other errors explain them. */
	if (err == -EINVAL)
		vb_explain("rdma_init_qp_attr: no attributes are known for QP state %d: the "
			   "identifier is %s",
			   state, vb_cma_state_name(id->state));
	else
		limit_depths(id, attr);
	return err;
}

VB_PUBLIC int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr,
				int *qp_attr_mask)
{
	VB_NO_CANCEL;
	int err;

	if (!id || !qp_attr || !qp_attr_mask)
		return vb_cma_null(__func__);
	VB_CMA_PASS(id, rdma_init_qp_attr, (shadow, qp_attr, qp_attr_mask));
	err = vb_cma_stale(vb_cma_id(id)->generation, "rdma_init_qp_attr");
	if (!err)
		err = vb_cma_qp_attr(vb_cma_id(id), qp_attr, qp_attr_mask);
	if (!err) {
		vb_tell_filled(qp_attr, sizeof(*qp_attr));
		vb_tell_filled(qp_attr_mask, sizeof(*qp_attr_mask));
	}
	return vb_return_minus_one(err);
}
