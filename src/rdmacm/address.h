/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses as the connection manager uses them: AF_INET, AF_INET6 and AF_IB. */
#ifndef VB_RDMACM_ADDRESS_H
#define VB_RDMACM_ADDRESS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { VB_ADDRESS_TEXT = 64 }; /* bytes that a printed address needs */

/* 0: a family that the connection manager does not know, or NULL. */
socklen_t vb_address_size(const struct sockaddr *addr);

bool vb_address_is_any(const struct sockaddr *addr);
bool vb_address_is_loopback(const struct sockaddr *addr);
bool vb_address_is_multicast(const struct sockaddr *addr);
bool vb_address_is_link_local(const struct sockaddr *addr);

uint16_t vb_address_port(const struct sockaddr *addr); /* host order */
void vb_address_set_port(struct sockaddr *addr, uint16_t port);

/* IPv4 becomes ::ffff:a.b.c.d, IPv6 stays as it is. */
union ibv_gid vb_address_gid(const struct sockaddr *addr);
/* The other way round; scope is the interface of a link-local address, port in host order. */
void vb_address_from_gid(struct sockaddr_storage *addr, const union ibv_gid *gid, uint32_t scope,
			 uint16_t port);

/* A port by its GID; service id 0: none. */
void vb_address_ib(struct sockaddr_storage *addr, const union ibv_gid *gid, uint64_t service_id);
/* The service that a request to this address asks for. */
uint64_t vb_address_service_id(const struct sockaddr *addr, uint16_t port_space);
/*
 * The port space of an identifier that is bound there: AF_IB addresses may name it in their service
 * id, and those of RDMA_PS_IB one of two others. 0: not one for this port space.
 */
uint16_t vb_address_port_space(const struct sockaddr *addr, uint16_t port_space);

/* Address and port; text has VB_ADDRESS_TEXT bytes and is returned. */
const char *vb_address_print(const struct sockaddr *addr, char *text);

#endif
