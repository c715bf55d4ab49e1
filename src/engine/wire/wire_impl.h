/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that the files of the wire share. */
#ifndef VB_ENGINE_WIRE_WIRE_IMPL_H
#define VB_ENGINE_WIRE_WIRE_IMPL_H

#include "engine/wire/wire.h"

bool vb_wire_try_lock(struct vb_wire *wire);
/* Waits for the lock: for control calls and senders of datagrams. */
void vb_wire_lock(struct vb_wire *wire);
/* Sends for the QPs that other threads kicked meanwhile, and gives the lock back. */
void vb_wire_unlock(struct vb_wire *wire);

/* The functions below are called under the wire lock. */

/* This thread executes from now on; sets the time. False: out of memory or hazard words. */
bool vb_wire_begin(struct vb_wire *wire);
/*
 * Takes packets in, sends packets that are due, and tells the service thread when to come again.
 * polling: a program calls, not the service thread. True: something was done.
 */
bool vb_wire_bring_on(struct vb_wire *wire, bool polling);
/* Takes in all packets that have arrived by now, and sends nothing. */
void vb_wire_receive(struct vb_wire *wire);
void vb_wire_drop_kick(struct vb_wire *wire, struct vb_qp *qp);
/*
 * A packet came through a slot socket: adopts its QP if the wire should carry it. False: this
 * cannot be told now, and the sender will not repeat the packet.
 */
bool vb_wire_adopt_late(struct vb_wire *wire, const struct vb_arrival *arrival);
/* Gives a packet to the fault rules, if there are any, else to its QP. */
void vb_wire_take_in(struct vb_wire *wire, const struct vb_arrival *arrival);

#endif
