/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A MAD between processes of one host: the fields of an IP header, then the MAD. Any process of
 * this host can write to the names of the unix sockets, so the receiver trusts the datagram no more
 * than a packet from the network.
 */
#ifndef VB_WIRE_GSI_DATAGRAM_H
#define VB_WIRE_GSI_DATAGRAM_H

#include <assert.h>
#include <infiniband/verbs.h>
#include <stdint.h>

#include "wire/mad.h"

enum { VB_COMM_ID_SLOT_SHIFT = 20 }; /* comm ids and SIDR request ids are slot << 20 | 20 bits */

#define VB_GSI_MAGIC 0x316973676d626276ull /* begins every datagram */

/* Host byte order: the datagram never leaves the host. */
struct vb_gsi_datagram {
	uint64_t magic;
	union ibv_gid src, dst; /* IPv4 addresses are mapped, ::ffff:a.b.c.d */
	uint32_t scope;         /* interface index if the other side is link-local, else 0 */
	uint16_t src_port;      /* UDP source port; 0: the MAD did not come from the wire */
	uint8_t traffic_class;
	uint8_t from_wire; /* 1: the UDP port of some process received it */
	uint8_t mad[VB_MAD_SIZE];
};
static_assert(sizeof(struct vb_gsi_datagram) == 48 + VB_MAD_SIZE, "no holes");

#endif
