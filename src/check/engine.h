/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine of the libibverbs that is checked. */
#ifndef VB_CHECK_ENGINE_H
#define VB_CHECK_ENGINE_H

#include "verbs/engine_table.h"

/* NULL: the program uses another libibverbs. */
const struct vb_engine_table *vb_check_engine(void);

#endif
