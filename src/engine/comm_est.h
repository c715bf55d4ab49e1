/* SPDX-License-Identifier: BSD-2-Clause */
/* A second observer, besides the owner of a QP, of the first message that arrives in RTR. */
#ifndef VB_ENGINE_COMM_EST_H
#define VB_ENGINE_COMM_EST_H

#include "nic/nic.h"

/* The service thread calls hook(qpn) with no lock held. NULL: no hook. 0 or -errno. */
int vb_comm_est_watch(struct vb_nic *nic, void (*hook)(uint32_t qpn));

#endif
