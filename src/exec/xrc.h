/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which receives and which memory a message of XRC is for: those of the SRQ that it names, in
 * whichever process of the host that SRQ is.
 */
#ifndef VB_EXEC_XRC_H
#define VB_EXEC_XRC_H

#include "exec/reason.h"
#include "nic/xrcd.h"

/*
 * Aims remote, whose entry is an XRC_RECV QP, at an SRQ. Inside a hazard that names the process of
 * the QP; a second one names that of the SRQ if it is another. VB_OK, VB_SRQ_..., VB_WHY_PEER_NOT_READY:
 * try again, or VB_WHY_PEER_ATTACHING, with the slot to attach to in *slot unless it is under way.
 */
enum vb_reason vb_xrc_aim(struct vb_remote *remote, struct vb_thread *thread, uint32_t srqn,
			  uint32_t *slot);
/* Forgets the SRQ at hand. */
void vb_xrc_unaim(struct vb_remote *remote);

#endif
