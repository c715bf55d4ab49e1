/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_connect: a REQ, or for datagrams the question which QP serves a port. */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/bind.h"
#include "rdmacm/cma.h"
#include "rdmacm/param.h"
#include "rdmacm/probe.h"
#include "rdmacm/qp.h"
#include "rdmacm/route.h"
#include "rdmacm/system.h"

enum { RETRIES = 7 }; /* a field of 3 bits; for RNR 7 means without end */

static uint8_t retries(const struct rdma_conn_param *param, uint8_t value)
{
	return !param || value > RETRIES ? RETRIES : value;
}

static void request_depths(struct vb_cma_id *id, const struct rdma_conn_param *param)
{
	id->initiator_depth = param && param->initiator_depth != RDMA_MAX_INIT_DEPTH
				      ? param->initiator_depth
				      : id->device->max_initiator_depth;
	id->responder_resources = param && param->responder_resources != RDMA_MAX_RESP_RES
					  ? param->responder_resources
					  : id->device->max_responder_resources;
	id->retry_count = retries(param, param ? param->retry_count : 0);
}

static struct vb_cm_route route_of(const struct vb_cma_id *id)
{
	return (struct vb_cm_route){
		.local = id->sgid,
		.remote = id->dgid,
		.scope = id->scope,
		.traffic_class = id->tos,
	};
}

static struct vb_cm_ip ip_of(const struct vb_cma_id *id)
{
	const struct rdma_addr *addrs = &id->id.route.addr;
	const union ibv_gid src = vb_address_gid(&addrs->src_addr);

	return (struct vb_cm_ip){
		.ipv6 = !IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)src.raw),
		.src_port = vb_address_port(&addrs->src_addr),
		.src = src,
		.dst = vb_address_gid(&addrs->dst_addr),
	};
}

static uint64_t service_of(const struct vb_cma_id *id)
{
	return vb_address_service_id(&id->id.route.addr.dst_addr, vb_cma_port_space(id));
}

/* A path between InfiniBand ports, in the form of a message. */
static struct vb_cm_path path_of(const struct ibv_sa_path_rec *path)
{
	return (struct vb_cm_path){
		.local_lid = be16toh(path->slid),
		.remote_lid = be16toh(path->dlid),
		.local_gid = path->sgid,
		.remote_gid = path->dgid,
		.flow_label = be32toh(path->flow_label),
		.packet_rate = path->rate,
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
		.sl = path->sl,
		.subnet_local = path->hop_limit <= 1,
		.ack_timeout = path->packet_life_time + 1,
	};
}

static int send_request(struct vb_cma_id *id, const struct vb_cma_data *data)
{
	const struct ibv_sa_path_rec *path = id->id.route.path_rec;
	const struct ibv_sa_path_rec *in_reserve = vb_cma_alternate_path(id);
	const struct vb_cm_path primary = path_of(path);
	const struct vb_cm_path alternate = in_reserve ? path_of(in_reserve) : primary;
	const struct vb_cm_ip ip = ip_of(id);
	const struct vb_cm_connect_params req = {
		.route = route_of(id),
		.primary = vb_cma_is_infiniband(id) ? &primary : NULL,
		.alternate = in_reserve ? &alternate : NULL,
		.service_id = service_of(id),
		.ca_guid = be64toh(id->device->guid),
		.qpn = id->qp_num,
		.qp_type = id->id.qp_type,
		.srq = id->srq,
		.flow_control = id->asked.flow_control,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.retry_count = id->retry_count,
		.rnr_retry_count = id->asked.rnr_retry_count,
		.mtu = path->mtu,
		.pkey = be16toh(path->pkey),
		.ack_timeout = path->packet_life_time + 1,
		.hop_limit = path->hop_limit,
		.flow_label = be32toh(path->flow_label),
		.ece_vendor_id = id->local_ece.vendor_id,
		.ece_options = id->local_ece.options,
		.ip = vb_cma_is_by_gid(id) ? NULL : &ip,
		.private_data = data->bytes,
		.private_data_length = (uint8_t)data->length,
	};

	return vb_cm_connect(&id->endpoint, &req, vb_now_ns());
}

static int send_question(struct vb_cma_id *id, const struct vb_cma_data *data)
{
	const struct vb_cm_ip ip = ip_of(id);
	const struct vb_cm_sidr_params req = {
		.route = route_of(id),
		.service_id = service_of(id),
		.ip = vb_cma_is_by_gid(id) ? NULL : &ip,
		.pkey = be16toh(id->id.route.addr.addr.ibaddr.pkey),
		.private_data = data->bytes,
		.private_data_length = (uint8_t)data->length,
	};

	return vb_cm_sidr_request(&id->endpoint, &req, vb_now_ns());
}

int vb_cma_connect_send(struct vb_cma_id *id)
{
	int err;

	if (id->has_endpoint)
		vb_cm_destroy(&id->endpoint, vb_now_ns());
	vb_cm_endpoint_init(vb_cma_cm(), &id->endpoint);
	id->has_endpoint = true;
	err = vb_cma_is_datagram(id) ? send_question(id, &id->asked.data)
				     : send_request(id, &id->asked.data);
	if (err) {
		vb_cm_destroy(&id->endpoint, vb_now_ns());
		id->has_endpoint = false;
	}
	return err;
}

/* Under the lock. */
static int send_first_request(struct vb_cma_id *id)
{
	int err = vb_cma_id_expect(id, VB_CMA_ROUTE_RESOLVED, "rdma_connect");

	if (!err)
		err = vb_cma_connect_send(id);
	if (!err) {
		id->state = VB_CMA_CONNECT;
		id->connect_len = 0; /* later messages do not repeat it */
		if (!vb_cma_engine()->gid_is_local(&id->dgid))
			vb_cma_probe_begin(id->asked_ns);
	}
	vb_cma_rearm();
	return err;
}

/* The room for private data that the IP addresses leave. */
static size_t data_limit(const struct vb_cma_id *id)
{
	const size_t all = vb_cma_is_datagram(id) ? VB_CM_SIDR_REQ_DATA_SIZE : VB_CM_REQ_DATA_SIZE;

	return vb_cma_is_by_gid(id) ? all : all - VB_CM_IP_SIZE;
}

static int connect_id(struct vb_cma_id *id, const struct rdma_conn_param *param)
{
	const size_t limit = data_limit(id);
	int err = vb_cma_param_check(id, param, "rdma_connect");

	if (!err)
		err = vb_cma_data_gather(id, param ? param->private_data : NULL,
					 param ? param->private_data_len : 0, limit, "rdma_connect",
					 &id->asked.data);
	if (err)
		return err;
	request_depths(id, param);
	vb_cma_param_qp(id, param);
	id->asked.flow_control = param && param->flow_control;
	id->asked.rnr_retry_count = retries(param, param ? param->rnr_retry_count : 0);
	id->asked_ns = id->since_ns = vb_now_ns();
	id->lid_told = false;
	vb_cma_lock();
	err = send_first_request(id);
	vb_cma_unlock();
	return err;
}

VB_PUBLIC int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	VB_NO_CANCEL;
	VB_CMA_PASS_WAIT(id, rdma_connect, (shadow, conn_param));
	struct vb_cma_id *self = vb_cma_id(id);
	const bool sync = self->sync;
	int err = vb_cma_stale(self->generation, "rdma_connect");

	if (!err)
		err = connect_id(self, conn_param);
	if (!err)
		err = vb_cma_event_wait(self, sync);
	return vb_return_minus_one(err);
}

/* Under the lock. */
static int establish(struct vb_cma_id *id)
{
	int err = vb_cma_id_expect(id, VB_CMA_CONNECT, "rdma_establish");

	if (err)
		return err;
	err = vb_cm_establish(&id->endpoint, vb_now_ns());
	if (err)
		vb_explain("rdma_establish: no reply waits for it: the endpoint is %s",
			   vb_cm_state_name(id->endpoint.state));
	vb_cma_rearm();
	return err;
}

VB_PUBLIC int rdma_establish(struct rdma_cm_id *id)
{
	VB_NO_CANCEL;
	VB_CMA_PASS(id, rdma_establish, (shadow));
	int err;

	if (id->qp) {
		vb_explain("rdma_establish: the identifier has a QP; the library establishes the "
			   "connection itself");
		return vb_return_minus_one(-EINVAL);
	}
	vb_cma_lock();
	err = establish(vb_cma_id(id));
	vb_cma_unlock();
	return vb_return_minus_one(err);
}
