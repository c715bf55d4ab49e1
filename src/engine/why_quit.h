/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_WHY_QUIT_H
#define VB_ENGINE_WHY_QUIT_H

#include "engine/engine.h"

/* With the service thread: from now on SIGQUIT asks, if VERBENA_EXPLAIN is set. */
void vb_why_quit_watch(struct vb_nic *nic);
/* By the service thread: starts the answer to a question. */
void vb_why_quit_look(void);

#endif
