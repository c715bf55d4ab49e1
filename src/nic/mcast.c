/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/mcast.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct membership {
	struct vb_list node; /* in nic->memberships */
	union ibv_gid gid;
	uint16_t lid;
	uint32_t qpn;
};

static bool is_multicast(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return gid->raw[0] == 0xff ||
	       (!memcmp(gid->raw, mapped, sizeof(mapped)) && gid->raw[12] >> 4 == 0xe);
}

static bool same_group(const struct membership *m, const union ibv_gid *gid)
{
	return !memcmp(&m->gid, gid, sizeof(*gid));
}

/* Under nic->mcast_lock. */
static struct membership *find(struct vb_nic *nic, const union ibv_gid *gid, uint32_t qpn)
{
	vb_list_for(m, &nic->memberships, struct membership, node)
		if (m->qpn == qpn && same_group(m, gid))
			return m;
	return NULL;
}

/* Members of the group, and groups in all if it would be a new one. */
static bool room(struct vb_nic *nic, const union ibv_gid *gid)
{
	unsigned members = 0, total = 0;

	vb_list_for(m, &nic->memberships, struct membership, node) {
		members += same_group(m, gid);
		total++;
	}
	return members < VB_MCAST_QP_MAX && total < VB_MCAST_GRP_MAX;
}

int vb_mcast_attach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct vb_nic *nic = qp->nic;
	struct membership *m;
	int err = 0;

	if (qp->type != IBV_QPT_UD || !is_multicast(gid)) {
		vb_explain("ibv_attach_mcast: needs a UD QP and a multicast GID");
		return -EINVAL;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	*m = (struct membership){ .gid = *gid, .lid = lid, .qpn = qp->ibv.qp_num };
	vb_spin_lock(&nic->mcast_lock);
	if (find(nic, gid, m->qpn) || !room(nic, gid)) {
		err = room(nic, gid) ? 0 : -ENOMEM;
		free(m);
	} else {
		vb_list_append(&nic->memberships, &m->node);
		qp->mcast_groups++;
	}
	vb_spin_unlock(&nic->mcast_lock);
	return err;
}

int vb_mcast_detach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct vb_nic *nic = qp->nic;
	struct membership *m;

	vb_spin_lock(&nic->mcast_lock);
	m = find(nic, gid, qp->ibv.qp_num);
	if (m && m->lid == lid) {
		vb_list_remove(&m->node);
		qp->mcast_groups--;
	} else {
		m = NULL;
	}
	vb_spin_unlock(&nic->mcast_lock);
	free(m);
	return m ? 0 : -EINVAL;
}
