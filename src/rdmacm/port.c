/* SPDX-License-Identifier: BSD-2-Clause */
/* The port numbers of an identifier, in network order; 0 where there is no address. */
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>

#include "verbs/symver.h"

/* AF_IB carries the port in the low half word of the service id. */
static __be16 port_of_service(const struct sockaddr_ib *addr)
{
	return htons((uint16_t)be64toh(addr->sib_sid));
}

static __be16 port_of(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)addr)->sin_port;
	case AF_INET6:
		return ((const struct sockaddr_in6 *)addr)->sin6_port;
	case AF_IB:
		return port_of_service((const struct sockaddr_ib *)addr);
	default:
		return 0;
	}
}

VB_PUBLIC __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.src_addr);
}

VB_PUBLIC __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.dst_addr);
}
