/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path migration (IBA 17.2.8), on InfiniBand ports. A connected QP may have an alternate path beside
 * the primary one. MIGRATED: the primary path is all there is. REARM: an alternate path is loaded,
 * and the peer's next packet with MigReq clear says that it has one as well: ARMED. From there the
 * QP goes over to the alternate path, and is MIGRATED, when it is told to, when the primary path
 * does not answer, or when the peer does. Packets carry MigReq while their sender is MIGRATED.
 *
 * Between processes that share memory the entry of a QP takes the place of MigReq: each shows its
 * state there, and asks the other to look when it has changed.
 */
#ifndef VB_NIC_MIGRATE_H
#define VB_NIC_MIGRATE_H

#include "nic/qp.h"

static inline enum ibv_mig_state vb_mig_state(const struct vb_qp *qp)
{
	return (enum ibv_mig_state)atomic_load_explicit(&qp->migration.state, memory_order_relaxed);
}

/* The MigReq of its packets. */
static inline bool vb_qp_migreq(const struct vb_qp *qp)
{
	return vb_mig_state(qp) == IBV_MIG_MIGRATED;
}

/* A GID of a QP entry: its owner may be changing it. */
static inline union ibv_gid vb_shown_gid(const union ibv_gid *shown)
{
	return (union ibv_gid){ .global = {
					.subnet_prefix = __atomic_load_n(
						&shown->global.subnet_prefix, __ATOMIC_RELAXED),
					.interface_id = __atomic_load_n(&shown->global.interface_id,
									__ATOMIC_RELAXED),
				} };
}

/* The path in use; it may change at any time. */
struct vb_av vb_qp_av(struct vb_qp *qp);
/* The one in reserve. */
struct vb_av vb_qp_alternate(struct vb_qp *qp);
/* ibv_modify_qp changes the path itself. */
void vb_qp_set_av(struct vb_qp *qp, const struct vb_av *av);
/* Token holder, local path: messages follow the path that is in use now. */
void vb_qp_follow_path(struct vb_qp *qp);

/* IBV_QP_ALT_PATH and IBV_QP_PATH_MIG_STATE: 0 and the alternate path, resolved, or -EINVAL. */
int vb_migrate_check(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask,
		     struct vb_av *alternate);
void vb_migrate_adopt(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask,
		      const struct vb_av *alternate);
/* RESET. */
void vb_migrate_forget(struct vb_qp *qp);

/* To the alternate path if it is ARMED, with the event; false: it is not. */
bool vb_migrate(struct vb_qp *qp);
/* The peer has an alternate path as well. True: it is ARMED now. */
bool vb_migrate_arm(struct vb_qp *qp);
/* A migration was not possible: an event, once. */
void vb_migrate_refuse(struct vb_qp *qp);

/* The state has changed: a peer that shares memory with us is to look. */
void vb_migrate_tell(struct vb_qp *qp);
/* Looks at the peer; true: a message that waits may go another way now. */
bool vb_migrate_look(struct vb_qp *qp);

#endif
