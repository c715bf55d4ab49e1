/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/route.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/result.h"
#include "verbs/symver.h"

enum { EXACTLY = 2 }; /* selector of MTU, rate and lifetime in a path record */

static bool is_ipv4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw);
}

/* Spreads connections over the ports of a link, as Linux does; never 0 where ports are known. */
static uint32_t flow_label(const struct vb_cma_id *id)
{
	uint32_t src = vb_address_port(&id->id.route.addr.src_addr);
	uint32_t dst = vb_address_port(&id->id.route.addr.dst_addr);

	return (src * 31 + dst) & 0xfffff;
}

static uint8_t lifetime(const struct vb_cma_id *id)
{
	return id->ack_timeout_set && id->ack_timeout ? id->ack_timeout - 1 : VB_CMA_LIFETIME;
}

/* The route may be narrower than the interface: by its own MTU, or one that routers told of. */
static enum ibv_mtu mtu_of(const struct vb_cma_id *id, const struct ibv_port_attr *port)
{
	return id->route_mtu && id->route_mtu < port->active_mtu ? id->route_mtu : port->active_mtu;
}

static void fill(const struct vb_cma_id *id, struct ibv_sa_path_rec *path)
{
	struct ibv_port_attr port = { 0 };

	(void)ibv_query_port(id->device->verbs, 1, &port);
	path->sgid = id->sgid;
	path->dgid = id->dgid;
	path->flow_label = htobe32(flow_label(id));
	path->hop_limit = VB_CMA_HOP_LIMIT;
	path->traffic_class = id->tos;
	path->reversible = 1;
	path->numb_path = 1;
	path->pkey = id->id.route.addr.addr.ibaddr.pkey;
	path->mtu_selector = path->rate_selector = path->packet_life_time_selector = EXACTLY;
	path->mtu = mtu_of(id, &port);
	path->rate = IBV_RATE_10_GBPS;
	path->packet_life_time = lifetime(id);
}

/* What the peer decides: it made the request. */
static void follow(const struct vb_cma_id *id, struct ibv_sa_path_rec *path)
{
	path->mtu = id->request_mtu;
	path->flow_label = htobe32(id->request_path.flow_label);
	path->traffic_class = id->request_path.traffic_class;
	if (id->request_path.ack_timeout)
		path->packet_life_time = id->request_path.ack_timeout - 1;
}

int vb_cma_path_make(struct vb_cma_id *id)
{
	struct ibv_sa_path_rec *path = calloc(1, sizeof(*path));

	if (!path)
		return -ENOMEM;
	fill(id, path);
	if (id->passive && id->id.qp_type != IBV_QPT_UD)
		follow(id, path);
	free(id->id.route.path_rec);
	id->id.route.path_rec = path;
	id->id.route.num_paths = 1;
	return 0;
}

/* GIDs of the port with the same IP version; a link-local one is the last choice. */
static int sgid_index_of_family(struct vb_cma_id *id)
{
	union ibv_gid gid;
	int found = -ENODATA;

	for (int i = 0; !ibv_query_gid(id->device->verbs, 1, i, &gid); i++) {
		if (!gid.global.subnet_prefix && !gid.global.interface_id)
			continue;
		if (is_ipv4(&gid) != is_ipv4(&id->sgid))
			continue;
		found = i;
		if (!IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid.raw))
			break;
	}
	return found;
}

int vb_cma_sgid_index(struct vb_cma_id *id)
{
	int index = vb_cma_device_gid_index(id->device, &id->sgid);

	return index >= 0 ? index : sgid_index_of_family(id);
}

static union ibv_gid loopback(bool ipv4)
{
	union ibv_gid gid = { .raw = { [15] = 1 } };

	if (ipv4) {
		gid.raw[10] = gid.raw[11] = 0xff;
		gid.raw[12] = 127;
	}
	return gid;
}

/*
 * A port has GIDs of its own interface, and no loopback ones; identifiers may have any address of this
 * host.
 * Both sides see it if one of the two addresses is not a GID, and then mean "this host".
 */
static bool means_this_host(struct vb_cma_id *id)
{
	return vb_cma_engine()->gid_is_local(&id->dgid) &&
	       (vb_cma_device_gid_index(id->device, &id->sgid) < 0 ||
		vb_cma_device_gid_index(id->device, &id->dgid) < 0);
}

/* To another host packets need the very address that it knows of us. */
static int sgid_index(struct vb_cma_id *id)
{
	const bool here = vb_cma_engine()->gid_is_local(&id->dgid);
	int index = here ? vb_cma_sgid_index(id) : vb_cma_device_gid_index(id->device, &id->sgid);
	char text[INET6_ADDRSTRLEN];

	if (index < 0)
		vb_explain("%s is no GID of device %s: it was removed, or the table is full",
			   inet_ntop(AF_INET6, id->sgid.raw, text, sizeof(text)),
			   ibv_get_device_name(id->device->device));
	return index;
}

int vb_cma_ah_attr(struct vb_cma_id *id, struct ibv_ah_attr *attr)
{
	const struct ibv_sa_path_rec *path = id->id.route.path_rec;
	int index = sgid_index(id);

	memset(attr, 0, sizeof(*attr));
	if (index < 0)
		return index;
	attr->is_global = 1;
	attr->port_num = 1;
	attr->sl = path ? path->sl : 0;
	attr->grh.dgid = means_this_host(id) ? loopback(is_ipv4(&id->sgid)) : id->dgid;
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.hop_limit = path ? path->hop_limit : VB_CMA_HOP_LIMIT;
	attr->grh.traffic_class = path ? path->traffic_class : id->tos;
	attr->grh.flow_label = path ? be32toh(path->flow_label) : 0;
	return 0;
}

/* The path that goes both ways, of those that the application gives. */
static const struct ibv_path_data *usable(const struct ibv_path_data *data, size_t count)
{
	const uint32_t wanted =
		IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;

	for (size_t i = 0; i < count; i++) {
		if ((data[i].flags & wanted) == wanted)
			return &data[i];
	}
	return NULL;
}

int vb_cma_pkey_index(const struct vb_cma_id *id)
{
	const struct rdma_route *route = &id->id.route;

	return vb_cma_engine()->pkey_index(
		be16toh(route->path_rec ? route->path_rec->pkey : route->addr.addr.ibaddr.pkey));
}

static void follow_data(const struct ibv_path_record *record, struct ibv_sa_path_rec *path)
{
	uint32_t label_and_hops = be32toh(record->flowlabel_hoplimit);

	path->flow_label = htobe32(label_and_hops >> 8 & 0xfffff);
	if (label_and_hops & 0xff)
		path->hop_limit = (uint8_t)label_and_hops;
	path->traffic_class = record->tclass;
	if (record->pkey)
		path->pkey = record->pkey;
	path->sl = be16toh(record->qosclass_sl) & 0xf;
	if (record->mtu & 0x3f)
		path->mtu = record->mtu & 0x3f;
	if (record->packetlifetime & 0x3f)
		path->packet_life_time = record->packetlifetime & 0x3f;
}

static bool same_ends(const struct vb_cma_id *id, const struct ibv_path_record *record)
{
	return !memcmp(&record->sgid, &id->sgid, sizeof(id->sgid)) &&
	       !memcmp(&record->dgid, &id->dgid, sizeof(id->dgid));
}

static int resolved(struct vb_cma_id *id)
{
	int err;

	vb_cma_lock();
	err = vb_cma_event_raise(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	if (!err)
		id->state = VB_CMA_ROUTE_RESOLVED;
	vb_cma_unlock();
	return err;
}

int vb_cma_route_set(struct vb_cma_id *id, const void *data, size_t size)
{
	const struct ibv_path_data *path;
	int err = vb_cma_id_expect(id, VB_CMA_ADDR_RESOLVED, "rdma_set_option");

	if (err)
		return err;
	path = data && !(size % sizeof(*path)) ? usable(data, size / sizeof(*path)) : NULL;
	if (!path || !same_ends(id, &path->path)) {
		vb_explain("rdma_set_option: none of the paths is a primary one, for both "
			   "directions and for messages, between the resolved addresses");
		return -EINVAL;
	}
	err = vb_cma_path_make(id);
	if (err)
		return err;
	follow_data(&path->path, id->id.route.path_rec);
	return resolved(id);
}

VB_PUBLIC int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	struct vb_cma_id *self = vb_cma_id(id);
	const bool sync = self->sync;
	int err = vb_cma_id_expect(self, VB_CMA_ADDR_RESOLVED, "rdma_resolve_route");

	(void)timeout_ms; /* there is nobody to ask */
	if (!err)
		err = vb_cma_path_make(self);
	if (!err)
		err = resolved(self);
	if (!err)
		err = vb_cma_complete(self, sync);
	return vb_return_minus_one(err);
}
