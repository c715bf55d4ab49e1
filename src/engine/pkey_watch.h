/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file that VERBENA_PKEYS_FILE names. When the file is written or replaced, the P_Key table
 * follows it, then the QPs follow the table, then IBV_EVENT_PKEY_CHANGE is raised.
 */
#ifndef VB_ENGINE_PKEY_WATCH_H
#define VB_ENGINE_PKEY_WATCH_H

#include "nic/nic.h"

/* The service thread starts: reads the file, which may have changed, and watches it. */
void vb_pkey_watch_start(struct vb_nic *nic);

#endif
