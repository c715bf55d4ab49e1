/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of the engine that the other libraries use beyond the public verbs. Functions
 * return 0 (or a descriptor) or -errno. Any thread may call them. They make the NIC of this process
 * and its service thread if there is none yet.
 */
#ifndef VB_VERBS_ENGINE_TABLE_H
#define VB_VERBS_ENGINE_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "engine/attach/describe.h"
#include "gsi/cm_name.h"
#include "gsi/mad.h"
#include "nic/ib_path.h"
#include "verbs/extended.h"
#include "wire/gsi_datagram.h"

enum { VB_ENGINE_TABLE_VERSION = 15 };

/* The route from here to an address. */
struct vb_engine_route {
	union ibv_gid src, dst;    /* IPv4 mapped */
	struct ibv_device *device; /* the device that carries it, as ibv_get_device_list has it */
	int ifindex;               /* of the interface */
	int sgid_index;            /* index of the device's GID that stands for src */
	uint32_t scope;            /* ifindex where dst is link-local (no dst: src), else 0 */
	bool local;                /* dst is this host, or there is no dst */
	enum ibv_mtu mtu;          /* the MTU of the way to another host; 0: unknown */
};

struct vb_engine_table {
	unsigned version;
	const char *release; /* version of the library: both libraries come from one build */
	/* Calls each() for every counter (engine/counters.h); none before a device was opened. */
	void (*counters_each)(void (*each)(void *arg, const char *name, uint64_t value), void *arg);

	/* Counts a failed call (base/log.h): the program ends with one line about all of them. */
	void (*explain_count)(void);
	bool (*explained)(void);

	/* --- the service thread --- */

	/*
	 * The service thread calls ready(fd, arg), with no lock held, as long as fd is readable.
	 * ready() must not block. unwatch does not wait for a call that is under way: arg is never
	 * freed, or names an object that is recognized as gone.
	 */
	int (*watch)(int fd, void (*ready)(int fd, void *arg), void *arg);
	void (*unwatch)(int fd);

	/* Lists the identifiers for processes that ask for the objects of this one. */
	void (*describe_ids_by)(vb_describe_ids_fn *list);

	/* --- QP 1: gsi/gsi.h has the details --- */

	/* The slot of this process, 1 to 4094: the upper 12 bits of comm and SIDR request ids. */
	int (*slot)(uint32_t *slot);
	/*
	 * life: a socket bound to the name by which peers on this host notice the death of this
	 * process (shm/slot.h); not to be closed. life_call connects to the socket of another slot.
	 * -ECONNREFUSED: no process holds the slot, -EAGAIN: try later.
	 */
	int (*life)(void);
	int (*life_call)(uint32_t slot);
	/* The descriptor at which answers arrive: the same each time, not to be closed. */
	int (*gsi_open)(void);
	int (*gsi_claim)(struct vb_cm_claim *claim);
	void (*gsi_release)(int fd);
	/* Lets MADs from other hosts come in on an own address; NULL: on all of all devices. */
	int (*gsi_listen)(const union ibv_gid *own);
	int (*gsi_send)(const struct vb_gsi_datagram *datagram);
	/* -EAGAIN: no datagram is there; -EBADMSG: a datagram came that must not be used. */
	int (*gsi_receive)(int fd, struct vb_gsi_datagram *datagram, uid_t *uid);
	int (*gsi_knock)(const struct vb_gsi_datagram *datagram);
	bool (*gsi_refused)(int fd, const union ibv_gid *host, uint64_t transaction_id);

	/* --- other MADs, for libverbena-sysfs: gsi/mad.h has the details --- */

	int (*mad_bind_file)(uint32_t file);
	int (*mad_bind_server)(const struct vb_mad_server *server);
	int (*mad_resolve)(struct ibv_device *device, const struct vb_mad_address *to,
			   struct vb_gsi_datagram *datagram);
	/* The LID of the port with an address, as the device sees it; 0: unknown. */
	uint16_t (*mad_lid)(struct ibv_device *device, const union ibv_gid *address);
	size_t (*mad_agent)(struct ibv_device *device, const uint8_t *request, uint8_t *answer,
			    size_t room);
	uint64_t (*random)(void); /* unpredictable */
	/* Counts a MAD that a file has refused. */
	void (*mad_refused)(void);

	/* --- QPs --- */

	/*
	 * The service thread calls hook(qpn), with no lock held, when the first message arrives on
	 * a QP in RTR. IBV_EVENT_COMM_EST is raised as well. The QP may be gone by then. One hook;
	 * NULL: none.
	 */
	int (*on_comm_est)(void (*hook)(uint32_t qpn));
	/* Takes in all packets that have arrived: before an event that comes by another way. */
	void (*catch_up)(void);
	/* True: a packet of a connected QP has come from this address since then. */
	bool (*heard_since)(const union ibv_gid *host, uint64_t since_ns);

	/* --- addresses --- */

	/* True: the GID is an address of this host, loopback included. */
	bool (*gid_is_local)(const union ibv_gid *gid);
	/*
	 * The way to dst, from src if that is not NULL. The port of src does not matter; a wildcard
	 * counts as NULL. -ENETUNREACH, -EHOSTUNREACH; -EADDRNOTAVAIL: src is no address of this
	 * host; -ENODEV: no device carries it; -EAFNOSUPPORT, -EINVAL. dst NULL: the device that
	 * carries src. Loopback addresses mean this host, and are on the first device that can.
	 */
	int (*route)(const struct sockaddr *src, const struct sockaddr *dst,
		     struct vb_engine_route *route);
	/*
	 * The same between InfiniBand ports by their GIDs; src zero: any port. The addresses of the
	 * route stand for the GIDs. -ENODEV: no port of this host has src, or none is in the subnet
	 * of dst; -EHOSTUNREACH: the place of dst is not known.
	 */
	int (*ib_route)(const union ibv_gid *src, const union ibv_gid *dst,
			struct vb_engine_route *route);
	/* The InfiniBand device on an interface; NULL: none. */
	struct ibv_device *(*ib_device)(int ifindex);
	/* The path from an InfiniBand device's port to the port with an address (nic/ib_path.h). */
	struct vb_ib_path (*ib_path)(struct ibv_device *device, const union ibv_gid *src,
				     const union ibv_gid *dst, uint32_t scope);
	bool (*ib_lid_is)(struct ibv_device *device, uint16_t lid, const union ibv_gid *src,
			  const union ibv_gid *address, uint32_t scope);
	/*
	 * The service thread calls hook(), with no lock held, after addresses of this host have
	 * changed. One hook; NULL: none.
	 */
	void (*on_addresses)(void (*hook)(void));
	/* The place of this partition's P_Key in the table, a full member first; -EINVAL: none. */
	int (*pkey_index)(uint16_t pkey);
	/* True: a host answers for dst on the link, as far as is known (net/neighbour.h). */
	bool (*neighbour)(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope);

	/* --- the system's library: system/load.h, context.h and devices.h have the details --- */

	bool (*system_load)(void);
	void *(*system_beside)(const char *name);
	void (*system_enter)(void);
	int (*system_errno)(void);
	int (*system_learn)(struct ibv_context *context);
	/* True: one of its devices, or an object of one. */
	bool (*system_device)(const struct ibv_device *device);
	bool (*system_object)(const void *object);

	/* --- libverbena-legacy: verbs/extended.h has the details --- */

	bool (*extended_device)(struct ibv_context *context);
	struct ibv_cq_ex *(*extended_stamped)(struct ibv_cq *cq);
	int (*extended_cq)(struct ibv_cq *cq, bool ignore_overrun);
	int (*extended_qp)(struct ibv_qp *qp, const struct vb_extended_qp *wanted);
	struct ibv_mr *(*extended_key)(struct ibv_pd *pd, uint32_t parts, unsigned access);
	uint32_t (*extended_key_room)(struct ibv_mr *mr);
	int (*extended_post)(struct ibv_qp *qp, const struct vb_extended_wr *wr);

	/* --- the check of `verbena run` --- */

	/* The work requests of the batch that is being built, as a list; NULL: none. */
	struct ibv_send_wr *(*built)(struct ibv_qp_ex *qp);
	/* hook(qpn) is called, under locks, for a message without a receive. NULL: none. */
	void (*on_no_receive)(void (*hook)(uint32_t qpn));
};

/*
 * NULL: this libibverbs.so.1 has another version of the table. A library that registers for fork
 * (base/fork.h) calls this first.
 */
const struct vb_engine_table *verbena_engine(unsigned version);

#endif
