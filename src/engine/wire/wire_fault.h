/* SPDX-License-Identifier: BSD-2-Clause */
/* Fault rules for packets, between the protocol core and the port. Under the lane's lock. */
#ifndef VB_ENGINE_WIRE_WIRE_FAULT_H
#define VB_ENGINE_WIRE_WIRE_FAULT_H

#include "base/delay_line.h"
#include "path/roce/roce.h"

struct vb_lane;

struct vb_wire_fault {
	struct vb_delay_line out, in; /* packets that rules hold back */
	bool lost_told;               /* the user has been told that a line was full */
};

struct vb_wire_fault *vb_wire_fault_new(void);
/* Each packet of the bursts meets the rules. The port gets the packets that remain. */
void vb_wire_fault_send(struct vb_lane *lane, const struct vb_burst *bursts, unsigned count);
void vb_wire_fault_input(struct vb_lane *lane, const struct vb_arrival *arrival);
/* Lets the packets go on that are due now. */
void vb_wire_fault_release(struct vb_lane *lane);
/* The process ends: packets that wait to go out go now. */
void vb_wire_fault_farewell(struct vb_lane *lane);
uint64_t vb_wire_fault_next_ns(const struct vb_lane *lane);

#endif
