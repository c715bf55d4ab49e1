/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of sockets for MADs, and the way of a MAD to the process that has one. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "gsi/impl.h"
#include "gsi/mad.h"
#include "net/gid.h"
#include "wire/bytes.h"

static void finish_name(struct vb_cm_target *target, int length)
{
	target->address.sun_family = AF_UNIX;
	target->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

#define PATH(target) (target)->address.sun_path + 1, sizeof((target)->address.sun_path) - 1

static struct vb_cm_target name_file(uint32_t file)
{
	struct vb_cm_target target = { 0 };

	finish_name(&target, snprintf(PATH(&target), "verbena.mad.%x", file));
	return target;
}

static struct vb_cm_target name_server(const struct vb_mad_server *server)
{
	struct vb_cm_target target = { 0 };

	finish_name(&target, snprintf(PATH(&target), "verbena.mad.class.%s.%x.%x.%x",
				      server->infiniband ? "ib" : "eth", server->management_class,
				      server->class_version, server->oui));
	return target;
}

int vb_mad_bind_file(uint32_t file)
{
	const struct vb_cm_target target = name_file(file);

	return vb_cm_bind(&target);
}

int vb_mad_bind_server(const struct vb_mad_server *server)
{
	const struct vb_cm_target target = name_server(server);

	return vb_cm_bind(&target);
}

static uint32_t oui_of(const uint8_t *mad, uint8_t management_class)
{
	return management_class >= VB_MAD_CLASS_VENDOR_OUI &&
			       management_class <= VB_MAD_CLASS_VENDOR_OUI_LAST
		       ? vb_get24(mad + VB_MAD_OUI_AT)
		       : 0;
}

enum vb_gsi_fate vb_gsi_to_file(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
				uint64_t transaction_id)
{
	const struct vb_cm_target target = name_file(vb_mad_file_of(transaction_id));

	return vb_gsi_write(gsi, &target, datagram);
}

/* The address of a port may be that of two devices: of both link layers, InfiniBand first. */
enum vb_gsi_fate vb_gsi_to_server(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
				  const struct vb_mad *mad)
{
	struct vb_mad_server server = {
		.infiniband = true,
		.management_class = mad->management_class,
		.class_version = mad->class_version,
		.oui = oui_of(datagram->mad, mad->management_class),
	};
	struct vb_cm_target target = name_server(&server);
	enum vb_gsi_fate fate = vb_gsi_write(gsi, &target, datagram);

	if (fate != VB_GSI_ABSENT)
		return fate;
	server.infiniband = false;
	target = name_server(&server);
	return vb_gsi_write(gsi, &target, datagram);
}
