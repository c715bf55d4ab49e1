/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/getaddrinfo_ib.h"

#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cma.h"
#include "rdmacm/route.h"

/* Finds the port that has an IP address: a neighbour's, or one of this host. */
static int find_port(const struct sockaddr *addr, struct ibv_device **device,
		     struct vb_ib_path *path)
{
	struct vb_engine_route route;
	int err = vb_cma_engine()->route(NULL, addr, &route);

	if (err)
		return -ENODEV;
	*device = vb_cma_engine()->ib_device(route.ifindex);
	if (!*device)
		return -ENODEV;
	if (!route.local)
		(void)vb_cma_engine()->neighbour(&route.src, &route.dst, route.scope);
	*path = vb_cma_engine()->ib_path(*device, &route.src, &route.dst, route.scope);
	return path->dlid ? 0 : -ENODEV;
}

/* Finds the path to a GID. The LID stays 0 if this host does not know the port. */
static int find_path(const union ibv_gid *gid, struct ibv_device **device, struct vb_ib_path *path)
{
	static const union ibv_gid any;
	struct vb_engine_route route;
	int err = vb_cma_engine()->ib_route(&any, gid, &route);

	if (err)
		return err;
	*device = route.device;
	*path = vb_cma_engine()->ib_path(route.device, &route.src, &route.dst, 0);
	return 0;
}

/* The service id names the port space, and the port if there is one. */
static int make_address(const union ibv_gid *gid, int port_space, uint16_t port,
			struct sockaddr **to, socklen_t *to_len)
{
	struct sockaddr_ib *sib = calloc(1, sizeof(*sib));

	if (!sib)
		return -ENOMEM;
	sib->sib_family = AF_IB;
	sib->sib_pkey = htobe16(0xffff);
	memcpy(sib->sib_addr.sib_raw, gid->raw, sizeof(gid->raw));
	sib->sib_sid = htobe64((uint64_t)port_space << 16 | port);
	sib->sib_sid_mask =
		htobe64((port_space ? RDMA_IB_IP_PS_MASK : 0) | (port ? RDMA_IB_IP_PORT_MASK : 0));
	*to = (struct sockaddr *)sib;
	*to_len = sizeof(*sib);
	return 0;
}

static int make_route(struct rdma_addrinfo *rai, struct ibv_device *device,
		      const struct vb_ib_path *path)
{
	struct ibv_path_data *data = calloc(1, sizeof(*data));
	int err = data ? vb_cma_path_data(device, path, data) : -ENOMEM;

	if (err) {
		free(data);
		return err;
	}
	rai->ai_route = data;
	rai->ai_route_len = sizeof(*data);
	return 0;
}

int vb_cma_addrinfo_ib(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints,
		       const struct sockaddr *addr, bool is_gid)
{
	const bool passive = hints->ai_flags & RAI_PASSIVE;
	union ibv_gid gid = vb_address_gid(addr);
	struct ibv_device *device = NULL;
	struct vb_ib_path path = { 0 };
	int err = is_gid ? find_path(&gid, &device, &path) : find_port(addr, &device, &path);

	if (err && !is_gid)
		return err;
	if (!is_gid)
		gid = path.dgid;
	rai->ai_family = AF_IB;
	err = make_address(&gid, rai->ai_port_space, vb_address_port(addr),
			   passive ? &rai->ai_src_addr : &rai->ai_dst_addr,
			   passive ? &rai->ai_src_len : &rai->ai_dst_len);
	if (!err && path.dlid && !passive && !(hints->ai_flags & RAI_NOROUTE))
		err = make_route(rai, device, &path);
	return err;
}
