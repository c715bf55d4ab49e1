/* SPDX-License-Identifier: BSD-2-Clause */
/* A port as lines of text. */
#ifndef VB_SYSFS_PORT_TEXT_H
#define VB_SYSFS_PORT_TEXT_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

enum vb_port_line {
	VB_PORT_STATE,
	VB_PORT_PHYS_STATE,
	VB_PORT_RATE,
	VB_PORT_LINK_LAYER,
	VB_PORT_LID,
	VB_PORT_LID_MASK_COUNT,
	VB_PORT_SM_LID,
	VB_PORT_SM_SL,
	VB_PORT_CAP_MASK,
};

/* Both functions return the length. */
int vb_port_print(enum vb_port_line line, const struct ibv_port_attr *port, char *text,
		  size_t size);
int vb_port_print_gid(const union ibv_gid *gid, char *text, size_t size);

/* The counters that the IBA defines for ports, made from those of the process. */
struct vb_port_counters {
	uint64_t xmit_bytes, rcv_bytes, xmit_packets, rcv_packets, rcv_errors, xmit_discards;
};
/* arg: the struct vb_port_counters. */
void vb_port_counters_add(void *arg, const char *name, uint64_t value);
void vb_port_counters_each(const struct vb_port_counters *counters,
			   void (*each)(void *arg, const char *name, uint64_t value), void *arg);

#endif
