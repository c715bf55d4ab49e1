/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library reports a device that fails as removed, and an address that goes away as changed. The
 * application reads the asynchronous events of id->verbs itself, so the library reads those of a
 * second context of the same device.
 */
#include <fcntl.h>

#include "rdmacm/cma.h"
#include "rdmacm/device.h"
#include "rdmacm/disconnect_delay.h"

/* DEVICE_FATAL ends everything. The application may only destroy the identifier. */
static void remove_id(struct vb_cma_id *id)
{
	if (id->state == VB_CMA_REMOVED)
		return;
	vb_cma_disconnect_delay_end(id);
	vb_cma_id_hang_up(id);
	id->state = VB_CMA_REMOVED;
	if (id->told)
		vb_cma_event_raise(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

static void remove_ids(struct vb_cma_device *device)
{
	vb_cma_lock();
	vb_list_for(id, vb_cma_ids(), struct vb_cma_id, node) {
		if (id->device == device && !id->removing)
			remove_id(id);
	}
	vb_cma_rearm();
	vb_cma_unlock();
}

static bool address_is_gone(const struct vb_cma_id *id)
{
	return !vb_address_is_any(&id->id.route.addr.src_addr) &&
	       !vb_cma_engine()->gid_is_local(&id->sgid);
}

/* Under the lock. */
static void look_at_address(struct vb_cma_id *id)
{
	if (id->removing || !id->told || id->address_gone)
		return;
	id->address_gone = address_is_gone(id);
	if (id->address_gone)
		vb_cma_event_raise(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
}

static void change_addresses(struct vb_cma_device *device)
{
	vb_cma_lock();
	vb_list_for(id, vb_cma_ids(), struct vb_cma_id, node) {
		if (id->device == device)
			look_at_address(id);
	}
	vb_cma_unlock();
}

/* The GID of an InfiniBand port does not follow the addresses of the interface: no GID_CHANGE. */
static void change_interfaces(void)
{
	vb_cma_lock();
	vb_list_for(id, vb_cma_ids(), struct vb_cma_id, node) {
		if (vb_cma_is_infiniband(id))
			look_at_address(id);
	}
	vb_cma_unlock();
}

/* In the service thread. Devices are never freed. */
static void async_event_ready(int fd, void *arg)
{
	struct vb_cma_device *device = arg;
	struct ibv_async_event event;

	(void)fd;
	if (ibv_get_async_event(device->watched, &event))
		return;
	ibv_ack_async_event(&event);
	if (event.event_type == IBV_EVENT_DEVICE_FATAL)
		remove_ids(device);
	else if (event.event_type == IBV_EVENT_GID_CHANGE)
		change_addresses(device);
}

void vb_cma_device_events_watch(struct vb_cma_device *device)
{
	struct ibv_context *context = ibv_open_device(device->device);

	if (!context)
		return;
	/* A failing device sends events to contexts that have an object: a small CQ will do. */
	if (!ibv_create_cq(context, 1, NULL, NULL, 0) ||
	    fcntl(context->async_fd, F_SETFL, O_NONBLOCK)) {
		ibv_close_device(context);
		return;
	}
	device->watched = context;
	if (!device->ethernet)
		vb_cma_engine()->on_addresses(change_interfaces);
	if (vb_cma_engine()->watch(context->async_fd, async_event_ready, device))
		vb_explain_work("the library cannot watch the events of device %s",
				ibv_get_device_name(device->device));
}
