/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices as text, through public calls only: any program sees the same. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "verbena.h"
#include "verbs/engine_table.h"

const char *describe_gid(const union ibv_gid *gid, char text[GID_TEXT])
{
	return inet_ntop(AF_INET6, gid->raw, text, GID_TEXT);
}

bool describe_gid_is_empty(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

const char *describe_link_layer(const struct ibv_port_attr *port)
{
	return port->link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet";
}

const char *describe_mtu(enum ibv_mtu mtu)
{
	static const char *const texts[] = { "?", "256", "512", "1024", "2048", "4096" };

	return texts[mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? mtu : 0];
}

const char *describe_netdev(struct ibv_context *context, char name[IF_NAMESIZE])
{
	struct ibv_gid_entry entry;

	if (ibv_query_gid_ex(context, 1, 0, &entry, 0) || !if_indextoname(entry.ndev_ifindex, name))
		strcpy(name, "-");
	return name;
}

bool device_is_systems(const struct ibv_device *device)
{
	/* Not by name at link time: another libibverbs may be in use. */
	__typeof__(verbena_engine) *engine =
		(__typeof__(verbena_engine) *)dlsym(RTLD_DEFAULT, "verbena_engine");
	const struct vb_engine_table *table = engine ? engine(VB_ENGINE_TABLE_VERSION) : NULL;

	return table && table->system_device(device);
}

int devices_each(void (*each)(struct ibv_context *context))
{
	int count = 0, i;
	struct ibv_device **list = ibv_get_device_list(&count);
	bool failed = false;

	if (!list) {
		complain("the list of devices: %s", strerror(errno));
		return -1;
	}
	for (i = 0; i < count && !device_is_systems(list[i]); i++) {
		struct ibv_context *context = ibv_open_device(list[i]);

		if (!context) {
			complain("%s cannot be opened: %s", ibv_get_device_name(list[i]),
				 strerror(errno));
			failed = true;
			break;
		}
		each(context);
		ibv_close_device(context);
	}
	ibv_free_device_list(list);
	return failed ? -1 : i;
}

int devices_each_system(void (*each)(const struct ibv_device *device))
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int count = 0;

	for (int i = 0; list && list[i]; i++) {
		if (!device_is_systems(list[i]))
			continue;
		each(list[i]);
		count++;
	}
	ibv_free_device_list(list);
	return count;
}
