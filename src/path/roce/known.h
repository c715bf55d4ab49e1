/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that look like an earlier one: the ACKs of a peer, small messages of one length. They
 * have the same first bytes, length and sender, so what was found out about the earlier one holds:
 * its QP, that it is of the right transport and from the peer of that QP, the first part of its
 * ICRC.
 * All that may have changed since is compared. PSN, extended headers and ICRC are looked at as
 * always.
 */
#ifndef VB_PATH_ROCE_KNOWN_H
#define VB_PATH_ROCE_KNOWN_H

#include "port/port.h"
#include "wire/packet.h"

enum { VB_KNOWN = 16 };

struct vb_roce;
struct vb_wired;

struct vb_known {
	struct vb_wired *wired;      /* NULL: the place is free */
	uint8_t bytes[VB_ICRC_HEAD]; /* the first of the packet */
	uint32_t length;
	uint32_t icrc_head; /* of its ICRC (wire/icrc.h) */
	uint32_t path_number;
	uint16_t pkey; /* of the QP */
	struct vb_icrc_flow flow;
	struct vb_packet packet;
};

/* The earlier packet that this one looks like, or NULL. */
struct vb_known *vb_known_find(struct vb_roce *roce, const struct vb_arrival *arrival);
/* A packet with this icrc_head was accepted. */
void vb_known_note(struct vb_wired *wired, const struct vb_packet *packet,
		   const struct vb_arrival *arrival, uint32_t icrc_head);
/* The QP goes. */
void vb_known_forget(struct vb_roce *roce, const struct vb_wired *wired);

#endif
