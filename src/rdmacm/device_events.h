/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens to a device, told to the identifiers on it. */
#ifndef VB_RDMACM_REMOVAL_H
#define VB_RDMACM_REMOVAL_H

#include "rdmacm/device.h"

/* Watches the asynchronous events of a device; without it only the events below are missing. */
void vb_cma_removal_watch(struct vb_cma_device *device);

#endif
