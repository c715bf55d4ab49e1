/* SPDX-License-Identifier: BSD-2-Clause */
/* The buffer of an end: ordinary memory, paged on demand, or memory of the device. */
#ifndef UTILS_MEMORY_H
#define UTILS_MEMORY_H

#include "end.h"

/* False after a complaint. */
bool pp_memory_open(struct pp_end *end);
bool pp_memory_close(struct pp_end *end);

#endif
