/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sniffer flows see the messages of this host that no interface sees: the process captures all
 * processes of its user (root: of all users), its own included, and hands the frames to its flows.
 * Packets of the wire come from the interface as before.
 */
#ifndef VB_ENGINE_SNIFFER_H
#define VB_ENGINE_SNIFFER_H

struct vb_nic;

/* One more sniffer flow; the first one starts the capture. */
void vb_sniffer_begin(struct vb_nic *nic);
/* One less; the last one ends the capture. */
void vb_sniffer_end(void);
/* In a child of fork: the capture is the parent's. */
void vb_sniffer_forget(void);

#endif
