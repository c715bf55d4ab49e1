/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of abstract unix datagram sockets. By them processes of this host find each other's
 * connection managers. The kernel keeps them unique per network namespace, across users and
 * containers, and frees them at the end of the process.
 */
#ifndef VB_GSI_CM_NAME_H
#define VB_GSI_CM_NAME_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

enum vb_cm_family {
	VB_CM_IPV4, /* an IPv4 address; zero: all of them */
	VB_CM_IPV6, /* an IPv6 address; zero: all of them, and no IPv4 address */
	VB_CM_DUAL, /* all addresses of both families; address is zero */
};

/* The port of an identifier. */
struct vb_cm_claim {
	uint16_t port_space; /* enum rdma_port_space: RDMA_PS_TCP, ... */
	uint16_t port;       /* host byte order */
	enum vb_cm_family family;
	union ibv_gid address; /* IPv4 mapped; zero: the wildcard of the family */
	uint32_t scope;        /* interface index of a link-local address */
	/*
	 * RDMA_OPTION_ID_REUSEADDR: other identifiers may claim the same with reuse. No requests
	 * arrive at such a claim. A listener claims without reuse, and names its former claim in
	 * replaces.
	 */
	bool reuse;
	int replaces; /* descriptor of an own claim, released on success; -1: none */
};

/* The name of a socket. */
struct vb_cm_target {
	struct sockaddr_un address;
	socklen_t length;
};

/* The name for answers to a slot; 0, -ECONNREFUSED: no process holds it, -EAGAIN: not known now. */
int vb_cm_target_slot(uint32_t slot, struct vb_cm_target *target);

/*
 * Binds the names of a claim. A descriptor, or -EADDRINUSE, ... With port 0 a free port is chosen
 * and written to claim->port. If all are taken, the port is shared and claim->reuse becomes true.
 */
int vb_cm_claim(struct vb_cm_claim *claim);
/*
 * The names for a request to this address and port, in the order of trying. Returns their number.
 */
enum { VB_CM_TARGETS_MAX = 3 };
unsigned vb_cm_targets(uint16_t port_space, uint16_t port, const union ibv_gid *address,
		       uint32_t scope, struct vb_cm_target targets[VB_CM_TARGETS_MAX]);

/* A non-blocking datagram socket bound to a name, or -errno. */
int vb_cm_bind(const struct vb_cm_target *target);
/* A process has bound the name. */
bool vb_cm_is_held(const struct vb_cm_target *target);

#endif
