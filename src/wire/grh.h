/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The 40 bytes in front of a received datagram: an IPv6-shaped global route header, or, between
 * IPv4 addresses, 20 unused bytes and an IPv4 header (IBA annex A17).
 */
#ifndef VB_WIRE_GRH_H
#define VB_WIRE_GRH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	VB_GRH_SIZE = 40,
	/*
	 * Ethernet has no service levels. Instead the completion of a datagram says in sl which
	 * header it has (A17.4.5.1): that UDP follows (8), and IPv6 or IPv4. Mellanox NICs chose
	 * this place, and UCX looks there.
	 */
	VB_GRH_SL_IPV6 = 8 | 1,
	VB_GRH_SL_IPV4 = 8 | 2,
};

struct vb_grh {
	union ibv_gid sgid, dgid;
	uint32_t flow_label;
	uint16_t payload_length; /* bytes behind the header on the wire */
	uint8_t traffic_class, hop_limit;
	bool infiniband; /* the BTH follows the header, not UDP */
};

void vb_grh_emit(const struct vb_grh *grh, uint8_t out[VB_GRH_SIZE]);
/* The inverse; -EINVAL: the bytes are neither of the two headers. */
int vb_grh_parse(const uint8_t in[VB_GRH_SIZE], struct vb_grh *grh);

#endif
