/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path migration (IBA 17.2.8), on InfiniBand ports. A connected QP may have an alternate path
 * beside the primary path. MIGRATED: only the primary path is used. REARM: an alternate path is
 * loaded. A packet of the peer with MigReq clear then says that the peer has one as well: ARMED. An
 * ARMED QP goes over to the alternate path, and is MIGRATED, when the application says so, when the
 * primary path does not answer, or when the peer goes over. Packets carry MigReq while their sender
 * is MIGRATED.
 *
 * Between processes that share memory the entry of a QP takes the place of MigReq: each process
 * shows its state there, and asks the other process to look when the state has changed.
 */
#ifndef VB_NIC_MIGRATE_H
#define VB_NIC_MIGRATE_H

#include "nic/qp.h"

static inline enum ibv_mig_state vb_mig_state(const struct vb_qp *qp)
{
	return (enum ibv_mig_state)atomic_load_explicit(&qp->migration.state, memory_order_relaxed);
}

/* The MigReq bit of the QP's packets. */
static inline bool vb_qp_migreq(const struct vb_qp *qp)
{
	return vb_mig_state(qp) == IBV_MIG_MIGRATED;
}

/* A GID of a QP entry. Its owner may change it meanwhile. */
static inline union ibv_gid vb_shown_gid(const union ibv_gid *shown)
{
	return (union ibv_gid){ .global = {
					.subnet_prefix = __atomic_load_n(
						&shown->global.subnet_prefix, __ATOMIC_RELAXED),
					.interface_id = __atomic_load_n(&shown->global.interface_id,
									__ATOMIC_RELAXED),
				} };
}

/* The path in use, which may change at any time. */
struct vb_av vb_qp_av(struct vb_qp *qp);
/* The alternate path. */
struct vb_av vb_qp_alternate(struct vb_qp *qp);
/* For ibv_modify_qp: sets the path in use. */
void vb_qp_set_av(struct vb_qp *qp, const struct vb_av *av);
/* Token holder, local path: messages take the path in use from now on. */
void vb_qp_follow_path(struct vb_qp *qp);

/*
 * Checks IBV_QP_ALT_PATH and IBV_QP_PATH_MIG_STATE. 0 and the resolved alternate path, or -EINVAL.
 */
int vb_migrate_check(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask,
		     struct vb_av *alternate);
void vb_migrate_adopt(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask,
		      const struct vb_av *alternate);
/* For RESET: MIGRATED, without an alternate path. */
void vb_migrate_forget(struct vb_qp *qp);

/* An ARMED QP goes over to the alternate path and raises the event; false: the QP is not ARMED. */
bool vb_migrate(struct vb_qp *qp);
/* The peer has an alternate path as well. True: the QP was in REARM, and is ARMED now. */
bool vb_migrate_arm(struct vb_qp *qp);
/* A migration was not possible: raises the event, once. */
void vb_migrate_refuse(struct vb_qp *qp);

/* The state has changed: asks a peer that shares memory with us to look. */
void vb_migrate_tell(struct vb_qp *qp);
/* Looks at the peer's state; true: the QP went over, and a message that waits may go now. */
bool vb_migrate_look(struct vb_qp *qp);

#endif
