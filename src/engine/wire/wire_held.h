/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of UC that came through a slot socket for a QP on its way to the wire: a thread executes
 * the QP this moment, or a control call is under way. No sender would repeat them. So a few packets
 * wait for a short time, and are taken in in their order. Under the lane's lock.
 */
#ifndef VB_ENGINE_WIRE_WIRE_HELD_H
#define VB_ENGINE_WIRE_WIRE_HELD_H

#include "base/delay_line.h"
#include "port/port.h"

struct vb_lane;

void vb_wire_held_init(struct vb_delay_line *held);
/* A packet that finds no room is lost, as in a full receive buffer. */
void vb_wire_hold(struct vb_lane *lane, const struct vb_arrival *arrival);
/* Takes in packets whose QPs are on the wire by now, and packets that have waited too long. */
void vb_wire_held_release(struct vb_lane *lane);
/* Frees the packets of a QP whose connection ends. */
void vb_wire_held_forget(struct vb_lane *lane, uint32_t qpn);
/* The time of the next look, or VB_NEVER_NS. */
uint64_t vb_wire_held_next_ns(const struct vb_lane *lane);

#endif
