/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of abstract unix datagram sockets by which processes of this host find each other's
 * connection managers. The kernel keeps them unique per network namespace, across users and
 * containers, and frees them with their process.
 */
#ifndef VB_GSI_CM_NAME_H
#define VB_GSI_CM_NAME_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

enum vb_cm_family {
	VB_CM_IPV4, /* an IPv4 address or, zero, all of them */
	VB_CM_IPV6, /* an IPv6 address or all of them, and no IPv4 one */
	VB_CM_DUAL, /* all addresses of both families; address is zero */
};

/* A port that an id is bound to. */
struct vb_cm_claim {
	uint16_t port_space; /* enum rdma_port_space: RDMA_PS_TCP, ... */
	uint16_t port;       /* host byte order */
	enum vb_cm_family family;
	union ibv_gid address; /* IPv4 mapped; zero: the wildcard of the family */
	uint32_t scope;        /* interface index of a link-local address */
	/*
	 * RDMA_OPTION_ID_REUSEADDR: others may claim the same with reuse. Nothing arrives at such a
	 * claim; who listens claims without reuse, and names the claim that this one takes the
	 * place of.
	 */
	bool reuse;
	int replaces; /* descriptor of an own claim, released on success; -1: none */
};

/* The name of a socket. */
struct vb_cm_target {
	struct sockaddr_un address;
	socklen_t length;
};

/* Where answers for a slot go; 0, -ECONNREFUSED: nobody holds it, -EAGAIN: that is not known now. */
int vb_cm_target_slot(uint32_t slot, struct vb_cm_target *target);

/* Binds the names of a claim. A descriptor, or -EADDRINUSE, ... Port 0 is chosen, and told; if all are
 * taken the port is shared, and reuse told as well. */
int vb_cm_claim(struct vb_cm_claim *claim);
/* The names that a request to this address and port goes to, in the order of trying; how many. */
enum { VB_CM_TARGETS_MAX = 3 };
unsigned vb_cm_targets(uint16_t port_space, uint16_t port, const union ibv_gid *address,
		       uint32_t scope, struct vb_cm_target targets[VB_CM_TARGETS_MAX]);

/* A non-blocking datagram socket bound to a name, or -errno. */
int vb_cm_bind(const struct vb_cm_target *target);
/* Does somebody hold it? */
bool vb_cm_is_held(const struct vb_cm_target *target);

#endif
