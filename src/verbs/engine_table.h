/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What librdmacm uses of the engine beyond the public verbs. Functions return 0 (or a descriptor)
 * or -errno, may be called by any thread, and make the NIC of this process and its service thread
 * if there is none yet.
 */
#ifndef VB_VERBS_ENGINE_TABLE_H
#define VB_VERBS_ENGINE_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "gsi/cm_name.h"
#include "nic/ib_path.h"
#include "wire/gsi_datagram.h"

enum { VB_ENGINE_TABLE_VERSION = 9 };

/* How one gets from here to an address. */
struct vb_engine_route {
	union ibv_gid src, dst;    /* IPv4 mapped */
	struct ibv_device *device; /* that carries it; of the list of ibv_get_device_list */
	int ifindex;               /* of the interface */
	int sgid_index;            /* of the device's GID that stands for src */
	uint32_t scope;            /* the same where dst is link-local (no dst: src), else 0 */
	bool local;                /* dst is this host, or there is none */
	enum ibv_mtu mtu;          /* that the way to another host takes; 0: unknown */
};

struct vb_engine_table {
	unsigned version;
	const char *release; /* of the library: both come from one build */
	/* Every counter of this process (engine/counters.h); none before a device was opened. */
	void (*counters_each)(void (*each)(void *arg, const char *name, uint64_t value), void *arg);

	/* --- the service thread --- */

	/*
	 * Calls ready(fd, arg) in the service thread, with no lock held, as long as fd is readable.
	 * It must not block. unwatch does not wait for a call that is under way: arg is never
	 * freed, or recognized as gone by what it names.
	 */
	int (*watch)(int fd, void (*ready)(int fd, void *arg), void *arg);
	void (*unwatch)(int fd);

	/* --- QP 1: gsi/gsi.h has the details --- */

	/* Of this process, 1 to 4094: the upper 12 bits of its comm ids and SIDR request ids. */
	int (*slot)(uint32_t *slot);
	/*
	 * A socket that is bound to the name by which peers on this host notice the death of this
	 * process (shm/slot.h); not to be closed. life_call connects to that of another slot:
	 * -ECONNREFUSED: nobody is there, -EAGAIN: later.
	 */
	int (*life)(void);
	int (*life_call)(uint32_t slot);
	/* The descriptor at which answers arrive; the same each time, not to be closed. */
	int (*gsi_open)(void);
	int (*gsi_claim)(struct vb_cm_claim *claim);
	void (*gsi_release)(int fd);
	/* MADs from other hosts come in on an own address; NULL: on all of all devices. */
	int (*gsi_listen)(const union ibv_gid *own);
	int (*gsi_send)(const struct vb_gsi_datagram *datagram);
	/* -EAGAIN: nothing is there; -EBADMSG: nothing that may be looked at. */
	int (*gsi_receive)(int fd, struct vb_gsi_datagram *datagram, uid_t *uid);
	int (*gsi_knock)(const struct vb_gsi_datagram *datagram);
	bool (*gsi_refused)(int fd, const union ibv_gid *host, uint64_t transaction_id);

	/* --- QPs --- */

	/*
	 * hook(qpn) when the first message arrives on a QP in RTR, beside IBV_EVENT_COMM_EST: in the
	 * service thread, with no lock held; the QP may be gone by then. One hook; NULL: none.
	 */
	int (*on_comm_est)(void (*hook)(uint32_t qpn));
	/* Packets that have arrived complete: before an event that comes by another way. */
	void (*catch_up)(void);
	/* A packet of a connected QP has come from this address since then. */
	bool (*heard_since)(const union ibv_gid *host, uint64_t since_ns);

	/* --- addresses --- */

	/* An address of this host, loopback included. */
	bool (*gid_is_local)(const union ibv_gid *gid);
	/*
	 * The way to dst, from src if that is not NULL (its port does not matter, a wildcard is
	 * none): -ENETUNREACH, -EHOSTUNREACH; -EADDRNOTAVAIL: src is no address of this host;
	 * -ENODEV: no device carries it; -EAFNOSUPPORT, -EINVAL. dst NULL: which device carries
	 * src. Loopback addresses mean this host, and are on the first device that can.
	 */
	int (*route)(const struct sockaddr *src, const struct sockaddr *dst,
		     struct vb_engine_route *route);
	/*
	 * The same between InfiniBand ports by their GIDs; src zero: any port. The addresses of the
	 * route are those that stand for the GIDs. -ENODEV: no port of this host has src, or none
	 * is in the subnet of dst; -EHOSTUNREACH: where dst is is not known.
	 */
	int (*ib_route)(const union ibv_gid *src, const union ibv_gid *dst,
			struct vb_engine_route *route);
	/* The InfiniBand device on an interface, NULL: none. */
	struct ibv_device *(*ib_device)(int ifindex);
	/* Between an InfiniBand device's port and the port with an address (nic/ib_path.h). */
	struct vb_ib_path (*ib_path)(struct ibv_device *device, const union ibv_gid *src,
				     const union ibv_gid *dst, uint32_t scope);
	bool (*ib_lid_is)(struct ibv_device *device, uint16_t lid, const union ibv_gid *src,
			  const union ibv_gid *address, uint32_t scope);
	/*
	 * hook() after addresses of this host have changed: in the service thread, with no lock
	 * held. One hook; NULL: none.
	 */
	void (*on_addresses)(void (*hook)(void));
	/* Where the port's table has a P_Key of this partition, a full member first; -EINVAL: nowhere. */
	int (*pkey_index)(uint16_t pkey);
	/* Somebody answers for dst on the link, as far as one can know (net/neighbour.h). */
	bool (*neighbour)(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope);
};

/*
 * NULL: this libibverbs.so.1 speaks another version of the table. A library that registers for fork
 * (base/fork.h) calls this before.
 */
const struct vb_engine_table *verbena_engine(unsigned version);

#endif
