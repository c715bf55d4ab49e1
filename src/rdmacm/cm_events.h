/* SPDX-License-Identifier: BSD-2-Clause */
/* What the connection manager reports, as events of identifiers. */
#ifndef VB_RDMACM_EVENTS_IN_H
#define VB_RDMACM_EVENTS_IN_H

#include "cm/cm.h"

const struct vb_cm_ops *vb_cma_cm_ops(void);

#endif
