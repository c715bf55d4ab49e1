/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lanes of the wire, as far as QP numbers know them. A lane carries some of the QPs of this
 * process: it has a lock, a protocol core and a port of its own (engine/wire/wire.h). The upper
 * bits of a QP number are the slot of its process, the next four its row:
 *
 *	| slot 12 | row 4 | index 8 |
 *
 * Each row belongs to one lane, and gives out the numbers of that lane's QPs. So the number of a QP
 * tells its lane for good, and the kernel can bring a packet to the lane's socket (port/steer.h).
 * The first lane has all rows at first; a further lane takes a row that has no QP.
 *
 * The lane follows the CQ: all QPs that receive into one CQ are in one lane, because one thread
 * polls them. The first CQ gets the first lane, the next one the lane with the fewest QPs.
 */
#ifndef VB_NIC_LANE_H
#define VB_NIC_LANE_H

#include "nic/nic.h"

enum { VB_LANE_FIRST = 0 }; /* it has QP 1, the multicast groups and the slot sockets as well */

void vb_lanes_init(struct vb_nic *nic);

/* The lane for a QP that is about to be made. Under nic->lock, as are the next four. */
unsigned vb_lane_choose(const struct vb_qp *qp);
/* The QP has its number. */
void vb_lane_join(struct vb_qp *qp);
/* The QP goes. */
void vb_lane_leave(struct vb_qp *qp);
/* The row, counted over all slots, that gives out the next number of a lane; or, where no row is
 * left for a further lane, of the first lane; -1: all are used up. */
int vb_lane_row(struct vb_nic *nic, unsigned lane);
/* A row of any lane with a free number; -1: there is none. */
int vb_lane_any_row(const struct vb_nic *nic);
/* The lane has no QPs: its rows go back to the first lane. */
void vb_lane_give_back(struct vb_nic *nic, unsigned lane);
/* The lane cannot be opened: its QPs, none of which is on the wire, go to the first lane. */
void vb_lane_merge(struct vb_nic *nic, unsigned lane);

/* The lane of a QP number; -1: the number belongs to another process. Any thread. */
int vb_lane_of_qpn(const struct vb_nic *nic, uint32_t qpn);
/* The rows of a further lane, each slot << 4 | row; returns their count, up to `most`. */
unsigned vb_lane_rows(const struct vb_nic *nic, unsigned lane, uint32_t *rows, unsigned most);

static inline bool vb_lane_is_open(const struct vb_nic *nic, unsigned lane)
{
	return atomic_load_explicit(&nic->lanes_open, memory_order_acquire) >> lane & 1;
}

#endif
