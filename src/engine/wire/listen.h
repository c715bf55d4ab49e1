/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of this host at which the port listens for packets from any host. A UD QP takes all
 * addresses of its device, connection requests all addresses of all devices. Addresses that appear
 * later are added then.
 */
#ifndef VB_ENGINE_WIRE_LISTEN_H
#define VB_ENGINE_WIRE_LISTEN_H

#include "engine/wire/wire.h"

/* Under the lane's lock. 0, or -errno of the first address that could not be had. */
int vb_listen_device(struct vb_lane *lane, const struct vb_device *dev);
/* Under the lane's lock. 0 if at least one address could be had, else an error of one of them. */
int vb_listen_everywhere(struct vb_lane *lane);
/* By the service thread: addresses of this host have changed. Ways are found anew as well. */
void vb_listen_again(struct vb_nic *nic);

#endif
