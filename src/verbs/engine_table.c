/* SPDX-License-Identifier: BSD-2-Clause */
/* The one symbol that other libraries use beyond the public ones: the engine, as a table. */
#include "verbs/engine_table.h"

#include <errno.h>
#include <stddef.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/random.h"
#include "base/symver.h"
#include "engine/comm_est.h"
#include "engine/counters.h"
#include "engine/link_watch.h"
#include "engine/watch.h"
#include "engine/wire/wire.h"
#include "gsi/gsi.h"
#include "net/gid.h"
#include "net/neighbour.h"
#include "nic/device_route.h"
#include "nic/lid.h"
#include "nic/pkey.h"
#include "path/no_receive.h"
#include "shm/slot.h"
#include "system/context.h"
#include "system/devices.h"
#include "verbs/ops.h"
#include "verbs/qp_ex.h"

static void counters_each(vb_counters_each_fn each, void *arg)
{
	struct vb_nic *nic = vb_nic_current();

	if (!nic)
		return;
	vb_counters_each(nic, each, arg);
	vb_gsi_counters_each(each, arg);
}

/* --- the NIC, made as ibv_open_device makes it --- */

static struct vb_nic *nic_get(int *err)
{
	struct vb_nic *nic = vb_nic_current();

	*err = 0;
	return nic ? nic : vb_nic_prepare(err);
}

/* The NIC with a service thread: without one nothing would arrive. */
static struct vb_nic *nic_running(int *err)
{
	struct vb_nic *nic = nic_get(err);

	*err = nic ? vb_engine_start(nic) : *err;
	return *err ? NULL : nic;
}

static int watch(int fd, vb_watch_fn ready, void *arg)
{
	int err;
	struct vb_nic *nic = nic_running(&err);

	return nic ? vb_watch(nic, fd, ready, arg) : err;
}

static void unwatch(int fd)
{
	struct vb_nic *nic = vb_nic_current();

	if (nic)
		vb_unwatch(nic, fd);
}

static int slot(uint32_t *out)
{
	int err;
	struct vb_nic *nic = nic_running(&err);

	if (nic)
		*out = nic->seg.head->slot;
	return err;
}

static int life(void)
{
	int err;
	struct vb_nic *nic = nic_running(&err);

	return nic ? nic->life : err;
}

static int life_call(uint32_t slot)
{
	return vb_slot_connect_for(slot, VB_SLOT_LIFE);
}

static int on_comm_est(void (*hook)(uint32_t qpn))
{
	int err;
	struct vb_nic *nic = nic_running(&err);

	return nic ? vb_comm_est_watch(nic, hook) : err;
}

static void catch_up(void)
{
	struct vb_nic *nic = vb_nic_current();

	if (nic)
		vb_wire_catch_up(nic);
}

static bool heard_since(const union ibv_gid *host, uint64_t since_ns)
{
	struct vb_nic *nic = vb_nic_current();

	return nic && vb_wire_heard_since(nic, host, since_ns);
}

/* --- QP 1 --- */

static int gsi_open(void)
{
	int err;
	struct vb_nic *nic = nic_running(&err);

	return nic ? vb_gsi_open(nic) : err;
}

static int gsi_claim(struct vb_cm_claim *claim)
{
	int err;
	struct vb_nic *nic = nic_running(&err);

	return nic ? vb_gsi_claim(nic, claim) : err;
}

static int gsi_listen(const union ibv_gid *own)
{
	int err;
	struct vb_nic *nic = nic_running(&err);

	return nic ? vb_gsi_listen(nic, own) : err;
}

static int gsi_send(const struct vb_gsi_datagram *datagram)
{
	int err;
	struct vb_nic *nic = nic_running(&err);

	return nic ? vb_gsi_send(nic, datagram) : err;
}

static int gsi_receive(int fd, struct vb_gsi_datagram *datagram, uid_t *uid)
{
	struct vb_nic *nic = vb_nic_current();

	return nic ? vb_gsi_receive(nic, fd, datagram, uid) : -EAGAIN;
}

static int mad_resolve(struct ibv_device *device, const struct vb_mad_address *to,
		       struct vb_gsi_datagram *datagram)
{
	return vb_mad_resolve((const struct vb_device *)device, to, datagram);
}

static uint16_t mad_lid(struct ibv_device *device, const union ibv_gid *address)
{
	const struct vb_device *dev = (const struct vb_device *)device;

	return dev->infiniband ? vb_lid_at(dev, address) : 0;
}

static size_t mad_agent(struct ibv_device *device, const uint8_t *request, uint8_t *answer,
			size_t room)
{
	int err;
	struct vb_nic *nic = nic_get(&err);

	return nic ? vb_mad_agent(nic, (const struct vb_device *)device, request, answer, room) : 0;
}

static void mad_refused(void)
{
	struct vb_nic *nic = vb_nic_current();

	if (nic)
		vb_gsi_count_refused(nic);
}

/* --- addresses --- */

static int route(const struct sockaddr *src, const struct sockaddr *dst,
		 struct vb_engine_route *out)
{
	struct vb_device_route found;
	int err = vb_device_route(src, dst, &found);

	if (!err)
		*out = (struct vb_engine_route){
			.src = found.src,
			.dst = found.dst,
			.device = &found.device->ibv,
			.ifindex = found.ifindex,
			.sgid_index = found.sgid_index,
			.scope = found.scope,
			.local = found.local,
			.mtu = found.mtu ? vb_mtu_within(found.mtu) : (enum ibv_mtu)0,
		};
	return err;
}

static int ib_route(const union ibv_gid *src, const union ibv_gid *dst, struct vb_engine_route *out)
{
	struct vb_device *dev = vb_ib_device(0);
	const union ibv_gid own = dev ? vb_gid_from_guid(dev->guid) : (union ibv_gid){ 0 };
	int err;

	if (!dev || (!vb_gid_is_zero(src) && !vb_gid_is_loopback(src) && !vb_gid_equal(src, &own)))
		return -ENODEV;
	*out = (struct vb_engine_route){ .device = &dev->ibv };
	err = vb_ib_address(dev, &own, &out->src);
	if (!err && dst)
		err = vb_ib_address(dev, dst, &out->dst);
	out->local = !dst || (!err && vb_gid_is_own(&out->dst));
	return err;
}

static struct ibv_device *ib_device(int ifindex)
{
	struct vb_device *dev = vb_ib_device(ifindex);

	return dev ? &dev->ibv : NULL;
}

static struct vb_ib_path ib_path(struct ibv_device *device, const union ibv_gid *src,
				 const union ibv_gid *dst, uint32_t scope)
{
	return vb_ib_path_to((const struct vb_device *)device, src, dst, scope);
}

static bool ib_lid_is(struct ibv_device *device, uint16_t lid, const union ibv_gid *src,
		      const union ibv_gid *address, uint32_t scope)
{
	return vb_ib_lid_is((const struct vb_device *)device, lid, src, address, scope);
}

static bool system_object(const void *object)
{
	return vb_system_has(object);
}

/* --- the check --- */

static void on_no_receive(void (*hook)(uint32_t qpn))
{
	atomic_store(&vb_no_receive_hook, hook);
}

static const struct vb_engine_table table = {
	.version = VB_ENGINE_TABLE_VERSION,
	.release = VERBENA_VERSION,
	.counters_each = counters_each,
	.explain_count = vb_explain_count,
	.explained = vb_explained_take,
	.watch = watch,
	.unwatch = unwatch,
	.slot = slot,
	.life = life,
	.life_call = life_call,
	.gsi_open = gsi_open,
	.gsi_claim = gsi_claim,
	.gsi_release = vb_gsi_release,
	.gsi_listen = gsi_listen,
	.gsi_send = gsi_send,
	.gsi_receive = gsi_receive,
	.gsi_knock = vb_gsi_knock,
	.gsi_refused = vb_gsi_refused,
	.mad_bind_file = vb_mad_bind_file,
	.mad_bind_server = vb_mad_bind_server,
	.mad_resolve = mad_resolve,
	.mad_lid = mad_lid,
	.mad_agent = mad_agent,
	.random = vb_random64,
	.mad_refused = mad_refused,
	.describe_ids_by = vb_describe_ids_by,
	.on_comm_est = on_comm_est,
	.catch_up = catch_up,
	.heard_since = heard_since,
	.gid_is_local = vb_gid_is_own,
	.route = route,
	.ib_route = ib_route,
	.ib_device = ib_device,
	.ib_path = ib_path,
	.ib_lid_is = ib_lid_is,
	.on_addresses = vb_link_hook,
	.pkey_index = vb_pkey_index_of,
	.neighbour = vb_neighbour_is_known,
	.system_load = vb_system_load,
	.system_beside = vb_system_beside,
	.system_enter = vb_system_enter,
	.system_errno = vb_system_errno,
	.system_learn = vb_system_learn,
	.system_device = vb_system_knows_device,
	.system_object = system_object,
	.extended_device = vb_extended_device,
	.extended_cq = vb_extended_cq,
	.extended_qp = vb_extended_qp,
	.extended_key = vb_extended_key,
	.extended_key_room = vb_extended_key_room,
	.extended_post = vb_extended_post,
	.extended_stamped = vb_extended_stamped,
	.built = vb_builder_list,
	.on_no_receive = on_no_receive,
};

VB_PUBLIC const struct vb_engine_table *verbena_engine(unsigned version)
{
	VB_NO_CANCEL;

	vb_engine_watch_fork(); /* the caller registers for fork after it */
	return version == table.version ? &table : NULL;
}
