/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/address.h"

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

static const struct sockaddr_in *in4(const struct sockaddr *addr)
{
	return (const struct sockaddr_in *)addr;
}

static const struct sockaddr_in6 *in6(const struct sockaddr *addr)
{
	return (const struct sockaddr_in6 *)addr;
}

static const struct sockaddr_ib *ib(const struct sockaddr *addr)
{
	return (const struct sockaddr_ib *)addr;
}

socklen_t vb_address_size(const struct sockaddr *addr)
{
	switch (addr ? addr->sa_family : AF_UNSPEC) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	default:
		return 0;
	}
}

bool vb_address_is_any(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return in4(addr)->sin_addr.s_addr == htonl(INADDR_ANY);
	case AF_INET6:
		return IN6_IS_ADDR_UNSPECIFIED(&in6(addr)->sin6_addr);
	case AF_IB:
		return ib_addr_any(&ib(addr)->sib_addr);
	default:
		return true;
	}
}

bool vb_address_is_loopback(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ntohl(in4(addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	case AF_INET6:
		return IN6_IS_ADDR_LOOPBACK(&in6(addr)->sin6_addr);
	case AF_IB:
		return ib_addr_loopback(&ib(addr)->sib_addr);
	default:
		return false;
	}
}

bool vb_address_is_multicast(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return IN_MULTICAST(ntohl(in4(addr)->sin_addr.s_addr));
	case AF_INET6:
		return IN6_IS_ADDR_MULTICAST(&in6(addr)->sin6_addr);
	case AF_IB:
		return ib(addr)->sib_addr.sib_raw[0] == 0xff;
	default:
		return false;
	}
}

bool vb_address_is_link_local(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6(addr)->sin6_addr);
}

uint16_t vb_address_port(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ntohs(in4(addr)->sin_port);
	case AF_INET6:
		return ntohs(in6(addr)->sin6_port);
	case AF_IB:
		/* The low 16 bits of the service id are the port. */
		return (uint16_t)be64toh(ib(addr)->sib_sid);
	default:
		return 0;
	}
}

void vb_address_set_port(struct sockaddr *addr, uint16_t port)
{
	struct sockaddr_ib *sib = (struct sockaddr_ib *)addr;

	switch (addr->sa_family) {
	case AF_INET:
		((struct sockaddr_in *)addr)->sin_port = htons(port);
		return;
	case AF_INET6:
		((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
		return;
	case AF_IB:
		sib->sib_sid = htobe64((be64toh(sib->sib_sid) & ~UINT64_C(0xffff)) | port);
		sib->sib_sid_mask = UINT64_MAX;
		return;
	default:
		return;
	}
}

union ibv_gid vb_address_gid(const struct sockaddr *addr)
{
	union ibv_gid gid = { 0 };

	switch (addr->sa_family) {
	case AF_INET:
		gid.raw[10] = gid.raw[11] = 0xff;
		memcpy(gid.raw + 12, &in4(addr)->sin_addr, 4);
		break;
	case AF_INET6:
		memcpy(gid.raw, &in6(addr)->sin6_addr, 16);
		break;
	case AF_IB:
		memcpy(gid.raw, ib(addr)->sib_addr.sib_raw, 16);
		break;
	default:
		break;
	}
	return gid;
}

void vb_address_from_gid(struct sockaddr_storage *addr, const union ibv_gid *gid, uint32_t scope,
			 uint16_t port)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)addr;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)addr;

	memset(addr, 0, sizeof(*addr));
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw)) {
		sin->sin_family = AF_INET;
		sin->sin_port = htons(port);
		memcpy(&sin->sin_addr, gid->raw + 12, 4);
		return;
	}
	sin6->sin6_family = AF_INET6;
	sin6->sin6_port = htons(port);
	memcpy(&sin6->sin6_addr, gid->raw, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&sin6->sin6_addr))
		sin6->sin6_scope_id = scope;
}

void vb_address_ib(struct sockaddr_storage *addr, const union ibv_gid *gid, uint64_t service_id)
{
	struct sockaddr_ib *sib = (struct sockaddr_ib *)addr;

	memset(addr, 0, sizeof(*addr));
	sib->sib_family = AF_IB;
	sib->sib_pkey = htobe16(0xffff);
	memcpy(sib->sib_addr.sib_raw, gid->raw, sizeof(gid->raw));
	sib->sib_sid = htobe64(service_id);
	sib->sib_sid_mask = service_id ? UINT64_MAX : 0;
}

uint64_t vb_address_service_id(const struct sockaddr *addr, uint16_t port_space)
{
	if (addr->sa_family == AF_IB)
		return be64toh(ib(addr)->sib_sid);
	return (uint64_t)port_space << 16 | vb_address_port(addr);
}

uint16_t vb_address_port_space(const struct sockaddr *addr, uint16_t port_space)
{
	static const uint16_t spaces[] = { RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP };
	uint64_t mask, space;

	if (addr->sa_family != AF_IB)
		return port_space;
	mask = be64toh(ib(addr)->sib_sid_mask) & RDMA_IB_IP_PS_MASK;
	space = be64toh(ib(addr)->sib_sid) & mask;
	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
		if ((port_space == RDMA_PS_IB || port_space == spaces[i]) &&
		    space == (((uint64_t)spaces[i] << 16) & mask))
			return spaces[i];
	return 0;
}

const char *vb_address_print(const struct sockaddr *addr, char *text)
{
	union ibv_gid gid = vb_address_gid(addr);
	char digits[INET6_ADDRSTRLEN] = "?";

	if (addr->sa_family == AF_INET)
		inet_ntop(AF_INET, gid.raw + 12, digits, sizeof(digits));
	else if (addr->sa_family == AF_INET6 || addr->sa_family == AF_IB)
		inet_ntop(AF_INET6, gid.raw, digits, sizeof(digits));
	snprintf(text, VB_ADDRESS_TEXT, addr->sa_family == AF_INET ? "%s:%u" : "[%s]:%u", digits,
		 vb_address_port(addr));
	return text;
}
