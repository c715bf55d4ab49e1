/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/device.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/spin.h"
#include "net/gid.h"
#include "net/ip_route.h"
#include "net/netif.h"
#include "nic/fact.h"

static struct vb_device *devices[VB_DEVICES_MAX]; /* written once, by make_devices */
static unsigned device_count;
static const char no_provider; /* `ops` holds its address: no provider has such a table */

/* --- which devices --- */

static bool has_choice(const struct vb_device_choice *choices, unsigned count,
		       const struct vb_device_choice *choice)
{
	for (unsigned i = 0; i < count; i++)
		if (!strcmp(choices[i].netdev, choice->netdev) &&
		    choices[i].infiniband == choice->infiniband)
			return true;
	return false;
}

unsigned vb_device_choices(const char *list, struct vb_device_choice choices[VB_DEVICES_MAX])
{
	unsigned count = 0;

	while (*list && count < VB_DEVICES_MAX) {
		struct vb_device_choice choice = { 0 };
		size_t length;

		list += strspn(list, ", \t");
		length = strcspn(list, ", \t");
		if (length == 2 && !memcmp(list, "ib", 2))
			choice.infiniband = true;
		else if (length < sizeof(choice.netdev))
			memcpy(choice.netdev, list, length);
		list += length;
		/* An adapter is listed once; a name that is too long is no interface. */
		if (!strcmp(choice.netdev, VB_WORD_SYSTEM))
			continue; /* no device of this library: vb_config_system */
		if ((choice.infiniband || *choice.netdev) && !has_choice(choices, count, &choice))
			choices[count++] = choice;
	}
	return count;
}

static const struct vb_netif *default_netif(const struct vb_netif_snapshot *all)
{
	const int ipv4 = vb_route_default(AF_INET);

	return vb_netif_choose(all, ipv4, ipv4 ? 0 : vb_route_default(AF_INET6));
}

/* --- making them --- */

/* The paths are those of a kernel device. They need not exist: this library does not read them. */
static void name_device(struct ibv_device *ibv, unsigned index)
{
	ibv->node_type = IBV_NODE_CA;
	ibv->transport_type = IBV_TRANSPORT_IB;
	snprintf(ibv->name, sizeof(ibv->name), "verbena%u", index);
	snprintf(ibv->dev_name, sizeof(ibv->dev_name), "uverbs%u", index);
	snprintf(ibv->dev_path, sizeof(ibv->dev_path), "/sys/class/infiniband_verbs/uverbs%u",
		 index);
	snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path), "/sys/class/infiniband/verbena%u",
		 index);
}

/*
 * As many as CPUs, for programs that spread their CQs over all there are. Each brings the same
 * events: one thread of the process raises them, whichever CPU it runs on.
 */
static int cpu_count(void)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus > 0 ? (int)cpus : 1;
}

static void add_device(const struct vb_netif_snapshot *all, const struct vb_netif *netif,
		       bool infiniband)
{
	struct vb_device *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return;
	dev->index = device_count;
	dev->infiniband = infiniband;
	dev->ops = &no_provider;
	name_device(&dev->ibv, dev->index);
	memcpy(dev->netdev, netif->name, sizeof(dev->netdev));
	dev->ifindex = netif->index;
	dev->no_mac = !netif->has_mac;
	dev->comp_vectors = device_count ? devices[0]->comp_vectors : cpu_count();
	dev->system_image_guid = vb_netif_guid(all, netif);
	dev->guid = infiniband ? vb_netif_guid_infiniband(all, netif) : dev->system_image_guid;
	devices[device_count++] = dev;
}

static void add_chosen(const struct vb_netif_snapshot *all, const char *list)
{
	struct vb_device_choice choices[VB_DEVICES_MAX];
	const unsigned count = vb_device_choices(list, choices);

	for (unsigned i = 0; i < count; i++) {
		const struct vb_netif *netif;

		if (choices[i].infiniband)
			netif = default_netif(all);
		else
			netif = vb_netif_by_name(all, choices[i].netdev);
		if (netif)
			add_device(all, netif, choices[i].infiniband);
		else
			vb_explain("%s: there is no interface '%s': this entry is left out",
				   vb_environment_rows[VB_ENV_DEVICES].name, choices[i].netdev);
	}
}

static void make_devices(void)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	const char *list = vb_environment(VB_ENV_DEVICES);
	struct vb_device_choice choices[VB_DEVICES_MAX];
	const struct vb_netif *netif;

	device_count = 0;
	/* +system alone adds to the default. */
	if (list && (vb_device_choices(list, choices) || !vb_config_system())) {
		add_chosen(all, list);
	} else if ((netif = default_netif(all))) {
		add_device(all, netif, false);
		add_device(all, netif, true);
	}
	vb_netif_snapshot_put(all);
}

int vb_device_table(struct vb_device *const **table)
{
	/* A fork within make_devices is no problem: the C library begins again in the child. */
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_devices);
	*table = devices;
	return (int)device_count;
}

/*
 * The number alone may belong to another interface, in another network namespace. An interface
 * without a MAC (a tunnel) has its GUID from its address or its name, which may both change.
 */
const struct vb_netif *vb_device_netif(const struct vb_device *dev,
				       const struct vb_netif_snapshot *all)
{
	const struct vb_netif *numbered = vb_netif_by_index(all, dev->ifindex), *named;

	if (numbered && vb_netif_guid(all, numbered) == dev->system_image_guid)
		return numbered;
	named = vb_netif_by_name(all, dev->netdev);
	if (!named && dev->no_mac && numbered && !numbered->has_mac)
		return numbered;
	return named;
}

/* --- GIDs and LIDs --- */

/*
 * The last GID table of each device. GIDs keep their indexes from one table to the next, and every
 * connection asks for a GID: so the table is made once for each snapshot. A fork meanwhile may
 * leave half a table behind: then some GIDs have other indexes in the child.
 */
struct gid_table {
	uint64_t read_at_ns; /* of the snapshot that the table was made from; 0: there is none */
	int ifindex;
	union ibv_gid gids[VB_GIDS];
};

static struct gid_table last_tables[VB_DEVICES_MAX];
static struct vb_spin last_lock; /* protects last_tables */

static void open_in_child(void)
{
	last_lock = (struct vb_spin){ 0 };
}

static const struct vb_fork_handlers at_fork = { .child = open_in_child };

/* Makes the table anew, unless it is that of the snapshot or of a later one. */
static void refresh_table(const struct vb_device *dev, const struct vb_netif_snapshot *all,
			  struct gid_table *last)
{
	const struct vb_netif *netif;
	union ibv_gid gids[VB_GIDS];

	if (all->read_at_ns <= last->read_at_ns && all->read_at_ns)
		return;
	netif = vb_device_netif(dev, all);
	last->read_at_ns = netif ? all->read_at_ns : 0;
	last->ifindex = netif ? netif->index : 0;
	if (!netif)
		return;
	vb_gid_table_fill(all, netif, gids);
	vb_gid_table_keep(last->gids, gids);
	memcpy(last->gids, gids, sizeof(gids));
}

/* Copies GIDs, and returns the interface index, 0 where no interface belongs to the GIDs. */
static int read_table(const struct vb_device *dev, unsigned first, unsigned count,
		      union ibv_gid *gids)
{
	struct gid_table *last = &last_tables[dev->index];
	const struct vb_netif_snapshot *all;
	int ifindex;

	memset(gids, 0, count * sizeof(*gids));
	if (dev->infiniband) {
		if (!first)
			gids[0] = vb_gid_from_guid(dev->guid);
		return 0;
	}
	vb_fork_register(VB_FORK_GIDS, &at_fork);
	all = vb_netif_snapshot_get();
	vb_spin_lock(&last_lock);
	refresh_table(dev, all, last);
	ifindex = last->ifindex;
	if (ifindex) /* 0: the interface is gone, and has no addresses */
		memcpy(gids, &last->gids[first], count * sizeof(*gids));
	vb_spin_unlock(&last_lock);
	vb_netif_snapshot_put(all);
	return ifindex;
}

void vb_device_gids(const struct vb_device *dev, union ibv_gid table[VB_GIDS])
{
	read_table(dev, 0, VB_GIDS, table);
}

int vb_device_gid(const struct vb_device *dev, int index, union ibv_gid *gid)
{
	if (index < 0 || (unsigned)index >= vb_fact(VB_FACT_GID_TBL_LEN))
		return -EINVAL;
	read_table(dev, (unsigned)index, 1, gid);
	return 0;
}

int vb_device_gid_entry(const struct vb_device *dev, uint32_t index, struct ibv_gid_entry *entry)
{
	union ibv_gid gid;
	int ifindex;

	if (index >= vb_fact(VB_FACT_GID_TBL_LEN))
		return -EINVAL;
	ifindex = read_table(dev, index, 1, &gid);
	if (vb_gid_is_zero(&gid))
		return -ENODATA;
	*entry = (struct ibv_gid_entry){
		.gid = gid,
		.gid_index = index,
		.port_num = 1,
		.gid_type = dev->infiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = (uint32_t)ifindex,
	};
	return 0;
}

uint16_t vb_device_lid(const struct vb_device *dev)
{
	const struct vb_netif_snapshot *all;
	const struct vb_netif *netif;
	uint16_t lid = VB_LID_DEFAULT;

	if (!dev->infiniband)
		return 0;
	all = vb_netif_snapshot_get();
	netif = vb_device_netif(dev, all);
	if (netif)
		lid = vb_netif_lid(all, netif);
	vb_netif_snapshot_put(all);
	return lid;
}

bool vb_gid_is_local(const struct vb_device *dev, const union ibv_gid *gid)
{
	const union ibv_gid port_gid = vb_gid_from_guid(dev->guid);
	const struct vb_netif_snapshot *all;
	bool local;

	if (dev->infiniband || vb_gid_equal(gid, &port_gid))
		return vb_gid_equal(gid, &port_gid);
	all = vb_netif_snapshot_get();
	local = vb_gid_is_of_host(all, gid);
	vb_netif_snapshot_put(all);
	return local;
}
