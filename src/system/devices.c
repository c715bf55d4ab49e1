/* SPDX-License-Identifier: BSD-2-Clause */
#include "system/devices.h"

#include <stdatomic.h>

#include "base/log.h"
#include "system/forward.h"

/* Devices that were given out, ever. Entries below the count never change. */
static struct ibv_device *known[VB_SYSTEM_DEVICES_MAX];
static _Atomic int known_count; /* released by learn; pairs with the load in find */

static bool find(const struct ibv_device *device)
{
	const int count = atomic_load_explicit(&known_count, memory_order_acquire);

	for (int i = 0; i < count; i++)
		if (known[i] == device)
			return true;
	return false;
}

/* Under the lock. False: there is no room. */
static bool learn(struct ibv_device *device)
{
	const int count = atomic_load_explicit(&known_count, memory_order_relaxed);

	if (count == VB_SYSTEM_DEVICES_MAX)
		return false;
	known[count] = device;
	atomic_store_explicit(&known_count, count + 1, memory_order_release);
	return true;
}

bool vb_system_knows_device(const struct ibv_device *device)
{
	return vb_system_on() && find(device);
}

/*
 * A list holds its devices. So a list with a device that was not seen before is kept for ever, and
 * later lists name the same device by the same address.
 */
static int take_list(struct ibv_device **list, struct ibv_device **devices)
{
	bool keeps = false;
	int taken = 0;

	for (struct ibv_device **next = list; *next && taken < VB_SYSTEM_DEVICES_MAX; next++) {
		if (!find(*next)) {
			if (!learn(*next))
				break;
			keeps = true;
		}
		devices[taken++] = *next;
	}
	if (!keeps)
		vb_system_ibv_free_device_list(list);
	return taken;
}

int vb_system_devices(struct ibv_device *devices[VB_SYSTEM_DEVICES_MAX])
{
	struct ibv_device **list;
	int taken = 0;

	if (!vb_system_load())
		return 0;
	vb_system_lock();
	list = vb_system_ibv_get_device_list(NULL);
	if (list)
		taken = take_list(list, devices);
	vb_system_unlock();
	return taken;
}
