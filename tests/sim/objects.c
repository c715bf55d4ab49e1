/* SPDX-License-Identifier: BSD-2-Clause */
#include "objects.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "nic/context.h"
#include "nic/nic.h"

static struct vb_context context;
static struct vb_device device;
static struct vb_nic *nic;

/* Addresses need no interface here: these take the place of nic/device*.c (see meson.build). */
int __wrap_vb_device_resolve(const struct vb_device *dev, const struct ibv_ah_attr *attr,
			     struct vb_av *av);
int __wrap_vb_device_port_attr(const struct vb_device *dev, int port, struct ibv_port_attr *attr);

int __wrap_vb_device_resolve(const struct vb_device *dev, const struct ibv_ah_attr *attr,
			     struct vb_av *av)
{
	(void)dev;
	*av = (struct vb_av){
		.grh = true,
		.dgid = attr->grh.dgid,
		.sgid_index = attr->grh.sgid_index,
		.traffic_class = attr->grh.traffic_class,
		.hop_limit = attr->grh.hop_limit,
	};
	av->sgid.raw[15] = attr->grh.sgid_index; /* the host */
	return 0;
}

int __wrap_vb_device_port_attr(const struct vb_device *dev, int port, struct ibv_port_attr *attr)
{
	(void)dev, (void)port;
	*attr = (struct ibv_port_attr){ .active_mtu = IBV_MTU_4096 };
	return 0;
}

static void fail(const char *what)
{
	fprintf(stderr, "sim: no %s\n", what);
	exit(2);
}

void sim_objects_open(void)
{
	if (nic)
		return;
	nic = vb_nic_get();
	if (!nic)
		fail("NIC");
	if (vb_async_init(&context))
		fail("context");
	fcntl(context.verbs.context.async_fd, F_SETFL, O_NONBLOCK);
	context.dev = &device;
}

struct vb_nic *sim_nic(void)
{
	return nic;
}

struct ibv_context *sim_context(void)
{
	return &context.verbs.context;
}
