/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses as the connection manager uses them: AF_INET, AF_INET6 and AF_IB. */
#ifndef VB_RDMACM_ADDRESS_H
#define VB_RDMACM_ADDRESS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { VB_ADDRESS_TEXT = 64 }; /* bytes that a printed address needs */

/* 0: addr is NULL, or the connection manager does not know its family. */
socklen_t vb_address_size(const struct sockaddr *addr);

bool vb_address_is_any(const struct sockaddr *addr);
bool vb_address_is_loopback(const struct sockaddr *addr);
bool vb_address_is_multicast(const struct sockaddr *addr);
bool vb_address_is_link_local(const struct sockaddr *addr);

uint16_t vb_address_port(const struct sockaddr *addr); /* host order */
void vb_address_set_port(struct sockaddr *addr, uint16_t port);

/* An IPv4 address becomes ::ffff:a.b.c.d; an IPv6 address stays as it is. */
union ibv_gid vb_address_gid(const struct sockaddr *addr);
/* The inverse. scope: the interface of a link-local address; port: in host order. */
void vb_address_from_gid(struct sockaddr_storage *addr, const union ibv_gid *gid, uint32_t scope,
			 uint16_t port);

/* Makes an AF_IB address from the GID of a port. Service id 0: the address names no service. */
void vb_address_ib(struct sockaddr_storage *addr, const union ibv_gid *gid, uint64_t service_id);
/* The service that a request to this address asks for. */
uint64_t vb_address_service_id(const struct sockaddr *addr, uint16_t port_space);
/*
 * The port space of an identifier that is bound to addr. The service id of an AF_IB address may
 * name it, and an identifier of RDMA_PS_IB may name another one. 0: the address does not fit the
 * port space.
 */
uint16_t vb_address_port_space(const struct sockaddr *addr, uint16_t port_space);

/* Prints address and port into text, which has VB_ADDRESS_TEXT bytes, and returns text. */
const char *vb_address_print(const struct sockaddr *addr, char *text);

#endif
