/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_CONNECT_H
#define VB_RDMACM_CONNECT_H

#include "rdmacm/cma.h"

/* Sends the request that id->asked describes, with a new endpoint. Under the lock. */
int vb_cma_connect_send(struct vb_cma_id *id);

#endif
