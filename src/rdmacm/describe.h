/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_DESCRIBE_H
#define VB_RDMACM_DESCRIBE_H

#include "engine/attach/describe.h"

/* The service thread calls it; takes the lock. */
vb_describe_ids_fn vb_cma_describe;

#endif
