/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a program that leaves its QPs to the kernel. A NIC acknowledges before the program
 * sees the completion. Here an ACK may still wait for a message to go with, and a datagram for its
 * target.
 */
#include "engine/engine.h"
#include "engine/wire/wire.h"
#include "nic/nic.h"

__attribute__((destructor)) static void leave(void)
{
	struct vb_nic *nic = vb_nic_current();

	if (!nic)
		return;
	vb_engine_settle_all(nic);
	vb_wire_farewell(nic);
}
