/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/route.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/system.h"

enum { EXACTLY = 2 }; /* selector of MTU, rate and lifetime in a path record */

static bool is_ipv4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw);
}

/* The label spreads connections over parallel links, as on Linux. */
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

/* The route may have a smaller MTU than the interface: its own, or one that routers reported. */
static enum ibv_mtu mtu_of(const struct vb_cma_id *id, const struct ibv_port_attr *port)
{
	return id->route_mtu && id->route_mtu < port->active_mtu ? id->route_mtu : port->active_mtu;
}

/* Packets within a subnet have no GRH, so the path has no label and no hops. */
static void fill_ports(const struct vb_cma_id *id, struct ibv_sa_path_rec *path)
{
	path->sgid = id->ib.sgid;
	path->dgid = id->ib.dgid;
	path->slid = htobe16(id->ib.slid);
	path->dlid = htobe16(id->ib.dlid);
}

static void fill_addresses(const struct vb_cma_id *id, struct ibv_sa_path_rec *path)
{
	path->sgid = id->sgid;
	path->dgid = id->dgid;
	path->flow_label = htobe32(flow_label(id));
	path->hop_limit = VB_CMA_HOP_LIMIT;
	path->traffic_class = id->tos;
}

static void fill_path(const struct vb_cma_id *id, struct ibv_sa_path_rec *path)
{
	struct ibv_port_attr port = { 0 };

	(void)ibv_query_port(id->device->verbs, 1, &port);
	if (vb_cma_is_infiniband(id))
		fill_ports(id, path);
	else
		fill_addresses(id, path);
	path->reversible = 1;
	path->numb_path = 1;
	path->pkey = id->id.route.addr.addr.ibaddr.pkey;
	path->mtu_selector = path->rate_selector = path->packet_life_time_selector = EXACTLY;
	path->mtu = mtu_of(id, &port);
	path->rate = IBV_RATE_10_GBPS;
	path->packet_life_time = lifetime(id);
}

/* The peer decides these values with its request. */
static void follow(const struct vb_cma_id *id, const struct vb_cm_path *asked,
		   struct ibv_sa_path_rec *path)
{
	path->mtu = id->request_mtu;
	path->flow_label = htobe32(asked->flow_label);
	path->traffic_class = asked->traffic_class;
	path->sl = asked->sl;
	if (asked->ack_timeout)
		path->packet_life_time = asked->ack_timeout - 1;
	if (!vb_cma_is_infiniband(id))
		return;
	path->slid = htobe16(asked->remote_lid);
	path->dlid = htobe16(asked->local_lid);
	path->sgid = asked->remote_gid;
	path->dgid = asked->local_gid;
}

/* The second path is the alternate one. */
static void follow_alternate(struct vb_cma_id *id, struct ibv_sa_path_rec *paths)
{
	paths[1] = paths[0];
	follow(id, &id->request_alternate, &paths[1]);
	paths[1].mtu = paths[0].mtu;
	id->id.route.num_paths = VB_CMA_PATHS;
}

void vb_cma_path_take_alternate(struct vb_cma_id *id)
{
	vb_cma_lock(); /* another LAP may write request_alternate */
	follow_alternate(id, id->id.route.path_rec);
	vb_cma_unlock();
}

static void fill_passive(struct vb_cma_id *id, struct ibv_sa_path_rec *paths)
{
	follow(id, &id->request_path, &paths[0]);
	if (vb_cma_is_infiniband(id) && vb_cm_path_has_lids(&id->request_alternate))
		follow_alternate(id, paths);
}

int vb_cma_path_make(struct vb_cma_id *id)
{
	struct ibv_sa_path_rec *paths = calloc(VB_CMA_PATHS, sizeof(*paths));

	if (!paths)
		return -ENOMEM;
	fill_path(id, paths);
	id->id.route.num_paths = 1;
	if (id->passive && !vb_cma_is_datagram(id))
		fill_passive(id, paths);
	free(id->id.route.path_rec);
	id->id.route.path_rec = paths;
	return 0;
}

/* Finds a GID of the same IP version, and prefers one that is not link-local. */
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
 * An identifier may have any address of this host, but a port has only GIDs of its own interface,
 * and no loopback ones. Both sides see that one of the two addresses is no GID, and then use the
 * loopback address for "this host".
 */
static bool means_this_host(struct vb_cma_id *id)
{
	return vb_cma_engine()->gid_is_local(&id->dgid) &&
	       (vb_cma_device_gid_index(id->device, &id->sgid) < 0 ||
		vb_cma_device_gid_index(id->device, &id->dgid) < 0);
}

/* Packets to another host must have the very address that the peer knows. */
static int sgid_index(struct vb_cma_id *id)
{
	const bool here = vb_cma_engine()->gid_is_local(&id->dgid);
	int index = here ? vb_cma_sgid_index(id) : vb_cma_device_gid_index(id->device, &id->sgid);
	char text[INET6_ADDRSTRLEN];

	if (index < 0)
		vb_explain(
			"%s is no GID of device %s: the address was removed, or the GID table is "
			"full",
			inet_ntop(AF_INET6, id->sgid.raw, text, sizeof(text)),
			ibv_get_device_name(id->device->device));
	return index;
}

const struct ibv_sa_path_rec *vb_cma_alternate_path(const struct vb_cma_id *id)
{
	return vb_cma_is_infiniband(id) && id->id.route.num_paths == VB_CMA_PATHS &&
			       !vb_cma_is_datagram(id)
		       ? &id->id.route.path_rec[1]
		       : NULL;
}

void vb_cma_ah_attr_of(const struct ibv_sa_path_rec *path, struct ibv_ah_attr *attr)
{
	*attr = (struct ibv_ah_attr){
		.dlid = be16toh(path->dlid),
		.sl = path->sl,
		.port_num = 1,
	};
}

int vb_cma_ah_attr(struct vb_cma_id *id, struct ibv_ah_attr *attr)
{
	const struct ibv_sa_path_rec *path = id->id.route.path_rec;
	int index;

	if (vb_cma_is_infiniband(id)) {
		vb_cma_ah_attr_of(path, attr);
		return 0;
	}
	index = sgid_index(id);
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

int vb_cma_path_data(struct ibv_device *device, const struct vb_ib_path *ib,
		     struct ibv_path_data *data)
{
	struct vb_cma_id id = { .ib = *ib };
	struct ibv_sa_path_rec path = { 0 };
	int err = vb_cma_device_acquire(device, &id.device);

	if (err)
		return err;
	fill_path(&id, &path);
	vb_cma_device_release(id.device);
	*data = (struct ibv_path_data){
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = { .dgid = path.dgid,
			  .sgid = path.sgid,
			  .dlid = path.dlid,
			  .slid = path.slid,
			  .reversible_numpath = IBV_PATH_RECORD_REVERSIBLE | 1,
			  .pkey = path.pkey,
			  .mtu = EXACTLY << 6 | path.mtu,
			  .rate = EXACTLY << 6 | path.rate,
			  .packetlifetime = EXACTLY << 6 | path.packet_life_time },
	};
	return 0;
}

/* Finds a path with the wanted flags that serves both directions. */
static const struct ibv_path_data *usable(const struct ibv_path_data *data, size_t count,
					  uint32_t wanted)
{
	wanted |= IBV_PATH_FLAG_BIDIRECTIONAL;
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
	if (record->slid && record->dlid) {
		path->slid = record->slid;
		path->dlid = record->dlid;
	}
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
	const struct rdma_ib_addr *ib = &id->id.route.addr.addr.ibaddr;

	return !memcmp(&record->sgid, &ib->sgid, sizeof(ib->sgid)) &&
	       !memcmp(&record->dgid, &ib->dgid, sizeof(ib->dgid));
}

static int report_route(struct vb_cma_id *id, int status)
{
	int err;

	vb_cma_lock();
	err = vb_cma_event_raise(
		id, status ? RDMA_CM_EVENT_ROUTE_ERROR : RDMA_CM_EVENT_ROUTE_RESOLVED, status);
	if (!err && !status)
		id->state = VB_CMA_ROUTE_RESOLVED;
	vb_cma_unlock();
	return err;
}

/* -EHOSTUNREACH, explained: there is no path between the ports. */
static int check_ports(const struct vb_cma_id *id)
{
	char text[VB_ADDRESS_TEXT];

	if (!vb_cma_is_infiniband(id) || id->ib.dlid)
		return 0;
	vb_explain("rdma_resolve_route: the LID of %s is unknown: the address must be in the IPv4 "
		   "subnet of the InfiniBand port's interface, and a neighbour of this host",
		   vb_address_print(&id->id.route.addr.dst_addr, text));
	return -EHOSTUNREACH;
}

/* Takes an alternate path between the same ports, if the application gives one. */
static void take_alternate(struct vb_cma_id *id, const struct ibv_path_data *data, size_t count)
{
	const struct ibv_path_data *path = usable(data, count, IBV_PATH_FLAG_ALTERNATE);
	struct ibv_sa_path_rec *paths = id->id.route.path_rec;

	if (!path || !vb_cma_is_infiniband(id) || !same_ends(id, &path->path))
		return;
	paths[1] = paths[0];
	follow_data(&path->path, &paths[1]);
	id->id.route.num_paths = VB_CMA_PATHS;
}

int vb_cma_route_set(struct vb_cma_id *id, const void *data, size_t size)
{
	const struct ibv_path_data *path = NULL;
	const size_t count = data && !(size % sizeof(*path)) ? size / sizeof(*path) : 0;
	int err = vb_cma_id_expect(id, VB_CMA_ADDR_RESOLVED, "rdma_set_option");

	if (err)
		return err;
	path = usable(data, count, IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY);
	if (!path || !same_ends(id, &path->path)) {
		vb_explain("rdma_set_option: none of the paths is a primary one, for both "
			   "directions and for messages, between the resolved addresses");
		return -EINVAL;
	}
	err = vb_cma_path_make(id);
	if (err)
		return err;
	follow_data(&path->path, id->id.route.path_rec);
	take_alternate(id, data, count);
	return report_route(id, check_ports(id));
}

VB_PUBLIC int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	VB_NO_CANCEL;
	VB_CMA_PASS_WAIT(id, rdma_resolve_route, (shadow, timeout_ms));
	struct vb_cma_id *self = vb_cma_id(id);
	const bool sync = self->sync;
	int err = vb_cma_id_expect(self, VB_CMA_ADDR_RESOLVED, "rdma_resolve_route");

	(void)timeout_ms; /* no subnet manager is asked */
	if (!err)
		err = vb_cma_path_make(self);
	if (!err)
		err = report_route(self, check_ports(self));
	if (!err)
		err = vb_cma_event_wait(self, sync);
	return vb_return_minus_one(err);
}
