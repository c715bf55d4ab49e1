/* SPDX-License-Identifier: BSD-2-Clause */
/* Who wants to know that the first message arrived on a QP in RTR, beside its owner. */
#ifndef VB_ENGINE_COMM_EST_H
#define VB_ENGINE_COMM_EST_H

#include "nic/nic.h"

/* hook(qpn) is called by the service thread, with no lock held. NULL: nobody. 0 or -errno. */
int vb_comm_est_watch(struct vb_nic *nic, void (*hook)(uint32_t qpn));

#endif
