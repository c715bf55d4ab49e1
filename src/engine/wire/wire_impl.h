/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that the files of the wire share. */
#ifndef VB_ENGINE_WIRE_WIRE_IMPL_H
#define VB_ENGINE_WIRE_WIRE_IMPL_H

#include "engine/wire/wire.h"

bool vb_wire_try_lock(struct vb_lane *lane);
/* Waits for the lock: for control calls and senders of datagrams. */
void vb_wire_lock(struct vb_lane *lane);
/* True: the service thread would be late for a timer of the lane if it slept until wake_ns. */
bool vb_wire_is_late(struct vb_lane *lane, uint64_t wake_ns);
/* By the thread that serves the lane, after every sleep. woken: its sockets woke the thread. */
void vb_wire_service_lane(struct vb_lane *lane, bool woken);
/* The time when that thread has to look again. */
uint64_t vb_wire_lane_next_ns(struct vb_lane *lane, uint64_t now_ns);
/* Sends for the QPs that other threads kicked meanwhile, and gives the lock back. */
void vb_wire_unlock(struct vb_lane *lane);

/* The lane with this number, opened on demand; NULL: see *err. Under any lock but lanes_lock. */
struct vb_lane *vb_wire_lane(struct vb_nic *nic, unsigned number, int *err);
/* The lane of a QP, opened on demand, or the first lane if that cannot be. Without locks. */
struct vb_lane *vb_wire_lane_of(struct vb_qp *qp, int *err);
/* By the service thread: closes a further lane if it has no QPs. Without locks. */
void vb_wire_close_unused(struct vb_lane *lane);

/* The functions below are called under the lock of the lane. */

/* This thread executes from now on; sets the time. False: out of memory or hazard words. */
bool vb_wire_begin(struct vb_lane *lane);
/*
 * Takes packets in, sends packets that are due, and tells the service thread when to come again.
 * polling: a program calls, not the service thread. True: something was done.
 */
bool vb_wire_bring_on(struct vb_lane *lane, bool polling);
/* The same, by the service thread, for packets that follow those of a moment ago. */
void vb_wire_look_again(struct vb_lane *lane);
/* Takes in all packets that have arrived by now, and sends nothing. */
void vb_wire_receive(struct vb_lane *lane);
void vb_wire_drop_kick(struct vb_lane *lane, struct vb_qp *qp);
/*
 * A packet came through a slot socket: adopts its QP if the wire should carry it. False: this
 * cannot be told now, and the sender will not repeat the packet.
 */
bool vb_wire_adopt_late(struct vb_lane *lane, const struct vb_arrival *arrival);
/* Gives a packet to the fault rules, if there are any, else to its QP. */
unsigned vb_wire_take_in(struct vb_lane *lane, const struct vb_arrival *arrival);

#endif
