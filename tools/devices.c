/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena devices: one line for each device, one for each further GID. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>

#include "verbena.h"

static const char usage[] =
	"usage: verbena devices\n\n"
	"Lists the RDMA devices that programs see: name, link layer, interface, state, LID and\n"
	"GIDs with their indexes. VERBENA_DEVICES chooses others; with +system those of the\n"
	"system follow.\n";

static const char row[] = "%-10s  %-10s  %-12s  %-6s  %5s  %s\n";

static void print_device(struct ibv_context *context)
{
	const char *name = ibv_get_device_name(context->device);
	char netdev[IF_NAMESIZE], lid[8] = "-", text[GID_TEXT], gid_column[GID_TEXT + 8] = "none";
	struct ibv_port_attr port;
	union ibv_gid gid;
	int printed = 0;

	if (ibv_query_port(context, 1, &port))
		return;
	if (port.lid)
		snprintf(lid, sizeof(lid), "%u", port.lid);
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid(context, 1, i, &gid) || describe_gid_is_empty(&gid))
			continue;
		snprintf(gid_column, sizeof(gid_column), "%2d %s", i, describe_gid(&gid, text));
		if (printed++)
			printf(row, "", "", "", "", "", gid_column);
		else
			printf(row, name, describe_link_layer(&port),
			       describe_netdev(context, netdev),
			       port.state == IBV_PORT_ACTIVE ? "active" : "down", lid, gid_column);
	}
	if (!printed)
		printf(row, name, describe_link_layer(&port), "-", "down", lid, gid_column);
}

/* Of the system's own library: ibv_devinfo tells more. */
static void print_system(const struct ibv_device *device)
{
	printf(row, ibv_get_device_name((struct ibv_device *)device), "system's", "-", "-", "-",
	       "");
}

int verbena_devices(int argc, char **argv)
{
	char profile[PROFILE_TEXT];
	int status, count, system;

	if (options_end(argc, argv, usage, &status))
		return status;
	if (!libdir_loaded_is_ours()) {
		complain("the libibverbs in use is %s, which is not Verbena's", libdir_loaded());
		return EXIT_FAILURE;
	}
	printf(row, "DEVICE", "LINK", "INTERFACE", "STATE", "LID", " # GID");
	count = devices_each(print_device);
	system = devices_each_system(print_system);
	if (count > 0 && profile_describe(profile))
		printf("\nacting as %s\n", profile);
	if (count == 0 && !system)
		complain("there is no device: VERBENA_DEVICES names no interface of this host");
	return count > 0 || (!count && system) ? EXIT_SUCCESS : EXIT_FAILURE;
}
