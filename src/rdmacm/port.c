/* SPDX-License-Identifier: BSD-2-Clause */
/* The port numbers of an identifier, in network order; 0 where there is no address. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include "base/symver.h"
#include "rdmacm/address.h"

VB_PUBLIC __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htons(vb_address_port(&id->route.addr.src_addr));
}

VB_PUBLIC __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return htons(vb_address_port(&id->route.addr.dst_addr));
}
