/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams besides those of the connection manager.
 *
 * A MAD for a port of this host goes to an agent of the port (mad/agent.h), to subnet
 * administration (mad/sa.h), or to the process that has registered its class. An answer goes to the
 * process that has sent the request: the upper half of the transaction id names its file, as with
 * the kernel's umad. Processes have names of abstract unix datagram sockets:
 *
 *   verbena.mad.<file>                                 answers
 *   verbena.mad.class.<link>.<class>.<version>.<oui>   MADs of a class
 *
 * Any process of the host that has the UDP port takes MADs from other hosts, and its service thread
 * lets the agents answer (gsi/inbox.c).
 */
#ifndef VB_GSI_MAD_H
#define VB_GSI_MAD_H

#include "gsi/cm_name.h"
#include "mad/port.h"
#include "nic/nic.h"
#include "wire/gsi_datagram.h"

/* A transaction id is file (27 bits), agent of the file (5 bits), number of the program. */
enum { VB_MAD_FILE_BITS = 27, VB_MAD_AGENT_BITS = 5, VB_MAD_AGENTS = 1 << VB_MAD_AGENT_BITS };

static inline uint32_t vb_mad_file_of(uint64_t transaction_id)
{
	return (uint32_t)(transaction_id >> (32 + VB_MAD_AGENT_BITS));
}

/* A class that a process registers. */
struct vb_mad_server {
	bool infiniband; /* link layer of the port */
	uint8_t management_class, class_version;
	uint32_t oui; /* 0 where the class has none */
};

/* Binds the name of a file, or of a class. A descriptor, -EADDRINUSE, ... */
int vb_mad_bind_file(uint32_t file);
int vb_mad_bind_server(const struct vb_mad_server *server);

/* A port as a user of MADs names it. */
struct vb_mad_address {
	uint16_t lid; /* InfiniBand; not read with a GRH */
	bool grh;
	union ibv_gid gid;
	int sgid_index; /* Ethernet */
	uint8_t traffic_class;
};

/*
 * Fills in the addresses of a datagram. -EINVAL: no GRH on Ethernet, or no such sgid_index;
 * -ENETUNREACH, -EHOSTUNREACH: no way to that port.
 */
int vb_mad_resolve(const struct vb_device *dev, const struct vb_mad_address *to,
		   struct vb_gsi_datagram *datagram);
/* The port of this host that has an address; NULL: none. Prefers InfiniBand. */
struct vb_device *vb_mad_device_at(const union ibv_gid *address, bool infiniband_only);

/* All but the counters. */
void vb_mad_port_fill(struct vb_nic *nic, const struct vb_device *dev, struct vb_mad_port *port);
/* Adds the counts of a process; bytes become words. */
struct vb_port_counts;
void vb_mad_port_count(struct vb_mad_port *port, const struct vb_port_counts *counts);

/*
 * The answer of this host's agents to a MAD for a port of it: its length, or 0: no agent takes it.
 * Asks the other processes for their counters, and waits for them.
 */
size_t vb_mad_agent(struct vb_nic *nic, const struct vb_device *dev, const uint8_t *request,
		    uint8_t *answer, size_t room);

#endif
