/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_ATTACH_VIEW_H
#define VB_ENGINE_ATTACH_VIEW_H

#include "nic/nic.h"

/* The socket of an attached peer has a message about a mapped region (shm/view.h). 0 or -errno. */
int vb_view_event(struct vb_nic *nic, struct vb_peer *peer);

#endif
