/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_accept and rdma_reject: the answers to a request. */
#include <endian.h>
#include <errno.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/cma.h"
#include "rdmacm/param.h"
#include "rdmacm/peer_watch.h"
#include "rdmacm/qp.h"
#include "rdmacm/system.h"

static uint8_t smaller(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* The depths of the application; without them those of the request, up to the device's limits. */
static void reply_depths(struct vb_cma_id *id, const struct rdma_conn_param *param)
{
	if (param && param->initiator_depth != RDMA_MAX_INIT_DEPTH)
		id->initiator_depth = param->initiator_depth;
	else
		id->initiator_depth = smaller(id->initiator_depth, id->device->max_initiator_depth);
	if (param && param->responder_resources != RDMA_MAX_RESP_RES)
		id->responder_resources = param->responder_resources;
	else
		id->responder_resources =
			smaller(id->responder_resources, id->device->max_responder_resources);
}

static int send_reply(struct vb_cma_id *id, const struct rdma_conn_param *param,
		      const struct vb_cma_data *data)
{
	const struct vb_cm_accept_params rep = {
		.ca_guid = be64toh(id->device->guid),
		.qpn = id->qp_num,
		.srq = id->srq,
		.flow_control = param && param->flow_control,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.rnr_retry_count = param ? smaller(param->rnr_retry_count, 7) : 7,
		.ece_vendor_id = id->remote_ece.vendor_id,
		.ece_options = id->local_ece.options,
		.private_data = data->bytes,
		.private_data_length = (uint8_t)data->length,
	};

	return vb_cm_accept(&id->endpoint, &rep, vb_now_ns());
}

static int send_answer(struct vb_cma_id *id, const struct vb_cma_data *data)
{
	const struct vb_cm_sidr_reply_params rep = {
		.status = VB_CM_SIDR_SUCCESS,
		.qpn = id->qp_num,
		.qkey = vb_cma_qkey(id),
		.private_data = data->bytes,
		.private_data_length = (uint8_t)data->length,
	};

	return vb_cm_sidr_reply(&id->endpoint, &rep, vb_now_ns());
}

/* Under the lock. */
static int answer_request(struct vb_cma_id *id, const struct rdma_conn_param *param,
			  const struct vb_cma_data *data)
{
	int err;

	id->accepted = true; /* before: the calls below may cause events */
	err = vb_cma_is_datagram(id) ? send_answer(id, data) : send_reply(id, param, data);
	if (!err && !vb_cma_is_datagram(id))
		vb_cma_peer_watch_follow(&id->endpoint);
	if (err) {
		vb_explain("rdma_accept: the request is gone: the peer gave up, or the request was "
			   "answered before");
		id->accepted = false;
	}
	return err;
}

static int check_accept(struct vb_cma_id *id, const struct rdma_conn_param *param,
			struct vb_cma_data *data)
{
	size_t limit = vb_cma_is_datagram(id) ? VB_CM_SIDR_REP_DATA_SIZE : VB_CM_REP_DATA_SIZE;
	int err;

	vb_cma_lock();
	err = vb_cma_id_expect(id, VB_CMA_CONNECT, "rdma_accept");
	if (!err && id->accepted) {
		vb_explain("rdma_accept: the request was accepted before");
		err = -EINVAL;
	}
	vb_cma_unlock();
	if (!err)
		err = vb_cma_param_check(id, param, "rdma_accept");
	if (!err && !id->id.qp && !param) {
		vb_explain("rdma_accept: the identifier has no QP, so conn_param must name one");
		err = -EINVAL;
	}
	if (!err)
		err = vb_cma_data_gather(id, param ? param->private_data : NULL,
					 param ? param->private_data_len : 0, limit, "rdma_accept",
					 data);
	return err;
}

static int ready_qp(struct vb_cma_id *id)
{
	struct ibv_qp *qp = vb_cma_qp_hold(id);
	int err = vb_cma_qp_ready(id, qp, id->responder_resources, id->initiator_depth);

	vb_cma_qp_release(id, qp);
	return err;
}

static int accept_request(struct vb_cma_id *id, const struct rdma_conn_param *param)
{
	struct vb_cma_data data;
	int err = check_accept(id, param, &data);

	if (err)
		return err;
	reply_depths(id, param);
	vb_cma_param_qp(id, param);
	if (!vb_cma_is_datagram(id))
		err = ready_qp(id);
	if (err)
		return err;
	vb_cma_lock();
	err = answer_request(id, param, &data);
	vb_cma_rearm();
	vb_cma_unlock();
	if (err && !vb_cma_is_datagram(id))
		(void)vb_cma_qp_error(id);
	return err;
}

VB_PUBLIC int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	VB_NO_CANCEL;
	/* Of a datagram no event follows. */
	if (vb_cma_is_systems(id) && vb_cma_is_datagram(vb_cma_id(id)))
		return VB_CMA_SYSTEM_RESULT(id, rdma_accept, (shadow, conn_param));
	VB_CMA_PASS_WAIT(id, rdma_accept, (shadow, conn_param));
	struct vb_cma_id *self = vb_cma_id(id);
	const bool sync = self->sync, datagram = vb_cma_is_datagram(self);
	int err = accept_request(self, conn_param);

	if (!err && datagram)
		vb_cma_event_done(self); /* no other event follows */
	else if (!err)
		err = vb_cma_event_wait(self, sync);
	return vb_return_minus_one(err);
}

/* Under the lock. */
static int send_refusal(struct vb_cma_id *id, enum vb_cm_reason reason,
			const struct vb_cma_data *data)
{
	const struct vb_cm_sidr_reply_params rep = {
		.status = VB_CM_SIDR_REJECT,
		.private_data = data->bytes,
		.private_data_length = (uint8_t)data->length,
	};
	int err;

	if (!id->has_endpoint || id->state != VB_CMA_CONNECT) {
		vb_explain("rdma_reject: the identifier has no request to reject");
		return -EINVAL;
	}
	if (vb_cma_is_datagram(id))
		err = vb_cm_sidr_reply(&id->endpoint, &rep, vb_now_ns());
	else
		err = vb_cm_reject(&id->endpoint, reason, NULL, 0, data->bytes,
				   (uint8_t)data->length, vb_now_ns());
	if (err)
		vb_explain("rdma_reject: the request is gone: the peer gave up, or the request was "
			   "answered before (the endpoint is %s)",
			   vb_cm_state_name(id->endpoint.state));
	return err;
}

static int reject_request(struct vb_cma_id *id, const void *private_data, uint8_t length,
			  enum vb_cm_reason reason)
{
	size_t limit = vb_cma_is_datagram(id) ? VB_CM_SIDR_REP_DATA_SIZE : VB_CM_REJ_DATA_SIZE;
	struct vb_cma_data data;
	int err = vb_cma_stale(id->generation, "rdma_reject");

	if (!err)
		err = vb_cma_data_gather(id, private_data, length, limit, "rdma_reject", &data);
	if (err)
		return err;
	vb_cma_lock();
	err = send_refusal(id, reason, &data);
	vb_cma_rearm();
	vb_cma_unlock();
	if (!err)
		vb_cma_event_done(id);
	return err;
}

VB_PUBLIC int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	VB_NO_CANCEL;
	VB_CMA_PASS(id, rdma_reject, (shadow, private_data, private_data_len));

	return vb_return_minus_one(
		reject_request(vb_cma_id(id), private_data, private_data_len, VB_CM_REJ_CONSUMER));
}

VB_PUBLIC int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
			      uint8_t private_data_len)
{
	VB_NO_CANCEL;
	VB_CMA_PASS(id, rdma_reject_ece, (shadow, private_data, private_data_len));

	return vb_return_minus_one(reject_request(vb_cma_id(id), private_data, private_data_len,
						  VB_CM_REJ_VENDOR_OPTION));
}
