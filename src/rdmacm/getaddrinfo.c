/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_getaddrinfo: the resolver of the C library turns names into addresses, and its first result
 * counts. The result for an IP address has no route and no connect data: the routing table has the
 * route, and no service needs connect data. getaddrinfo_ib.c makes AF_IB addresses.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/address.h"
#include "rdmacm/cma.h"
#include "rdmacm/getaddrinfo_ib.h"
#include "rdmacm/service.h"

/* An error of this library, or one of the resolver. Both are negative, so they stay apart. */
struct answer {
	int err; /* 0 or -errno */
	int eai; /* 0 or an EAI_ code */
};

static int socket_type(int qp_type)
{
	switch (qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return SOCK_STREAM;
	case IBV_QPT_UD:
		return SOCK_DGRAM;
	default:
		return 0;
	}
}

static int protocol_of(int port_space, int type)
{
	switch (port_space) {
	case RDMA_PS_TCP:
		return IPPROTO_TCP;
	case RDMA_PS_IPOIB:
	case RDMA_PS_UDP:
		return IPPROTO_UDP;
	case RDMA_PS_IB:
		return type == SOCK_STREAM ? IPPROTO_TCP : type == SOCK_DGRAM ? IPPROTO_UDP : 0;
	default:
		return 0;
	}
}

static bool wants_ib(const struct rdma_addrinfo *hints)
{
	return hints->ai_family == AF_IB && hints->ai_flags & RAI_FAMILY;
}

/* A GID has the form of an IPv6 address. Any other node is the name of a host. */
static bool is_gid(const struct rdma_addrinfo *hints, const char *node)
{
	struct in6_addr gid;

	return wants_ib(hints) &&
	       (!node || hints->ai_flags & RAI_NUMERICHOST || inet_pton(AF_INET6, node, &gid) == 1);
}

static struct addrinfo resolver_hints(const struct rdma_addrinfo *hints, const char *node)
{
	struct addrinfo ai = { 0 };

	if (hints->ai_flags & RAI_PASSIVE)
		ai.ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		ai.ai_flags |= AI_NUMERICHOST;
	if (is_gid(hints, node))
		ai.ai_family = AF_INET6;
	else if (hints->ai_family != AF_IB)
		ai.ai_family = hints->ai_family;
	ai.ai_socktype = socket_type(hints->ai_qp_type);
	ai.ai_protocol = protocol_of(hints->ai_port_space, ai.ai_socktype);
	return ai;
}

static int copy_address(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from,
			socklen_t from_len)
{
	*to = malloc(from_len);
	if (!*to)
		return -ENOMEM;
	memcpy(*to, from, from_len);
	*to_len = from_len;
	return 0;
}

static void take_types(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints,
		       const struct addrinfo *ai)
{
	rai->ai_qp_type = hints->ai_qp_type;
	if (!rai->ai_qp_type)
		rai->ai_qp_type = ai->ai_socktype == SOCK_DGRAM ? IBV_QPT_UD : IBV_QPT_RC;
	rai->ai_port_space = hints->ai_port_space;
	if (!rai->ai_port_space)
		rai->ai_port_space = ai->ai_protocol == IPPROTO_UDP ? RDMA_PS_UDP : RDMA_PS_TCP;
}

/* Turns a result of the C library into one of librdmacm: RAI_PASSIVE makes it the source. */
static int take_result(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints,
		       const char *node, const struct addrinfo *ai)
{
	bool passive = hints->ai_flags & RAI_PASSIVE;
	struct sockaddr **addr = passive ? &rai->ai_src_addr : &rai->ai_dst_addr;
	socklen_t *len = passive ? &rai->ai_src_len : &rai->ai_dst_len;
	char **name = passive ? &rai->ai_src_canonname : &rai->ai_dst_canonname;

	take_types(rai, hints, ai);
	rai->ai_flags = passive ? RAI_PASSIVE : 0;
	if (ai->ai_canonname && !(*name = strdup(ai->ai_canonname)))
		return -ENOMEM;
	if (wants_ib(hints))
		return vb_cma_addrinfo_ib(rai, hints, ai->ai_addr, is_gid(hints, node));
	rai->ai_family = ai->ai_family;
	return copy_address(addr, len, ai->ai_addr, ai->ai_addrlen);
}

static struct answer resolve_name(const char *node, const char *service,
				  const struct rdma_addrinfo *hints, bool hinted,
				  struct rdma_addrinfo *rai)
{
	struct addrinfo ai_hints = resolver_hints(hints, node), *ai;
	struct answer answer = { 0 };

	answer.eai = getaddrinfo(node, service, hinted ? &ai_hints : NULL, &ai);
	if (answer.eai) {
		vb_explain("rdma_getaddrinfo(%s, %s): %s", node ? node : "NULL",
			   service ? service : "NULL", gai_strerror(answer.eai));
		return answer;
	}
	answer.err = take_result(rai, hints, node, ai);
	freeaddrinfo(ai);
	if (answer.err == -ENODEV) {
		vb_explain("rdma_getaddrinfo(%s): no known InfiniBand port has this address", node);
		answer = (struct answer){ .eai = EAI_ADDRFAMILY };
	}
	return answer;
}

/* Without node and service the hints are the answer. */
static int take_hints(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints)
{
	rai->ai_flags = hints->ai_flags;
	rai->ai_family = hints->ai_family;
	rai->ai_qp_type = hints->ai_qp_type;
	rai->ai_port_space = hints->ai_port_space;
	if (!hints->ai_dst_len)
		return 0;
	return copy_address(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr,
			    hints->ai_dst_len);
}

static int copy_source(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints)
{
	if (rai->ai_src_len || !hints->ai_src_len)
		return 0;
	return copy_address(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
			    hints->ai_src_len);
}

static struct answer fill_result(const char *node, const char *service,
				 const struct rdma_addrinfo *hints, struct rdma_addrinfo *rai)
{
	static const struct rdma_addrinfo none;
	const struct rdma_addrinfo *wishes = hints ? hints : &none;
	struct answer answer = { 0 };

	if (node || service)
		answer = resolve_name(node, service, wishes, hints, rai);
	else
		answer.err = take_hints(rai, wishes);
	if (!answer.err && !answer.eai)
		answer.err = copy_source(rai, wishes);
	return answer;
}

static int ask_sa(const char *node, const char *service, const struct rdma_addrinfo *hints,
		  struct rdma_addrinfo **info)
{
	struct ibv_device *device = vb_cma_engine()->ib_device(0);
	int err;

	if (node || hints->ai_flags & RAI_DNS) {
		vb_explain("rdma_getaddrinfo: RAI_SA asks for a service, without a node and "
			   "without RAI_DNS");
		return -EOPNOTSUPP;
	}
	if (!service) {
		vb_explain("rdma_getaddrinfo: RAI_SA asks for a service, and there is none");
		return -EINVAL;
	}
	if (!device) {
		vb_explain("rdma_getaddrinfo: RAI_SA asks the Subnet Administrator, and no port is "
			   "on InfiniBand");
		return -ENOENT;
	}
	err = vb_cma_services(device, service, info);
	if (err == -ENOENT)
		vb_explain("rdma_getaddrinfo: no program of this host has registered a service %s",
			   service);
	return err;
}

static int give(struct rdma_addrinfo *info, struct rdma_addrinfo **res)
{
	*res = info;
	vb_tell_filled(res, sizeof(*res));
	return 0;
}

VB_PUBLIC int rdma_getaddrinfo(const char *node, const char *service,
			       const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	VB_NO_CANCEL;
	struct rdma_addrinfo *rai;
	struct answer answer = { 0 };

	if (!res || (!node && !service && !hints))
		return vb_cma_null(__func__);
	answer.err = vb_cma_begin();
	if (answer.err)
		return vb_return_minus_one(answer.err);
	if (hints && hints->ai_flags & RAI_SA) {
		answer.err = ask_sa(node, service, hints, &rai);
		return answer.err ? vb_return_minus_one(answer.err) : give(rai, res);
	}
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return vb_return_minus_one(-ENOMEM);
	answer = fill_result(node, service, hints, rai);
	if (!answer.err && !answer.eai)
		return give(rai, res);
	rdma_freeaddrinfo(rai);
	return answer.eai ? answer.eai : vb_return_minus_one(answer.err);
}

VB_PUBLIC void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
		res = next;
	}
}
