/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the process that a MAD belongs to. */
#include <errno.h>
#include <string.h>

#include "gsi/impl.h"
#include "mad/agent.h"
#include "net/gid.h"
#include "nic/ib_path.h"
#include "shm/slot.h"

/*
 * The source in an IP addressing header agrees with the MAD's. Else the bytes are no such header,
 * but data of an application that names ports by GIDs.
 */
static bool is_source(const union ibv_gid *said, const union ibv_gid *src)
{
	return vb_gid_equal(said, src) || (vb_gid_is_own(said) && vb_gid_is_own(src));
}

/*
 * The address that a request asks for: the one in its IP addressing header, else the GID of the
 * InfiniBand port, else the destination of the MAD.
 */
static union ibv_gid asked_address(const struct vb_gsi_datagram *datagram,
				   const uint8_t *private_data, const union ibv_gid *port_gid)
{
	struct vb_cm_ip ip;

	if (!vb_cm_ip_parse(private_data, &ip) && !vb_gid_is_zero(&ip.dst) &&
	    (!port_gid || is_source(&ip.src, &datagram->src)))
		return ip.dst;
	return port_gid ? *port_gid : datagram->dst;
}

/* The GID of this host's InfiniBand port; false: it has none. */
static bool own_port(union ibv_gid *gid)
{
	const struct vb_device *dev = vb_ib_device(0);

	if (dev)
		*gid = vb_gid_from_guid(dev->guid);
	return dev;
}

/* --- requests that were given to a claim --- */

static void remember_request(struct vb_gsi *gsi, const union ibv_gid *src, uint32_t comm_id,
			     const struct vb_cm_target *target)
{
	pthread_mutex_lock(&gsi->lock);
	gsi->requests[gsi->next_request++ % VB_GSI_REQUESTS] =
		(struct vb_gsi_request){ *src, comm_id, *target };
	pthread_mutex_unlock(&gsi->lock);
}

static bool recall_request(struct vb_gsi *gsi, const union ibv_gid *src, uint32_t comm_id,
			   struct vb_cm_target *target)
{
	bool found = false;

	pthread_mutex_lock(&gsi->lock);
	for (unsigned i = 0; i < VB_GSI_REQUESTS && !found; i++) {
		const struct vb_gsi_request *request = &gsi->requests[i];

		found = request->comm_id == comm_id && vb_gid_equal(&request->src, src);
		if (found)
			*target = request->target;
	}
	pthread_mutex_unlock(&gsi->lock);
	return found;
}

/* --- finding the process --- */

static enum vb_gsi_fate to_claim(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
				 uint32_t comm_id, uint64_t service_id, const uint8_t *private_data,
				 const union ibv_gid *port_gid)
{
	const union ibv_gid address = asked_address(datagram, private_data, port_gid);
	const uint16_t port_space = vb_cm_service_space(service_id);
	struct vb_cm_target targets[VB_CM_TARGETS_MAX];
	enum vb_gsi_fate fate = VB_GSI_ABSENT;
	unsigned count;

	if (!port_space)
		return VB_GSI_ABSENT;
	count = vb_cm_targets(port_space, vb_cm_service_port(service_id), &address, datagram->scope,
			      targets);
	for (unsigned i = 0; i < count && fate == VB_GSI_ABSENT; i++) {
		fate = vb_gsi_write(gsi, &targets[i], datagram);
		if (fate == VB_GSI_GIVEN)
			remember_request(gsi, &datagram->src, comm_id, &targets[i]);
	}
	return fate;
}

/* A REJ for a timeout, whose sender never heard of an id of this side. */
static enum vb_gsi_fate to_requested(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
				     uint32_t comm_id)
{
	struct vb_cm_target target;

	if (!comm_id || !recall_request(gsi, &datagram->src, comm_id, &target))
		return VB_GSI_ABSENT;
	return vb_gsi_write(gsi, &target, datagram);
}

static enum vb_gsi_fate to_slot(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
				uint32_t comm_id)
{
	const uint32_t slot = comm_id >> VB_COMM_ID_SLOT_SHIFT;
	struct vb_cm_target target;
	enum vb_gsi_fate fate;
	int err = vb_cm_target_slot(slot, &target);

	if (err)
		return err == -EAGAIN ? VB_GSI_LOST : VB_GSI_ABSENT;
	fate = vb_gsi_write(gsi, &target, datagram);
	if (fate == VB_GSI_ABSENT)
		vb_slot_lost(slot);
	return fate;
}

static enum vb_gsi_fate give_to_process(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
					const struct vb_cm_message *message)
{
	const uint32_t sender = vb_cm_sender_id(message), receiver = vb_cm_receiver_id(message);
	const struct vb_cm_path *path = &message->req.primary;
	union ibv_gid port_gid;

	if (message->attribute == VB_CM_REQ)
		return to_claim(gsi, datagram, sender, message->req.service_id,
				message->req.private_data,
				vb_cm_path_has_lids(path) ? &path->remote_gid : NULL);
	if (message->attribute == VB_CM_SIDR_REQ)
		return to_claim(gsi, datagram, sender, message->sidr_req.service_id,
				message->sidr_req.private_data,
				own_port(&port_gid) ? &port_gid : NULL);
	if (message->attribute == VB_CM_REJ && !receiver)
		return to_requested(gsi, datagram, sender);
	return to_slot(gsi, datagram, receiver);
}

static void turn_back(const struct vb_gsi_datagram *datagram, struct vb_gsi_datagram *answer)
{
	*answer = (struct vb_gsi_datagram){
		.magic = VB_GSI_MAGIC,
		.src = datagram->dst,
		.dst = datagram->src,
		.scope = datagram->scope,
		.traffic_class = datagram->traffic_class,
	};
}

static bool route_cm(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
		     struct vb_gsi_datagram *answer)
{
	struct vb_cm_message message, stray;

	if (vb_cm_parse(datagram->mad, sizeof(datagram->mad), &message)) {
		vb_gsi_count(gsi, VB_GSI_MALFORMED);
		return false;
	}
	if (give_to_process(gsi, datagram, &message) != VB_GSI_ABSENT)
		return false;
	if (!vb_cm_stray(&message, &stray)) {
		vb_gsi_count(gsi, VB_GSI_NOBODY);
		return false;
	}
	vb_gsi_count(gsi, VB_GSI_ANSWERED);
	turn_back(datagram, answer);
	vb_cm_emit(&stray, answer->mad);
	return true;
}

/* --- other classes --- */

/* No process and no agent of this host has the class. */
static void refuse_class(const struct vb_gsi_datagram *datagram, struct vb_mad mad,
			 struct vb_gsi_datagram *answer)
{
	turn_back(datagram, answer);
	memcpy(answer->mad, datagram->mad, sizeof(answer->mad));
	mad.method = vb_mad_method_of_answer(mad.method);
	mad.status = VB_MAD_BAD_VERSION;
	vb_mad_emit(&mad, answer->mad);
}

static bool route_other(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
			const struct vb_mad *mad, struct vb_gsi_datagram *answer)
{
	enum vb_gsi_fate fate;

	if (vb_mad_is_response(mad)) {
		fate = vb_gsi_to_file(gsi, datagram, mad->transaction_id);
	} else if (vb_agent_has_class(mad->management_class)) {
		vb_gsi_to_agent(gsi, datagram);
		return false;
	} else {
		fate = vb_gsi_to_server(gsi, datagram, mad);
	}
	if (fate != VB_GSI_ABSENT)
		return false;
	if (!vb_mad_is_request(mad)) {
		vb_gsi_count(gsi, VB_GSI_NOBODY);
		return false;
	}
	vb_gsi_count(gsi, VB_GSI_ANSWERED);
	refuse_class(datagram, *mad, answer);
	return true;
}

bool vb_gsi_route(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
		  struct vb_gsi_datagram *answer)
{
	struct vb_mad mad;

	vb_mad_parse(datagram->mad, &mad);
	return mad.management_class == VB_MAD_CLASS_CM ? route_cm(gsi, datagram, answer)
						       : route_other(gsi, datagram, &mad, answer);
}
