/* SPDX-License-Identifier: BSD-2-Clause */
/* The one NIC of a simulation and its context: QPs of all hosts are objects of this process. */
#ifndef VB_TESTS_SIM_OBJECTS_H
#define VB_TESTS_SIM_OBJECTS_H

#include "nic/device.h"

/* The first call makes them. They live as long as the process. */
void sim_objects_open(void);
struct vb_nic *sim_nic(void);
struct ibv_context *sim_context(void);

#endif
