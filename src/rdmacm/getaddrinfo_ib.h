/* SPDX-License-Identifier: BSD-2-Clause */
/* The answers of rdma_getaddrinfo to programs that ask for AF_IB addresses. */
#ifndef VB_RDMACM_GETADDRINFO_IB_H
#define VB_RDMACM_GETADDRINFO_IB_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

/*
 * Puts a result of the resolver into rai as an AF_IB address, and the path to it where it is known.
 * is_gid: addr is a GID in the form of an IPv6 address; else it is the IP address of a port. 0,
 * -ENOMEM, or -ENODEV: this host knows no port with that IP address.
 */
int vb_cma_addrinfo_ib(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints,
		       const struct sockaddr *addr, bool is_gid);

#endif
