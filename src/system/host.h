/* SPDX-License-Identifier: BSD-2-Clause */
/* Does the host have RDMA devices of its own? */
#ifndef VB_SYSTEM_HOST_H
#define VB_SYSTEM_HOST_H

#include <stdbool.h>

/* True: the kernel has an RDMA device that this process may see. */
bool vb_system_host_has_devices(void);

#endif
