/* SPDX-License-Identifier: BSD-2-Clause */
/* Services by name or id: what the Subnet Administrator of an InfiniBand port answers. */
#ifndef VB_RDMACM_SERVICE_H
#define VB_RDMACM_SERVICE_H

#include <rdma/rdma_cma.h>

/*
 * Asks for the services that have this id, if the word is a number, or else this name; a result for
 * each. Waits for other processes of this host. -ENOENT: there is none; -ENOMEM, -EIO.
 */
int vb_cma_services(struct ibv_device *device, const char *word, struct rdma_addrinfo **info);

#endif
