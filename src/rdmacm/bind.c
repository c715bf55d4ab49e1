/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/bind.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/capability.h>

#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/io.h"
#include "rdmacm/system.h"

enum { PRIVILEGED_PORTS = 1024 };

uint16_t vb_cma_port_space(const struct vb_cma_id *id)
{
	return vb_address_port_space(&id->id.route.addr.src_addr, (uint16_t)id->id.ps);
}

enum vb_cm_family vb_cma_family(const struct vb_cma_id *id)
{
	const struct sockaddr *addr = &id->id.route.addr.src_addr;
	union ibv_gid gid = vb_address_gid(addr);

	if (addr->sa_family == AF_INET || IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid.raw))
		return VB_CM_IPV4;
	if ((addr->sa_family == AF_INET6 && id->afonly) || !vb_address_is_any(addr))
		return VB_CM_IPV6;
	return VB_CM_DUAL;
}

static bool may_take_privileged_port(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data))
		return false;
	return data[CAP_TO_INDEX(CAP_NET_BIND_SERVICE)].effective &
	       CAP_TO_MASK(CAP_NET_BIND_SERVICE);
}

/* The host's default of IPV6_V6ONLY. */
static bool bindv6only(void)
{
	char digit = '0';
	int fd = open("/proc/sys/net/ipv6/bindv6only", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (read(fd, &digit, 1) != 1)
		digit = '0';
	close(fd);
	return digit == '1';
}

static struct vb_cm_claim claim_of(const struct vb_cma_id *id)
{
	const struct sockaddr *addr = &id->id.route.addr.src_addr;
	struct vb_cm_claim claim = {
		.port_space = vb_cma_port_space(id),
		.port = vb_address_port(addr),
		.family = vb_cma_family(id),
		.scope = id->scope,
		.reuse = id->reuseaddr,
		.replaces = -1,
	};

	if (!vb_address_is_any(addr))
		claim.address = vb_address_gid(addr);
	return claim;
}

static const char *port_space_name(enum rdma_port_space ps)
{
	switch (ps) {
	case RDMA_PS_IPOIB:
		return "IPOIB";
	case RDMA_PS_TCP:
		return "TCP";
	case RDMA_PS_UDP:
		return "UDP";
	case RDMA_PS_IB:
		break;
	}
	return "IB";
}

static int explain_claim(int err, const struct vb_cma_id *id)
{
	char text[VB_ADDRESS_TEXT];

	vb_explain("port %s of RDMA_PS_%s cannot be taken: %s",
		   vb_address_print(&id->id.route.addr.src_addr, text), port_space_name(id->id.ps),
		   err == -EADDRINUSE ? "another identifier is bound to it"
		   : err == -EACCES   ? "ports below 1024 need CAP_NET_BIND_SERVICE"
				      : strerror(-err));
	return err;
}

static int claim_port(struct vb_cma_id *id)
{
	struct sockaddr *addr = &id->id.route.addr.src_addr;
	struct vb_cm_claim claim = claim_of(id);
	int fd;

	if (claim.port && claim.port < PRIVILEGED_PORTS && !may_take_privileged_port())
		return explain_claim(-EACCES, id);
	fd = vb_cma_engine()->gsi_claim(&claim);
	if (fd < 0)
		return explain_claim(fd, id);
	vb_address_set_port(addr, claim.port);
	id->reuseaddr = claim.reuse; /* rdma_listen claims the port again, exclusively */
	id->claim = fd;
	return 0;
}

int vb_cma_claim_open(struct vb_cma_id *id)
{
	return vb_cma_io_watch(id->claim, vb_cma_io_messages, 0);
}

static bool is_open(const struct vb_cma_id *id)
{
	return id->state != VB_CMA_ADDR_BOUND && id->state != VB_CMA_ADDR_QUERY;
}

int vb_cma_claim_renew(struct vb_cma_id *id)
{
	struct vb_cm_claim claim = claim_of(id);
	int fd;

	if (id->claim < 0)
		return 0;
	vb_cma_io_unwatch(id->claim);
	claim.replaces = id->claim;
	fd = vb_cma_engine()->gsi_claim(&claim);
	if (fd >= 0)
		id->claim = fd;
	if (is_open(id))
		(void)vb_cma_claim_open(id);
	return fd < 0 ? explain_claim(fd, id) : 0;
}

int vb_cma_claim_exclusive(struct vb_cma_id *id)
{
	int err;

	if (!id->reuseaddr)
		return 0;
	id->reuseaddr = false;
	err = vb_cma_claim_renew(id);
	id->reuseaddr = err;
	return err;
}

void vb_cma_unbind(struct vb_cma_id *id)
{
	if (id->claim < 0)
		return;
	vb_cma_io_unwatch(id->claim);
	vb_cma_engine()->gsi_release(id->claim);
	id->claim = -1;
}

static int explain_address(int err, const struct sockaddr *addr)
{
	char text[VB_ADDRESS_TEXT];

	vb_explain("rdma_bind_addr: %s is %s", vb_address_print(addr, text),
		   err == -EADDRNOTAVAIL ? "no address of this host"
		   : err == -ENODEV && addr->sa_family == AF_IB
			   ? "no GID of an InfiniBand port of this host; RoCE devices have IP "
			     "addresses"
		   : err == -ENODEV ? "on an interface that has no RDMA device; "
				      "VERBENA_DEVICES chooses those that have one"
				    : strerror(-err));
	return err;
}

int vb_cma_route_own(const struct sockaddr *addr, struct vb_engine_route *route)
{
	const union ibv_gid gid = vb_address_gid(addr);

	return addr->sa_family == AF_IB ? vb_cma_engine()->ib_route(&gid, NULL, route)
					: vb_cma_engine()->route(addr, NULL, route);
}

/* The address is that of one interface, which names the device. */
static int bind_device(struct vb_cma_id *id, const struct sockaddr *addr)
{
	struct vb_engine_route route;
	int err;

	if (vb_address_is_link_local(addr) && !((const struct sockaddr_in6 *)addr)->sin6_scope_id)
		return explain_address(-EINVAL, addr);
	err = vb_cma_route_own(addr, &route);
	if (err)
		return explain_address(err, addr);
	err = vb_cma_id_attach(id, route.device);
	if (err)
		return err;
	id->sgid = route.src;
	id->ifindex = route.ifindex;
	id->scope = route.scope;
	id->id.route.addr.addr.ibaddr.sgid = route.src;
	if (vb_cma_is_infiniband(id))
		id->id.route.addr.addr.ibaddr.sgid =
			vb_cma_engine()->ib_path(route.device, &route.src, &route.src, 0).sgid;
	return 0;
}

static void default_afonly(struct vb_cma_id *id, const struct sockaddr *addr)
{
	if (id->afonly_set)
		return;
	id->afonly = addr->sa_family == AF_INET || (addr->sa_family == AF_INET6 && bindv6only());
}

/* Only the bits in the mask of a service id count. */
static uint64_t service_id(const struct vb_cma_id *id, const struct sockaddr_ib *addr)
{
	const uint16_t space =
		vb_address_port_space((const struct sockaddr *)addr, (uint16_t)id->id.ps);

	return vb_cm_service_id(space, (uint16_t)be64toh(addr->sib_sid & addr->sib_sid_mask));
}

/* Completes the service id of an AF_IB address: it gets the port space, and the port may be 0. */
static void take_address(struct vb_cma_id *id, const struct sockaddr *addr)
{
	struct rdma_addr *addrs = &id->id.route.addr;
	const union ibv_gid gid = vb_address_gid(addr);

	memset(&addrs->src_storage, 0, sizeof(addrs->src_storage));
	if (addr->sa_family == AF_IB)
		vb_address_ib(&addrs->src_storage, &gid,
			      service_id(id, (const struct sockaddr_ib *)addr));
	else
		memcpy(&addrs->src_storage, addr, vb_address_size(addr));
	default_afonly(id, addr);
}

static int bind_port(struct vb_cma_id *id, const struct sockaddr *addr)
{
	int err;

	vb_cma_lock();
	take_address(id, addr);
	err = claim_port(id);
	if (!err)
		id->state = VB_CMA_ADDR_BOUND;
	else
		memset(&id->id.route.addr.src_storage, 0, sizeof(struct sockaddr_storage));
	vb_cma_unlock();
	return err;
}

int vb_cma_bind(struct vb_cma_id *id, const struct sockaddr *addr, const char *call)
{
	int err;

	if (!vb_address_size(addr)) {
		vb_explain("%s: the address family must be AF_INET, AF_INET6 or AF_IB", call);
		return -EINVAL;
	}
	if (!vb_address_port_space(addr, (uint16_t)id->id.ps)) {
		vb_explain("%s: the service id is not one of port space 0x%x", call, id->id.ps);
		return -EPROTONOSUPPORT;
	}
	err = vb_cma_id_expect(id, VB_CMA_IDLE, call);
	/* A loopback address names no device, so the identifier gets none, as on Linux. */
	if (!err && !vb_address_is_any(addr) && !vb_address_is_loopback(addr))
		err = bind_device(id, addr);
	if (err)
		return err;
	err = bind_port(id, addr);
	if (err)
		vb_cma_id_detach(id);
	return err;
}

VB_PUBLIC int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	VB_NO_CANCEL;

	VB_CMA_PASS(id, rdma_bind_addr, (shadow, addr));
	return vb_return_minus_one(vb_cma_system_bind(vb_cma_id(id), addr, "rdma_bind_addr"));
}

/* Ports are in network order; 0: there is no address. */
VB_PUBLIC __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htons(vb_address_port(&id->route.addr.src_addr));
}

VB_PUBLIC __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return htons(vb_address_port(&id->route.addr.dst_addr));
}
