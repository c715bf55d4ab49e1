/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of rdma_getaddrinfo where AF_IB addresses are asked for. */
#ifndef VB_RDMACM_GETADDRINFO_IB_H
#define VB_RDMACM_GETADDRINFO_IB_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

/*
 * Puts a result of the resolver into rai as an AF_IB address, and the path to it where it is known.
 * is_gid: the IPv6 address is a GID; else the port that has the IP address is looked for. 0,
 * -ENOMEM; -ENODEV: no port is known that has it.
 */
int vb_cma_addrinfo_ib(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints,
		       const struct sockaddr *addr, bool is_gid);

#endif
