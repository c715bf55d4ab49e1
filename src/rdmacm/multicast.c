/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_join_multicast and rdma_leave_multicast. There is no subnet manager to ask: the address is
 * the group, and attached QPs bring the membership (IGMP, MLD). Only a join that names no group
 * makes a new one.
 */
#include "rdmacm/multicast.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/random.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/qp.h"
#include "rdmacm/route.h"
#include "rdmacm/system.h"

#define MULTICAST_QPN 0xffffffu

void vb_cma_group_acked(struct vb_cma_group *group)
{
	group->events_acked++;
}

/* Under the lock. */
static bool is_left(const struct vb_cma_group *group)
{
	return vb_list_empty(&group->node);
}

/*
 * This thread holds the QP until group->attached is set, so a thread that destroys the QP detaches
 * it. A thread that leaves the group meanwhile finds nothing to detach: this one detaches.
 */
static int group_attach(struct vb_cma_id *id, struct vb_cma_group *group)
{
	struct ibv_qp *qp;
	bool left;
	int err;

	if (group->send_only)
		return 0;
	qp = vb_cma_qp_hold(id);
	err = qp ? ibv_attach_mcast(qp, &group->mgid, group->mlid) : 0;
	vb_cma_lock();
	left = is_left(group);
	group->attached = !err && !left;
	vb_cma_unlock();
	if (qp && !err && left)
		(void)ibv_detach_mcast(qp, &group->mgid, group->mlid);
	vb_cma_qp_release(id, qp);
	return -err;
}

static int fill_ud_param(struct vb_cma_id *id, struct vb_cma_group *group,
			 struct rdma_ud_param *param)
{
	/* An InfiniBand port has one GID. */
	int index = vb_cma_is_infiniband(id) ? 0 : vb_cma_sgid_index(id);

	if (index < 0)
		return index;
	param->qp_num = MULTICAST_QPN;
	param->qkey = vb_cma_qkey(id);
	param->ah_attr.dlid = group->mlid;
	param->ah_attr.is_global = 1;
	param->ah_attr.port_num = 1;
	param->ah_attr.grh.dgid = group->mgid;
	param->ah_attr.grh.sgid_index = (uint8_t)index;
	param->ah_attr.grh.hop_limit = VB_CMA_HOP_LIMIT;
	param->ah_attr.grh.traffic_class = id->tos;
	return 0;
}

void vb_cma_group_joined(struct vb_cma_event *event)
{
	struct vb_cma_id *id = event->owner;
	int err;

	event->event.param.ud.private_data = event->group->context;
	err = fill_ud_param(id, event->group, &event->event.param.ud);
	if (!err)
		err = group_attach(id, event->group);
	if (!err)
		return;
	event->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
	event->event.status = err;
}

/*
 * The MGID of an IP group on InfiniBand (RFC 4391, 4), with the signature of RDMA_PS_UDP as on
 * Linux. An IPv6 address in the form of a subnet manager's MGID is an MGID already. The P_Key is
 * that of the port, and the scope is link-local. The MGID has 28 or 80 bits of the address, so a
 * unicast address names a group as well. Linux takes such addresses, and programs pass them.
 */
static union ibv_gid mgid_of_ip(const struct vb_cma_id *id, const struct sockaddr *addr)
{
	const bool ipv4 = addr->sa_family == AF_INET;
	const uint8_t *ip = ipv4 ? (const uint8_t *)&((const struct sockaddr_in *)addr)->sin_addr
				 : ((const struct sockaddr_in6 *)addr)->sin6_addr.s6_addr;
	union ibv_gid mgid = { .raw = { 0xff, 0x12, ipv4 ? 0x40 : 0x60, 0x1b, 0xff, 0xff } };

	if (!ipv4 && ip[0] == 0xff && ip[1] >> 4 == 1 && ip[2] == 0xa0 && ip[3] == 0x1b) {
		memcpy(mgid.raw, ip, sizeof(mgid.raw));
		return mgid;
	}
	if (id->id.ps == RDMA_PS_UDP)
		mgid.raw[3] = 0x01;
	memcpy(mgid.raw + (ipv4 ? 12 : 6), ip + (ipv4 ? 0 : 6), ipv4 ? 4 : 10);
	if (ipv4)
		mgid.raw[12] &= 0x0f;
	return mgid;
}

/*
 * A new group, as a subnet manager would make it: its signature, the prefix of the subnet, and a
 * random number.
 */
static union ibv_gid mgid_new(const struct vb_cma_id *id)
{
	union ibv_gid mgid = { .raw = { 0xff, 0x12, 0xa0, 0x1b } };
	uint32_t number = (uint32_t)vb_random64();

	memcpy(mgid.raw + 4, id->id.route.addr.addr.ibaddr.sgid.raw, 8);
	memcpy(mgid.raw + 12, &number, sizeof(number));
	return mgid;
}

/* As on Linux, a loopback address names no group either. */
static bool names_no_group(const struct sockaddr *addr)
{
	return vb_address_is_any(addr) || vb_address_is_loopback(addr);
}

/* No subnet manager assigns MLIDs, so the MLID follows from the MGID. */
static uint16_t mlid_of(const union ibv_gid *mgid)
{
	enum { FIRST = 0xc001, COUNT = 0xfffe - FIRST + 1 };
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < sizeof(mgid->raw); i++)
		hash = (hash ^ mgid->raw[i]) * 16777619u;
	return (uint16_t)(FIRST + hash % COUNT);
}

static void name_group(const struct vb_cma_id *id, struct vb_cma_group *group,
		       const struct sockaddr *addr)
{
	/* RoCEv2: the MGID of an IPv4 group is the mapped address, that of an IPv6 group itself. */
	group->mgid = vb_address_gid(addr);
	if (!vb_cma_is_infiniband(id))
		return;
	if (names_no_group(addr))
		group->mgid = mgid_new(id);
	else if (addr->sa_family != AF_IB)
		group->mgid = mgid_of_ip(id, addr);
	group->mlid = mlid_of(&group->mgid);
}

static struct vb_cma_group *group_new(const struct vb_cma_id *id, const struct sockaddr *addr,
				      bool send_only, void *context)
{
	struct vb_cma_group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	vb_list_init(&group->node);
	memcpy(&group->addr, addr, vb_address_size(addr));
	name_group(id, group, addr);
	group->send_only = send_only;
	group->context = context;
	return group;
}

/* Under the lock. */
static int queue_join(struct vb_cma_id *id, struct vb_cma_group *group)
{
	struct vb_cma_event *event = vb_cma_event_create(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);

	if (!event)
		return -ENOMEM;
	event->group = group;
	vb_list_append(&id->groups, &group->node);
	vb_cma_channel_queue(vb_cma_channel_of(id), event);
	return 0;
}

/* A RoCE group is a multicast address. An InfiniBand group is made from any address. */
static bool is_group(const struct vb_cma_id *id, const struct sockaddr *addr)
{
	if (vb_address_is_multicast(addr))
		return true;
	return vb_cma_is_infiniband(id) && (addr->sa_family != AF_IB || names_no_group(addr));
}

static int check_join(struct vb_cma_id *id, const struct sockaddr *addr)
{
	char text[VB_ADDRESS_TEXT];

	if (!vb_cma_is_datagram(id)) {
		vb_explain("rdma_join_multicast: the identifier is of RDMA_PS_%s; groups are for "
			   "RDMA_PS_UDP and RDMA_PS_IPOIB",
			   id->id.ps == RDMA_PS_TCP ? "TCP" : "IB");
		return -EINVAL;
	}
	if (!id->device || id->state == VB_CMA_REMOVED) {
		vb_explain("rdma_join_multicast: the identifier is not bound to a device: bind it "
			   "to an address or resolve one first");
		return -EINVAL;
	}
	if (!vb_address_size(addr) || !is_group(id, addr)) {
		vb_explain("rdma_join_multicast: %s is no multicast address",
			   vb_address_size(addr) ? vb_address_print(addr, text) : "the argument");
		return -EINVAL;
	}
	return 0;
}

static int join_group(struct vb_cma_id *id, const struct sockaddr *addr, bool send_only,
		      void *context)
{
	const bool sync = id->sync;
	struct vb_cma_group *group;
	int err = vb_cma_stale(id->generation, "rdma_join_multicast");

	if (!err)
		err = check_join(id, addr);
	if (err)
		return err;
	group = group_new(id, addr, send_only, context);
	if (!group)
		return -ENOMEM;
	vb_cma_lock();
	err = queue_join(id, group);
	vb_cma_unlock();
	if (err)
		free(group);
	return err ? err : vb_cma_event_wait(id, sync);
}

VB_PUBLIC int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	VB_NO_CANCEL;
	VB_CMA_PASS_WAIT(id, rdma_join_multicast, (shadow, addr, context));

	return vb_return_minus_one(join_group(vb_cma_id(id), addr, false, context));
}

VB_PUBLIC int rdma_join_multicast_ex(struct rdma_cm_id *id,
				     struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context)
{
	VB_NO_CANCEL;
	VB_CMA_PASS_WAIT(id, rdma_join_multicast_ex, (shadow, mc_join_attr, context));
	const uint32_t needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if ((mc_join_attr->comp_mask & needed) != needed ||
	    mc_join_attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED ||
	    mc_join_attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		vb_explain("rdma_join_multicast_ex: comp_mask 0x%x must name address and "
			   "join_flags (0x%x) and nothing else, and join_flags %u be below %u",
			   mc_join_attr->comp_mask, needed, mc_join_attr->join_flags,
			   RDMA_MC_JOIN_FLAG_RESERVED);
	if (mc_join_attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return vb_return_minus_one(-EOPNOTSUPP);
	if ((mc_join_attr->comp_mask & needed) != needed ||
	    mc_join_attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return vb_return_minus_one(-EINVAL);
	return vb_return_minus_one(join_group(
		vb_cma_id(id), mc_join_attr->addr,
		mc_join_attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context));
}

/* Compares the whole address, with its port. Under the lock. */
static struct vb_cma_group *group_find(struct vb_cma_id *id, const struct sockaddr *addr)
{
	vb_list_for(group, &id->groups, struct vb_cma_group, node) {
		if (!memcmp(&group->addr, addr, vb_address_size(addr)))
			return group;
	}
	return NULL;
}

/* Drops the event of a join that no thread has fetched. Under the lock. */
static void cancel_join(struct vb_cma_id *id, struct vb_cma_group *group)
{
	struct vb_cma_channel *channel = vb_cma_channel_of(id);

	if (!channel)
		return;
	vb_list_for(event, &channel->events, struct vb_cma_event, node) {
		if (event->group != group)
			continue;
		vb_cma_channel_withdraw(channel, event);
		free(event);
	}
}

/* Takes the group with this address out of the list, and detaches the QP. NULL: not joined. */
static struct vb_cma_group *group_take(struct vb_cma_id *id, const struct sockaddr *addr)
{
	/* First: a thread that destroys the QP waits for the release, or has detached it before. */
	struct ibv_qp *qp = vb_cma_qp_hold(id);
	struct vb_cma_group *group;
	bool attached = false;

	vb_cma_lock();
	group = group_find(id, addr);
	if (group) {
		vb_list_remove(&group->node);
		cancel_join(id, group);
		attached = group->attached;
	}
	vb_cma_unlock();
	if (qp && attached)
		(void)ibv_detach_mcast(qp, &group->mgid, group->mlid);
	vb_cma_qp_release(id, qp);
	return group;
}

static int leave_group(struct vb_cma_id *id, const struct sockaddr *addr)
{
	struct vb_cma_group *group;
	int err = vb_cma_stale(id->generation, "rdma_leave_multicast");

	if (err)
		return err;
	group = group_take(id, addr);
	if (!group) {
		vb_explain("rdma_leave_multicast: the identifier has not joined the group");
		return -EADDRNOTAVAIL;
	}
	if (id->sync && id->id.event && ((struct vb_cma_event *)id->id.event)->group == group) {
		/* The library acknowledges the events of synchronous identifiers. */
		rdma_ack_cm_event(id->id.event);
		id->id.event = NULL;
	}
	vb_cma_lock();
	while (group->events_acked != group->events_reported)
		vb_cma_wait(&id->acked);
	vb_cma_unlock();
	free(group);
	return 0;
}

VB_PUBLIC int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	VB_NO_CANCEL;
	VB_CMA_PASS(id, rdma_leave_multicast, (shadow, addr));

	if (!vb_address_size(addr))
		return vb_return_minus_one(-EINVAL);
	return vb_return_minus_one(leave_group(vb_cma_id(id), addr));
}

/* Finds an attached group and marks it as detached. False: there is none. */
static bool take_attached(struct vb_cma_id *id, union ibv_gid *mgid, uint16_t *mlid)
{
	bool found = false;

	vb_cma_lock();
	vb_list_for(group, &id->groups, struct vb_cma_group, node) {
		if (found || !group->attached)
			continue;
		group->attached = false;
		*mgid = group->mgid;
		*mlid = group->mlid;
		found = true;
	}
	vb_cma_unlock();
	return found;
}

void vb_cma_groups_detach(struct vb_cma_id *id, struct ibv_qp *qp)
{
	union ibv_gid mgid;
	uint16_t mlid;

	while (take_attached(id, &mgid, &mlid))
		(void)ibv_detach_mcast(qp, &mgid, mlid);
}

void vb_cma_groups_leave(struct vb_cma_id *id)
{
	struct ibv_qp *qp = vb_cma_qp_hold(id);

	if (qp)
		vb_cma_groups_detach(id, qp);
	vb_cma_qp_release(id, qp);
	vb_list_for(group, &id->groups, struct vb_cma_group, node) {
		vb_list_remove(&group->node);
		free(group);
	}
}
