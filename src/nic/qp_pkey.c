/* SPDX-License-Identifier: BSD-2-Clause */
/* The P_Key of a QP, as its peers see it, and counts of messages with a wrong key. */
#include "nic/context.h"
#include "nic/qp.h"

/*
 * Senders compare the gate. The QP's own requester learns it from look_again, which pairs with
 * set_gate in path/local/bind.c: either that thread sees the flag, or its short way is closed here.
 */
void vb_qp_follow_pkey(struct vb_qp *qp)
{
	const uint64_t gate = atomic_load(&qp->entry->gate);
	const uint16_t pkey = vb_pkey_at(qp->attr.pkey_index);

	if (atomic_load(&qp->pkey) != pkey) /* a store costs more: it is a fence, too */
		atomic_store(&qp->pkey, pkey);
	if (!gate || vb_gate_pkey(gate) == pkey)
		return;
	atomic_store(&qp->entry->gate, vb_gate(vb_gate_epoch(gate), pkey, vb_gate_state(gate)));
	atomic_store(&qp->remote.look_again, true);
	atomic_store(&qp->remote.direct, 0);
}

/* Under nic->lock no QP leaves the list meanwhile. */
void vb_qps_follow_pkeys(struct vb_nic *nic)
{
	pthread_mutex_lock(&nic->lock);
	vb_list_for(qp, &nic->qps, struct vb_qp, node) {
		vb_spin_lock(&qp->state_lock);
		vb_qp_follow_pkey(qp);
		vb_spin_unlock(&qp->state_lock);
	}
	pthread_mutex_unlock(&nic->lock);
}

/* NULL: an XRC QP that has no context yet. */
static const struct vb_device *device_of(const struct vb_qp *qp)
{
	return qp->ibv.context ? vb_context(qp->ibv.context)->dev : NULL;
}

void vb_qp_keep_violations(const struct vb_qp *qp)
{
	const struct vb_device *dev = device_of(qp);

	if (!dev)
		return;
	qp->nic->violations[dev->index].pkey += atomic_load(&qp->lent->bad_pkey);
	qp->nic->violations[dev->index].qkey += atomic_load(&qp->lent->bad_qkey);
}

struct vb_violations vb_qps_violations(struct vb_nic *nic, const struct vb_device *dev)
{
	struct vb_violations sum;

	pthread_mutex_lock(&nic->lock);
	sum.pkey = nic->violations[dev->index].pkey;
	sum.qkey = nic->violations[dev->index].qkey;
	vb_list_for(qp, &nic->qps, struct vb_qp, node) {
		if (device_of(qp) != dev)
			continue;
		sum.pkey += atomic_load(&qp->lent->bad_pkey);
		sum.qkey += atomic_load(&qp->lent->bad_qkey);
	}
	pthread_mutex_unlock(&nic->lock);
	return sum;
}
