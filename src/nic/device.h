/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device: a name, a link layer and a network interface of this host. Devices are made once
 * per process, never change and are never freed. Each call looks its addresses up anew.
 */
#ifndef VB_NIC_DEVICE_H
#define VB_NIC_DEVICE_H

#include <assert.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"
#include "net/link_speed.h"

struct vb_device {
	struct ibv_device ibv; /* first: applications hold a pointer to it */
	const void *ops; /* right behind ibv: providers compare it with their own (never equal) */
	unsigned index;  /* position in the list */
	bool infiniband; /* link layer InfiniBand: LIDs, GRH optional; else Ethernet: RoCEv2 */
	char netdev[IF_NAMESIZE]; /* name of the interface when the device was made ... */
	int ifindex;              /* ... and its number: see vb_device_netif */
	bool no_mac;              /* the interface had no MAC then */
	int comp_vectors;
	uint64_t guid; /* network order; made from the MAC, so it is the same in every process */
	uint64_t system_image_guid; /* of the interface: the devices of both link layers share it */
};
static_assert(offsetof(struct vb_device, ops) == sizeof(struct ibv_device), "providers read it");

/* Where a message goes: an address handle, or the path of a connected QP, resolved. */
struct vb_av {
	union ibv_gid sgid; /* on InfiniBand without GRH: the GIDs that stand for the LIDs */
	union ibv_gid dgid;
	uint32_t flow_label;
	uint16_t slid, dlid;            /* InfiniBand only */
	union ibv_gid lid_src, lid_dst; /* addresses of these LIDs; zero: not across hosts */
	int ifindex; /* interface of sgid, as several may have a link-local sgid; 0: unknown */
	uint8_t sgid_index, traffic_class, hop_limit, sl;
	bool grh;           /* the sender asked for a GRH (always on Ethernet) */
	bool local;         /* dgid is an address of this host */
	bool multicast;     /* dgid is a multicast GID ... */
	bool within_host;   /* ... of a group whose packets stay on this host (nic/group.h) */
	uint16_t fabric;    /* of the group */
	uint32_t rate_kbps; /* static rate; 0: the rate of the port */
};

/*
 * The interface of a device now, or NULL. The interface may have another name than before, or have
 * been made anew under the old name.
 */
const struct vb_netif *vb_device_netif(const struct vb_device *dev,
				       const struct vb_netif_snapshot *all);

/* The devices of this process: those of VERBENA_DEVICES, or the default. Returns their count. */
int vb_device_table(struct vb_device *const **table);

/* Parses a list as in VERBENA_DEVICES; the interfaces need not exist. Returns the count. */
enum { VB_DEVICES_MAX = 32 };
struct vb_device_choice {
	char netdev[IF_NAMESIZE]; /* empty: the interface of the default route */
	bool infiniband;
};
unsigned vb_device_choices(const char *list, struct vb_device_choice choices[VB_DEVICES_MAX]);

/* The whole GID table; empty entries are zero. */
void vb_device_gids(const struct vb_device *dev, union ibv_gid table[VB_GIDS]);
/* 0 or -EINVAL; an index without an address gives 0 and a zero GID. */
int vb_device_gid(const struct vb_device *dev, int index, union ibv_gid *gid);
/* 0, -EINVAL (bad index) or -ENODATA (empty index). */
int vb_device_gid_entry(const struct vb_device *dev, uint32_t index, struct ibv_gid_entry *entry);
/* The LID of an InfiniBand port, 0 on Ethernet. */
uint16_t vb_device_lid(const struct vb_device *dev);
/*
 * Ethernet: any address of this host, 127.0.0.0/8 and ::1, the link-local GID of any interface.
 * InfiniBand: the port's own GID.
 */
bool vb_gid_is_local(const struct vb_device *dev, const union ibv_gid *gid);

/*
 * Checks and resolves an address vector. -EINVAL: no GRH on Ethernet, a bad sgid_index or port,
 * address families that do not match, DLID 0 on InfiniBand; -ENETUNREACH: no route to the host.
 */
int vb_device_resolve(const struct vb_device *dev, const struct ibv_ah_attr *attr,
		      struct vb_av *av);

void vb_device_attr(const struct vb_device *dev, struct ibv_device_attr_ex *attr);
/* The largest path MTU whose packets fit into so many bytes; 256 if none fits. */
enum ibv_mtu vb_mtu_within(unsigned bytes);
/* Width and speed of the link. The speed may exceed the largest value of active_speed. */
struct vb_link_rate vb_device_link_rate(const struct vb_device *dev);
/* The speed of the link; for an unknown speed that of its width and speed, 4X EDR. */
enum { VB_MBPS_UNKNOWN = 100000 };
unsigned vb_device_mbps(const struct vb_device *dev);
/* Fills all fields of the largest known layout; -EINVAL for a port other than 1. */
int vb_device_port_attr(const struct vb_device *dev, int port, struct ibv_port_attr *attr);
/* The state alone: no question to the driver. */
enum ibv_port_state vb_device_port_state(const struct vb_device *dev);

#endif
