/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target of a message of XRC: receives and memory of the SRQ that the message names, in the
 * process of this host that has the SRQ.
 */
#ifndef VB_EXEC_XRC_H
#define VB_EXEC_XRC_H

#include "exec/reason.h"
#include "nic/xrcd.h"

/*
 * Aims remote, whose entry is an XRC_RECV QP, at an SRQ. Called inside a hazard that names the
 * process of the QP; a second hazard names the process of the SRQ if that is another one. Returns
 * VB_OK, VB_WHY_SRQ_..., VB_WHY_PEER_NOT_READY (try again), or VB_WHY_PEER_ATTACHING. In the last
 * case *slot is the slot to attach to, or 0 if an attach is under way.
 */
enum vb_reason vb_xrc_aim(struct vb_remote *remote, struct vb_thread *thread, uint32_t srqn,
			  uint32_t *slot);
/* Forgets the SRQ that remote is aimed at. */
void vb_xrc_unaim(struct vb_remote *remote);

#endif
