/* SPDX-License-Identifier: BSD-2-Clause */
/* The speed of an interface, as width and speed of a port. */
#ifndef VB_NET_LINK_SPEED_H
#define VB_NET_LINK_SPEED_H

#include "net/netif.h"

/* Codes of active_width and active_speed (IBA, PortInfo): <infiniband/verbs.h> has no names. */
enum { VB_WIDTH_1X = 1, VB_WIDTH_4X = 2, VB_WIDTH_2X = 16 };
enum {
	VB_SPEED_SDR = 1,
	VB_SPEED_DDR = 2,
	VB_SPEED_FDR10 = 8,
	VB_SPEED_EDR = 32,
	VB_SPEED_HDR = 64,
	VB_SPEED_NDR = 128,
	VB_SPEED_XDR = 256, /* does not fit into active_speed, only into active_speed_ex */
};

struct vb_link_rate {
	uint8_t width;
	uint16_t speed;
};

/* As Linux maps the speed of an Ethernet device. 0, an unknown speed, becomes 4X EDR. */
struct vb_link_rate vb_link_rate(unsigned mbps);
/*
 * The speed that the driver reports, read once per snapshot; 0: unknown (lo, tunnels, no carrier).
 */
unsigned vb_link_speed_mbps(const struct vb_netif *netif);

#endif
