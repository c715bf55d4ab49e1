/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings from the environment; never from a setuid program's. */
#ifndef VB_BASE_CONFIG_H
#define VB_BASE_CONFIG_H

#include <stdbool.h>

/* VERBENA_EXPLAIN=1: each failure prints a sentence. Read once. */
bool vb_config_explain(void);

#endif
