/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of UC that came through a slot socket for a QP which is on its way to the wire: somebody
 * executes it this moment, or a control call is under way. Nobody would send them again, so they
 * wait, not long and not many, and are taken in in their order. Under the wire lock.
 */
#ifndef VB_ENGINE_WIRE_WIRE_HELD_H
#define VB_ENGINE_WIRE_WIRE_HELD_H

#include "base/delay_line.h"
#include "port/port.h"

struct vb_wire;

void vb_wire_held_init(struct vb_delay_line *held);
/* What cannot be held is lost, as in a full receive buffer. */
void vb_wire_hold(struct vb_wire *wire, const struct vb_arrival *arrival);
/* Takes in what can be taken in by now, and gives up what has waited too long. */
void vb_wire_held_release(struct vb_wire *wire);
/* Those for a QP whose connection ends. */
void vb_wire_held_forget(struct vb_wire *wire, uint32_t qpn);
/* When to look again; VB_NEVER_NS. */
uint64_t vb_wire_held_next_ns(const struct vb_wire *wire);

#endif
