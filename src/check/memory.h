/* SPDX-License-Identifier: BSD-2-Clause */
/* Registered memory that the program takes away. */
#ifndef VB_CHECK_MEMORY_H
#define VB_CHECK_MEMORY_H

#include "check/check.h"

void vb_memory_registered(const struct vb_object *mr);

#endif
