/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * At which addresses of this host the port listens for those who expect packets from anybody: UD
 * QPs at all of their device, connection requests at all of all devices. Addresses that come later
 * are added when they come.
 */
#ifndef VB_ENGINE_WIRE_LISTEN_H
#define VB_ENGINE_WIRE_LISTEN_H

#include "engine/wire/wire.h"

/* Under the wire lock. 0, or -errno: of the first address that could not be had. */
int vb_listen_device(struct vb_wire *wire, const struct vb_device *dev);
/* The same; the first error, if no address at all could be had. */
int vb_listen_everywhere(struct vb_wire *wire);
/* Addresses of this host have changed; ways are found anew as well. Service thread. */
void vb_listen_again(struct vb_nic *nic);

#endif
