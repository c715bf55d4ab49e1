/* SPDX-License-Identifier: BSD-2-Clause */
/* How fast the interface of a port is, in the words of a port. */
#ifndef VB_NET_LINK_SPEED_H
#define VB_NET_LINK_SPEED_H

#include "net/netif.h"

/* Codes of active_width and active_speed that <infiniband/verbs.h> has no names for (IBA, PortInfo). */
enum { VB_WIDTH_1X = 1, VB_WIDTH_4X = 2, VB_WIDTH_2X = 16 };
enum {
	VB_SPEED_SDR = 1,
	VB_SPEED_DDR = 2,
	VB_SPEED_FDR10 = 8,
	VB_SPEED_EDR = 32,
	VB_SPEED_HDR = 64,
	VB_SPEED_NDR = 128,
	VB_SPEED_XDR = 256, /* more than active_speed holds: active_speed_ex */
};

struct vb_link_rate {
	uint8_t width;
	uint16_t speed;
};

/* As Linux maps the speed of an Ethernet device; 0: it is not known, 4X EDR. */
struct vb_link_rate vb_link_rate(unsigned mbps);
/* The speed that the driver tells, asked for once per snapshot; 0: none (lo, tunnels, no carrier). */
unsigned vb_link_speed_mbps(const struct vb_netif *netif);

#endif
