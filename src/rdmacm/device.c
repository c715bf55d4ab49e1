/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/device.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/cma.h"
#include "rdmacm/system.h"

/*
 * Devices have a lock of their own, because verbs are called under it. Devices stay open until the
 * process ends, as the man page of rdma_get_devices promises. So do their PDs: a program may have
 * MRs of them when its last identifier is gone.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_list devices = VB_LIST_INIT(devices);

int vb_cma_devices_find(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (list)
		ibv_free_device_list(list);
	if (count > 0)
		return 0;
	vb_explain("there is no RDMA device: no network interface is usable, or VERBENA_DEVICES "
		   "names none that exists");
	return -ENODEV;
}

static struct vb_cma_device *find_known(struct ibv_device *device)
{
	vb_list_for(known, &devices, struct vb_cma_device, node) {
		if (known->device == device)
			return known;
	}
	return NULL;
}

/* The fields of a message are shorter than the limits. */
static uint8_t octet(int value)
{
	return value > UINT8_MAX ? UINT8_MAX : (uint8_t)value;
}

static int learn(struct vb_cma_device *known)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port = { 0 };
	int err = ibv_query_device(known->verbs, &attr);

	if (!err)
		err = ibv_query_port(known->verbs, 1, &port);
	if (err)
		return -err;
	known->guid = ibv_get_device_guid(known->device);
	known->max_initiator_depth = octet(attr.max_qp_init_rd_atom);
	known->max_responder_resources = octet(attr.max_qp_rd_atom);
	known->max_qp_wr = attr.max_qp_wr;
	known->ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	return 0;
}

static int open_device(struct ibv_device *device, struct vb_cma_device **out)
{
	struct vb_cma_device *known = calloc(1, sizeof(*known));
	int err = -ENOMEM;

	if (!known)
		return err;
	known->device = device;
	known->verbs = ibv_open_device(device);
	err = known->verbs ? learn(known) : -errno;
	if (!err) {
		known->pd = ibv_alloc_pd(known->verbs);
		err = known->pd ? 0 : -errno;
	}
	if (err) {
		if (known->verbs)
			ibv_close_device(known->verbs);
		free(known);
		return err;
	}
	vb_list_append(&devices, &known->node);
	vb_cma_device_events_watch(known);
	*out = known;
	return 0;
}

int vb_cma_device_acquire(struct ibv_device *device, struct vb_cma_device **out)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	*out = find_known(device);
	if (!*out)
		err = open_device(device, out);
	if (!err)
		(*out)->users++;
	pthread_mutex_unlock(&lock);
	return err;
}

void vb_cma_device_release(struct vb_cma_device *device)
{
	pthread_mutex_lock(&lock);
	if (!--device->users && device->xrcd) {
		ibv_close_xrcd(device->xrcd);
		device->xrcd = NULL;
	}
	pthread_mutex_unlock(&lock);
}

struct ibv_xrcd *vb_cma_device_xrcd(struct vb_cma_device *device)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	pthread_mutex_lock(&lock);
	if (!device->xrcd)
		device->xrcd = ibv_open_xrcd(device->verbs, &attr);
	pthread_mutex_unlock(&lock);
	return device->xrcd;
}

int vb_cma_device_gid_index(struct vb_cma_device *device, const union ibv_gid *gid)
{
	struct ibv_port_attr port = { 0 };
	union ibv_gid entry;

	if (ibv_query_port(device->verbs, 1, &port))
		return -ENODATA;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (!ibv_query_gid(device->verbs, 1, i, &entry) &&
		    !memcmp(&entry, gid, sizeof(entry)))
			return i;
	}
	return -ENODATA;
}

void vb_cma_devices_forget(void)
{
	/* A thread that does not exist in the child may have held the lock. */
	pthread_mutex_init(&lock, NULL);
	vb_list_init(&devices);
}

static struct ibv_context **open_all(struct ibv_device **list, int count, int *opened)
{
	struct ibv_context **contexts = calloc((size_t)count + 1, sizeof(struct ibv_context *));

	*opened = 0;
	for (int i = 0; contexts && i < count; i++) {
		struct vb_cma_device *device;

		/* The system's have contexts in its own library, and follow. */
		if (vb_cma_engine()->system_device(list[i]))
			continue;
		if (!vb_cma_device_acquire(list[i], &device))
			contexts[(*opened)++] = device->verbs;
	}
	return contexts;
}

static struct ibv_context **append_system(struct ibv_context **contexts, int *opened)
{
	int count;
	struct ibv_context **system = vb_cma_system_devices(&count);
	struct ibv_context **all = contexts;

	if (!contexts || !count)
		return contexts;
	all = realloc(contexts,
		      ((size_t)*opened + (size_t)count + 1) * sizeof(struct ibv_context *));
	if (!all)
		return contexts;
	memcpy(all + *opened, system, (size_t)count * sizeof(struct ibv_context *));
	*opened += count;
	all[*opened] = NULL;
	return all;
}

VB_PUBLIC struct ibv_context **rdma_get_devices(int *num_devices)
{
	VB_NO_CANCEL;
	struct ibv_context **contexts = NULL;
	struct ibv_device **list = NULL;
	int count = 0, opened = 0, err = vb_cma_begin();

	if (!err)
		list = ibv_get_device_list(&count);
	if (list) {
		contexts = open_all(list, count, &opened);
		ibv_free_device_list(list);
		contexts = append_system(contexts, &opened);
	}
	if (num_devices) {
		*num_devices = opened;
		vb_tell_filled(num_devices, sizeof(*num_devices));
	}
	return contexts ? contexts : vb_return_null(err ? err : -ENOMEM);
}

static struct vb_cma_device *by_context(struct ibv_context *context)
{
	struct vb_cma_device *found = NULL;

	pthread_mutex_lock(&lock);
	vb_list_for(known, &devices, struct vb_cma_device, node) {
		if (known->verbs == context)
			found = known;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

VB_PUBLIC void rdma_free_devices(struct ibv_context **list)
{
	for (struct ibv_context **context = list; context && *context; context++) {
		struct vb_cma_device *device = by_context(*context);

		if (device)
			vb_cma_device_release(device);
	}
	free(list);
}
