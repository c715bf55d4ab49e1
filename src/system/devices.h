/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices of the system's library, as programs see them behind Verbena's own. */
#ifndef VB_SYSTEM_DEVICES_H
#define VB_SYSTEM_DEVICES_H

#include <infiniband/verbs.h>
#include <stdbool.h>

enum { VB_SYSTEM_DEVICES_MAX = 128 };

/*
 * The devices that the host has now; loads the library if need be. Returns their count. Devices
 * stay valid for the life of the process: programs go on using them, although they should not.
 */
int vb_system_devices(struct ibv_device *devices[VB_SYSTEM_DEVICES_MAX]);

/* True: a device that vb_system_devices has given out. */
bool vb_system_knows_device(const struct ibv_device *device);

#endif
