/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/migrate.h"

#include <errno.h>

#include "base/log.h"
#include "net/gid.h"
#include "nic/rate.h"

enum { TIMEOUT_MAX = 31 };

/* --- paths --- */

struct vb_av vb_qp_av(struct vb_qp *qp)
{
	struct vb_av av;

	vb_spin_lock(&qp->state_lock);
	av = qp->av;
	vb_spin_unlock(&qp->state_lock);
	return av;
}

struct vb_av vb_qp_alternate(struct vb_qp *qp)
{
	struct vb_av av;

	vb_spin_lock(&qp->state_lock);
	av = qp->migration.alternate;
	vb_spin_unlock(&qp->state_lock);
	return av;
}

/* Peers read the GID meanwhile. A peer that sees half of it looks again. */
static void show_gid(union ibv_gid *shown, const union ibv_gid *gid)
{
	__atomic_store_n(&shown->global.subnet_prefix, gid->global.subnet_prefix, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->global.interface_id, gid->global.interface_id, __ATOMIC_RELAXED);
}

/* Under state_lock. */
static void use_path(struct vb_qp *qp, const struct vb_av *av)
{
	qp->av = *av;
	show_gid(&qp->entry->sgid, &av->sgid);
	show_gid(&qp->entry->dgid, &av->dgid);
	vb_qp_settle_rate(qp);
	atomic_fetch_add(&qp->migration.path_number, 1);
}

void vb_qp_set_av(struct vb_qp *qp, const struct vb_av *av)
{
	vb_spin_lock(&qp->state_lock);
	use_path(qp, av);
	vb_spin_unlock(&qp->state_lock);
}

/* A bound QP stays bound: its place in the peer's receive queue belongs to the connection. */
void vb_qp_follow_path(struct vb_qp *qp)
{
	const bool local = vb_qp_av(qp).local;

	if (!qp->remote.gate)
		vb_remote_unbind(&qp->remote);
	else if (!local)
		atomic_store_explicit(&qp->remote.direct, 0, memory_order_relaxed);
	atomic_store(&qp->migration.astray, qp->remote.gate && !local);
}

/* --- states --- */

/* Under state_lock. */
static void set_state(struct vb_qp *qp, enum ibv_mig_state state)
{
	atomic_store(&qp->migration.state, (uint8_t)state);
	atomic_store(&qp->entry->mig_state, (uint8_t)state);
	qp->migration.refused = false;
}

#define SWAP(a, b)                   \
	do {                         \
		__typeof__(a) c = a; \
		a = b;               \
		b = c;               \
	} while (0)

/* The primary path becomes the next alternate path. Under state_lock. */
static void swap_paths(struct vb_qp *qp)
{
	struct ibv_qp_attr *attr = &qp->attr;
	const struct vb_av alternate = qp->migration.alternate;

	qp->migration.alternate = qp->av;
	use_path(qp, &alternate);
	SWAP(attr->ah_attr, attr->alt_ah_attr);
	SWAP(attr->pkey_index, attr->alt_pkey_index);
	SWAP(attr->port_num, attr->alt_port_num);
	SWAP(attr->timeout, attr->alt_timeout);
	vb_qp_follow_pkey(qp);
}

bool vb_migrate(struct vb_qp *qp)
{
	bool armed;

	if (vb_mig_state(qp) != IBV_MIG_ARMED)
		return false;
	vb_spin_lock(&qp->state_lock);
	armed = vb_mig_state(qp) == IBV_MIG_ARMED;
	if (armed) {
		swap_paths(qp);
		set_state(qp, IBV_MIG_MIGRATED);
	}
	vb_spin_unlock(&qp->state_lock);
	if (armed)
		vb_qp_raise(qp, IBV_EVENT_PATH_MIG);
	return armed;
}

bool vb_migrate_arm(struct vb_qp *qp)
{
	bool rearm;

	if (vb_mig_state(qp) != IBV_MIG_REARM)
		return false;
	vb_spin_lock(&qp->state_lock);
	rearm = vb_mig_state(qp) == IBV_MIG_REARM;
	if (rearm)
		set_state(qp, IBV_MIG_ARMED);
	vb_spin_unlock(&qp->state_lock);
	return rearm;
}

void vb_migrate_refuse(struct vb_qp *qp)
{
	bool first;

	vb_spin_lock(&qp->state_lock);
	first = !qp->migration.refused;
	qp->migration.refused = true;
	vb_spin_unlock(&qp->state_lock);
	if (!first)
		return;
	vb_explain("QP 0x%06x: the peer migrated to a path that is not the QP's alternate path",
		   qp->ibv.qp_num);
	vb_qp_raise(qp, IBV_EVENT_PATH_MIG_ERR);
}

/* --- ibv_modify_qp --- */

static int refuse_modify(const struct vb_qp *qp, const char *why)
{
	vb_explain("ibv_modify_qp: QP 0x%06x: %s", qp->ibv.qp_num, why);
	return -EINVAL;
}

static int check_alternate(struct vb_qp *qp, const struct ibv_qp_attr *attr,
			   struct vb_av *alternate)
{
	if (attr->alt_port_num != 1)
		return refuse_modify(qp, "alt_port_num is not 1, the only port");
	if (attr->alt_pkey_index >= vb_pkey_table_length())
		return refuse_modify(qp, "alt_pkey_index is outside of the P_Key table");
	if (attr->alt_timeout > TIMEOUT_MAX)
		return refuse_modify(qp, "alt_timeout is more than 31");
	return vb_device_resolve(vb_context(qp->ibv.context)->dev, &attr->alt_ah_attr, alternate);
}

static int check_state(const struct vb_qp *qp, enum ibv_mig_state next, bool loaded)
{
	switch (next) {
	case IBV_MIG_MIGRATED:
		return 0;
	case IBV_MIG_REARM:
		return loaded ? 0 : refuse_modify(qp, "IBV_MIG_REARM without an alternate path");
	case IBV_MIG_ARMED:
		return refuse_modify(
			qp, "IBV_MIG_ARMED is what IBV_MIG_REARM becomes when the peer has an "
			    "alternate path too");
	}
	return refuse_modify(qp, "path_mig_state is none of IBV_MIG_MIGRATED, IBV_MIG_REARM");
}

int vb_migrate_check(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask,
		     struct vb_av *alternate)
{
	const bool loads = mask & IBV_QP_ALT_PATH, moves = mask & IBV_QP_PATH_MIG_STATE;
	int err = 0;

	if ((loads || (moves && attr->path_mig_state != IBV_MIG_MIGRATED)) &&
	    !vb_context(qp->ibv.context)->dev->infiniband)
		return refuse_modify(qp, "RoCE has no path migration");
	if (loads)
		err = check_alternate(qp, attr, alternate);
	if (!err && moves)
		err = check_state(qp, attr->path_mig_state, loads || qp->migration.loaded);
	return err;
}

static void load_alternate(struct vb_qp *qp, const struct ibv_qp_attr *attr,
			   const struct vb_av *alternate)
{
	vb_spin_lock(&qp->state_lock);
	qp->migration.alternate = *alternate;
	qp->migration.loaded = true;
	qp->attr.alt_ah_attr = attr->alt_ah_attr;
	qp->attr.alt_pkey_index = attr->alt_pkey_index;
	qp->attr.alt_port_num = attr->alt_port_num;
	qp->attr.alt_timeout = attr->alt_timeout;
	vb_spin_unlock(&qp->state_lock);
}

void vb_migrate_adopt(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask,
		      const struct vb_av *alternate)
{
	if (mask & IBV_QP_ALT_PATH)
		load_alternate(qp, attr, alternate);
	if (!(mask & IBV_QP_PATH_MIG_STATE) || attr->path_mig_state == vb_mig_state(qp))
		return;
	if (attr->path_mig_state == IBV_MIG_MIGRATED && vb_migrate(qp))
		return;
	vb_spin_lock(&qp->state_lock);
	set_state(qp, attr->path_mig_state);
	vb_spin_unlock(&qp->state_lock);
}

void vb_migrate_forget(struct vb_qp *qp)
{
	vb_spin_lock(&qp->state_lock);
	set_state(qp, IBV_MIG_MIGRATED);
	qp->migration.loaded = false;
	atomic_store(&qp->migration.astray, false);
	vb_spin_unlock(&qp->state_lock);
}

/* --- the peer, where memory is shared --- */

/* The peer, referenced; NULL: it is not attached, or its QP does not point to ours. */
static struct vb_peer *migration_peer(struct vb_qp *qp, struct vb_qp_entry **entry)
{
	const uint32_t qpn = qp->attr.dest_qp_num;
	struct vb_peer *peer = vb_nic_peer(qp->nic, qpn >> VB_QP_INDEX_BITS);

	*entry = peer && atomic_load(&peer->state) == VB_PEER_READY ? vb_peer_qp(peer, qpn) : NULL;
	if (*entry && vb_gate_open(atomic_load(&(*entry)->gate)) &&
	    (*entry)->dest_qpn == qp->ibv.qp_num)
		return peer;
	vb_peer_put(peer);
	return NULL;
}

void vb_migrate_tell(struct vb_qp *qp)
{
	struct vb_qp_entry *entry;
	struct vb_peer *peer = atomic_load(&qp->wired) ? NULL : migration_peer(qp, &entry);

	if (!peer)
		return;
	vb_peer_attend_qp(peer, entry, VB_QP_ATTN_MIGRATE);
	if (peer->self)
		vb_nic_ring(qp->nic);
	vb_peer_put(peer);
}

/* Is the peer's path our path av, seen from the other end? */
static bool leads_to(const struct vb_av *av, const struct vb_qp_entry *entry)
{
	const union ibv_gid sgid = vb_shown_gid(&entry->sgid), dgid = vb_shown_gid(&entry->dgid);

	return av->local && vb_gid_equal(&av->dgid, &sgid) && vb_gid_equal(&av->sgid, &dgid);
}

static bool follow_peer(struct vb_qp *qp, const struct vb_qp_entry *entry)
{
	const struct vb_av alternate = vb_qp_alternate(qp);

	if (!leads_to(&alternate, entry)) {
		vb_migrate_refuse(qp);
		return false;
	}
	if (!vb_migrate(qp))
		return false;
	atomic_store(&qp->migration.astray, false);
	return true;
}

bool vb_migrate_look(struct vb_qp *qp)
{
	struct vb_qp_entry *entry;
	struct vb_peer *peer = atomic_load(&qp->wired) ? NULL : migration_peer(qp, &entry);
	bool moved = false;

	if (!peer)
		return false;
	if (atomic_load(&entry->mig_state) != IBV_MIG_MIGRATED) {
		if (vb_migrate_arm(qp))
			vb_migrate_tell(qp);
	} else if (vb_mig_state(qp) == IBV_MIG_ARMED) {
		moved = follow_peer(qp, entry);
	}
	vb_peer_put(peer);
	return moved;
}
