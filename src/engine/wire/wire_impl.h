/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the files of the wire. */
#ifndef VB_ENGINE_WIRE_WIRE_IMPL_H
#define VB_ENGINE_WIRE_WIRE_IMPL_H

#include "engine/wire/wire.h"

bool vb_wire_try_lock(struct vb_wire *wire);
/* For control calls: waits. */
void vb_wire_lock(struct vb_wire *wire);
/* Sends what others asked for meanwhile, then gives the lock back. */
void vb_wire_unlock(struct vb_wire *wire);

/* The rest under the lock. */

/* This thread executes from now on, and now is the time; false: it cannot. */
bool vb_wire_begin(struct vb_wire *wire);
/* Takes packets in, sends what is due, and lets the service thread know when to come again;
 * polling: a program does, not the service thread. True: something was done. */
bool vb_wire_bring_on(struct vb_wire *wire, bool polling);
/* Takes packets in, as many as there are by now, and sends nothing. */
void vb_wire_receive(struct vb_wire *wire);
void vb_wire_drop_kick(struct vb_wire *wire, struct vb_qp *qp);
/*
 * A packet came through a slot socket: is its QP one that the wire should carry? False: that cannot
 * be told now, and who sent it will not send it again.
 */
bool vb_wire_adopt_late(struct vb_wire *wire, const struct vb_arrival *arrival);
/* To the rules, if there are any, and to its QP. */
void vb_wire_take_in(struct vb_wire *wire, const struct vb_arrival *arrival);

#endif
