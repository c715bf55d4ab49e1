/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A slot is claimed by binding the abstract socket @verbena.<slot>: unique per network
 * namespace across users and containers, and free again the moment its process ends or execs.
 */
#ifndef VB_NIC_SLOT_H
#define VB_NIC_SLOT_H

#include <stdint.h>

/* Claims some free slot and listens on it. Returns the socket, or -errno (-EMFILE: all taken). */
int vb_slot_claim(uint32_t *slot);
/* Connects to the process that holds a slot. -ECONNREFUSED: nobody does. -EAGAIN: busy. */
int vb_slot_connect(uint32_t slot);

#endif
