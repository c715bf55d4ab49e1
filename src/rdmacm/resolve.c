/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_resolve_addr: the kernel's routing table names the source address, and so the device, for a
 * destination. If the kernel also knows the neighbour on the way, the event is queued before the
 * call returns.
 */
#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/bind.h"
#include "rdmacm/neighbour.h"
#include "rdmacm/system.h"

static int check_families(const struct sockaddr *src, const struct sockaddr *dst)
{
	if (!vb_address_size(dst) || (src && !vb_address_size(src))) {
		vb_explain("rdma_resolve_addr: addresses must be AF_INET, AF_INET6 or AF_IB");
		return -EINVAL;
	}
	if (src && src->sa_family != dst->sa_family) {
		vb_explain("rdma_resolve_addr: source and destination are of different families");
		return -EINVAL;
	}
	return 0;
}

/* Binds an IDLE id to the source, or to the wildcard of the family. */
static int bind_source(struct vb_cma_id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	struct sockaddr_storage any = { .ss_family = dst->sa_family };

	if (id->state != VB_CMA_IDLE)
		return 0;
	return vb_cma_bind(id, src ? src : (struct sockaddr *)&any, "rdma_resolve_addr");
}

/* The wildcard as a destination means this host, as with sockets. */
static void take_destination(struct vb_cma_id *id, const struct sockaddr *dst)
{
	struct rdma_addr *addrs = &id->id.route.addr;

	memset(&addrs->dst_storage, 0, sizeof(addrs->dst_storage));
	memcpy(&addrs->dst_storage, dst, vb_address_size(dst));
	if (!vb_address_is_any(dst))
		return;
	if (dst->sa_family == AF_INET)
		addrs->dst_sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (dst->sa_family == AF_INET6)
		addrs->dst_sin6.sin6_addr = in6addr_loopback;
	/* find_ports replaces a wildcard GID, when the device is known. */
}

/* Replaces a wildcard with the address that the route chose, and keeps the port. */
static void take_source(struct vb_cma_id *id, const struct vb_engine_route *route)
{
	struct rdma_addr *addrs = &id->id.route.addr;
	struct sockaddr_storage chosen;

	id->source_chosen = vb_address_is_any(&addrs->src_addr);
	if (!id->source_chosen || addrs->src_addr.sa_family == AF_IB)
		return;
	vb_address_from_gid(&chosen, &route->src, (uint32_t)route->ifindex,
			    vb_address_port(&addrs->src_addr));
	if (chosen.ss_family == addrs->src_addr.sa_family)
		memcpy(&addrs->src_storage, &chosen, sizeof(chosen));
	else if (addrs->src_addr.sa_family == AF_INET6) /* a mapped IPv4 address */
		memcpy(&addrs->src_sin6.sin6_addr, route->src.raw, sizeof(route->src.raw));
}

/* An earlier try over another device failed: the id may change its device. */
static void leave_device(struct vb_cma_id *id, const struct vb_engine_route *route)
{
	if (id->device && id->device->device != route->device && !id->id.qp &&
	    vb_address_is_any(&id->id.route.addr.src_addr))
		vb_cma_id_detach(id);
}

static int take_route(struct vb_cma_id *id, const struct vb_engine_route *route)
{
	int err;

	leave_device(id, route);
	err = vb_cma_id_attach(id, route->device);
	if (err)
		return err;
	take_source(id, route);
	id->sgid = route->src;
	id->dgid = route->dst;
	id->ifindex = route->ifindex;
	id->scope = route->scope;
	id->route_mtu = route->mtu;
	id->id.route.addr.addr.ibaddr.sgid = route->src;
	id->id.route.addr.addr.ibaddr.dgid = route->dst;
	/* Answers of other hosts come to this address. */
	if (!route->local)
		(void)vb_cma_engine()->gsi_listen(&id->sgid);
	return 0;
}

/* An unknown port has an address but no path, as with a subnet manager. */
static int ask_ib_route(const struct rdma_addr *addrs, struct vb_engine_route *route)
{
	const union ibv_gid src = vb_address_gid(&addrs->src_addr);
	const union ibv_gid dst = vb_address_gid(&addrs->dst_addr);
	int err = vb_cma_engine()->ib_route(&src, &dst, route);

	if (err != -EHOSTUNREACH)
		return err;
	route->local = true; /* there is no neighbour to wait for */
	return 0;
}

static int ask_route(const struct rdma_addr *addrs, struct vb_engine_route *route)
{
	const struct sockaddr *src = &addrs->src_addr;

	if (addrs->dst_addr.sa_family == AF_IB)
		return ask_ib_route(addrs, route);
	return vb_cma_engine()->route(vb_address_is_any(src) ? NULL : src, &addrs->dst_addr, route);
}

static int find_route(struct vb_cma_id *id, bool *local)
{
	struct vb_engine_route route;
	int err = ask_route(&id->id.route.addr, &route);

	*local = !err && route.local;
	return err ? err : take_route(id, &route);
}

static bool is_unset(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

/* The GID of a port replaces a wildcard or loopback address. */
static void take_gid(struct sockaddr *addr, const union ibv_gid *gid)
{
	if (vb_address_is_any(addr) || vb_address_is_loopback(addr))
		memcpy(&((struct sockaddr_ib *)addr)->sib_addr, gid->raw, sizeof(gid->raw));
}

/* Finds the ports of both addresses. The kernel knows the neighbour by now. */
static void find_ports(struct vb_cma_id *id)
{
	struct rdma_addr *addrs = &id->id.route.addr;

	id->ib = vb_cma_engine()->ib_path(id->device->device, &id->sgid, &id->dgid, id->scope);
	if (is_unset(&id->dgid))
		id->ib.dlid = 0;
	if (vb_cma_is_by_gid(id)) {
		take_gid(&addrs->src_addr, &id->ib.sgid);
		take_gid(&addrs->dst_addr, &id->ib.dgid);
		id->ib.dgid = vb_address_gid(&addrs->dst_addr);
	}
	addrs->addr.ibaddr.sgid = id->ib.sgid;
	addrs->addr.ibaddr.dgid = id->ib.dgid;
}

static void reset_source(struct vb_cma_id *id)
{
	struct rdma_addr *addrs = &id->id.route.addr;
	const uint16_t port = vb_address_port(&addrs->src_addr);
	const sa_family_t family = addrs->src_addr.sa_family;

	if (!id->source_chosen)
		return;
	if (family == AF_IB) {
		memset(&((struct sockaddr_ib *)&addrs->src_addr)->sib_addr, 0, 16);
	} else {
		memset(&addrs->src_storage, 0, sizeof(addrs->src_storage));
		addrs->src_addr.sa_family = family;
		vb_address_set_port(&addrs->src_addr, port);
	}
	id->source_chosen = false;
}

static bool is_here(const struct sockaddr *dst)
{
	const union ibv_gid gid = vb_address_gid(dst);

	return dst->sa_family != AF_IB && vb_cma_engine()->gid_is_local(&gid);
}

static const char *why_no_device(const struct sockaddr *dst)
{
	if (dst->sa_family == AF_IB)
		return "no InfiniBand port of this host is in its subnet, or has the source GID";
	return is_here(dst) ? "the address belongs to an interface of this host that has no RDMA "
			      "device; VERBENA_DEVICES chooses those that have one"
			    : "the interface of its route has no RDMA device; VERBENA_DEVICES "
			      "chooses those that have one";
}

static void explain_error(const struct vb_cma_id *id, int err)
{
	const struct sockaddr *dst = &id->id.route.addr.dst_addr;
	char text[VB_ADDRESS_TEXT];

	vb_explain("rdma_resolve_addr: %s cannot be reached: %s", vb_address_print(dst, text),
		   err == -ENODEV ? why_no_device(dst) : strerror(-err));
}

/* Under the lock. */
static int report_address(struct vb_cma_id *id, int err)
{
	const bool found = !err;

	if (found && vb_cma_is_infiniband(id))
		find_ports(id);
	err = vb_cma_event_raise(id, found ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR,
				 err);
	if (!err && found) {
		id->state = VB_CMA_ADDR_RESOLVED;
		(void)vb_cma_claim_open(id);
	} else {
		id->state = VB_CMA_ADDR_BOUND;
		reset_source(id);
	}
	return err;
}

void vb_cma_resolved(struct vb_cma_id *id, int err)
{
	if (err)
		explain_error(id, err);
	(void)report_address(id, err);
}

static int wait_or_report(struct vb_cma_id *id, bool known, int timeout_ms)
{
	int err = 0;

	vb_cma_lock();
	if (known) {
		err = report_address(id, 0);
	} else {
		id->state = VB_CMA_ADDR_QUERY;
		vb_cma_neighbour_wait(id, timeout_ms, vb_now_ns());
		vb_cma_rearm();
	}
	vb_cma_unlock();
	return err;
}

/*
 * A route to another host over an interface without device causes an event, as on Linux. The call
 * itself fails without a route, without a device for an address of this host, and without a port
 * for a GID.
 */
static int not_found(struct vb_cma_id *id, int err)
{
	const struct sockaddr *dst = &id->id.route.addr.dst_addr;

	explain_error(id, err);
	if (err != -ENODEV || dst->sa_family == AF_IB || is_here(dst))
		return err;
	vb_cma_lock();
	err = report_address(id, err);
	vb_cma_unlock();
	return err;
}

static int resolve_address(struct vb_cma_id *id, const struct sockaddr *src,
			   const struct sockaddr *dst, int timeout_ms)
{
	bool local = false;
	int err = check_families(src, dst);

	if (!err)
		err = bind_source(id, src, dst);
	if (!err)
		err = vb_cma_id_expect(id, VB_CMA_ADDR_BOUND, "rdma_resolve_addr");
	if (!err && id->id.route.addr.src_addr.sa_family != dst->sa_family) {
		vb_explain("rdma_resolve_addr: the identifier is bound to another address family");
		err = -EINVAL;
	}
	if (err)
		return err;
	take_destination(id, dst);
	err = find_route(id, &local);
	if (err)
		return not_found(id, err);
	return wait_or_report(id, local || vb_cma_neighbour_is_known(id), timeout_ms);
}

VB_PUBLIC int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr,
				struct sockaddr *dst_addr, int timeout_ms)
{
	VB_NO_CANCEL;
	if (!vb_cma_is_systems(id))
		(void)vb_cma_system_carries(vb_cma_id(id), src_addr, dst_addr);
	VB_CMA_PASS_WAIT(id, rdma_resolve_addr, (shadow, src_addr, dst_addr, timeout_ms));
	const bool sync = vb_cma_id(id)->sync;
	int err = resolve_address(vb_cma_id(id), src_addr, dst_addr, timeout_ms);

	if (!err)
		err = vb_cma_event_wait(vb_cma_id(id), sync);
	return vb_return_minus_one(err);
}
