/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/mcast.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "net/gid.h"
#include "nic/fact.h"

struct membership {
	struct vb_list node; /* in nic->memberships, under nic->mcast_lock */
	union ibv_gid gid;   /* the MGID that the application gave */
	uint16_t lid;
	uint32_t qpn;
	const struct vb_device *dev;
	struct vb_group group;
};

/* This function and the next two run under nic->mcast_lock. */
static struct membership *membership_find(struct vb_nic *nic, const union ibv_gid *gid,
					  uint32_t qpn)
{
	vb_list_for(m, &nic->memberships, struct membership, node)
		if (m->qpn == qpn && vb_gid_equal(&m->gid, gid))
			return m;
	return NULL;
}

static bool is_in_group(const struct membership *m, const union ibv_gid *group_gid, uint16_t fabric)
{
	return m->group.fabric == fabric && vb_gid_equal(&m->group.gid, group_gid);
}

static bool has_room(struct vb_nic *nic, const struct vb_group *group)
{
	unsigned members = 0, total = 0;

	vb_list_for(m, &nic->memberships, struct membership, node) {
		members += is_in_group(m, &group->gid, group->fabric);
		total++;
	}
	return members < vb_fact(VB_FACT_MAX_MCAST_QP_ATTACH) &&
	       total < vb_fact(VB_FACT_MAX_MCAST_GRP) &&
	       total < vb_fact(VB_FACT_MAX_TOTAL_MCAST_QP_ATTACH);
}

static int membership_add(struct vb_qp *qp, struct membership *m)
{
	struct vb_nic *nic = qp->nic;
	int err = 0;

	vb_spin_lock(&nic->mcast_lock);
	if (membership_find(nic, &m->gid, m->qpn)) {
		err = -EALREADY;
	} else if (!has_room(nic, &m->group)) {
		err = -ENOMEM;
	} else {
		vb_list_append(&nic->memberships, &m->node);
		qp->mcast_groups++;
	}
	vb_spin_unlock(&nic->mcast_lock);
	return err;
}

/* On Ethernet LIDs mean nothing, and programs pass any value. */
static int check_attach(const struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	const struct vb_device *dev = vb_context(qp->ibv.context)->dev;

	char text[VB_GID_TEXT];

	if (qp->type != IBV_QPT_UD) {
		vb_explain("ibv_attach_mcast: QP 0x%06x is not a UD QP", qp->ibv.qp_num);
		return -EINVAL;
	}
	if (!vb_gid_is_multicast(gid)) {
		vb_explain("ibv_attach_mcast: QP 0x%06x: %s is no multicast GID", qp->ibv.qp_num,
			   vb_gid_print(gid, text));
		return -EINVAL;
	}
	if (dev->infiniband && (lid < VB_MULTICAST_LID_FIRST || lid > VB_MULTICAST_LID_LAST)) {
		vb_explain("ibv_attach_mcast: LID 0x%04x is no multicast LID (0x%04x to 0x%04x)",
			   lid, VB_MULTICAST_LID_FIRST, VB_MULTICAST_LID_LAST);
		return -EINVAL;
	}
	return 0;
}

int vb_mcast_attach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid,
		    struct vb_group *group)
{
	const struct vb_device *dev = vb_context(qp->ibv.context)->dev;
	struct membership *m;
	int err = check_attach(qp, gid, lid);

	if (err)
		return err;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	*group = vb_group_of(dev, gid);
	*m = (struct membership){
		.gid = *gid, .lid = lid, .qpn = qp->ibv.qp_num, .dev = dev, .group = *group
	};
	err = membership_add(qp, m);
	if (err == -ENOMEM)
		vb_explain("ibv_attach_mcast: QP 0x%06x: a group takes %u QPs, and the device %u "
			   "groups and %u QPs in all",
			   qp->ibv.qp_num, vb_fact_u32(VB_FACT_MAX_MCAST_QP_ATTACH),
			   vb_fact_u32(VB_FACT_MAX_MCAST_GRP),
			   vb_fact_u32(VB_FACT_MAX_TOTAL_MCAST_QP_ATTACH));
	if (err)
		free(m);
	return err;
}

int vb_mcast_detach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid,
		    struct vb_group *group)
{
	struct vb_nic *nic = qp->nic;
	struct membership *m;

	vb_spin_lock(&nic->mcast_lock);
	m = membership_find(nic, gid, qp->ibv.qp_num);
	if (m && m->lid == lid) {
		vb_list_remove(&m->node);
		qp->mcast_groups--;
		*group = m->group;
	} else {
		m = NULL;
	}
	vb_spin_unlock(&nic->mcast_lock);
	if (!m) {
		vb_explain("ibv_detach_mcast: QP 0x%06x is not attached to that group",
			   qp->ibv.qp_num);
		return -EINVAL;
	}
	free(m);
	return 0;
}

bool vb_mcast_follow(struct vb_nic *nic, const struct vb_device *dev, int ifindex,
		     struct vb_group *from, struct vb_group *to)
{
	bool found = false;

	vb_spin_lock(&nic->mcast_lock);
	vb_list_for(m, &nic->memberships, struct membership, node) {
		if (m->dev != dev || m->group.ifindex == ifindex ||
		    (dev->infiniband && m->group.within_host) ||
		    (found && !is_in_group(m, &from->gid, from->fabric)))
			continue;
		*from = m->group;
		*to = m->group = vb_group_on(from, ifindex);
		found = true;
	}
	vb_spin_unlock(&nic->mcast_lock);
	return found;
}

static bool has_qpn(const uint32_t *qpns, unsigned count, uint32_t qpn)
{
	for (unsigned i = 0; i < count; i++)
		if (qpns[i] == qpn)
			return true;
	return false;
}

/* A QP may be attached to two MGIDs that name the same group. */
unsigned vb_mcast_members(struct vb_nic *nic, const union ibv_gid *group_gid, uint16_t fabric,
			  uint32_t qpns[VB_MCAST_QP_MAX])
{
	unsigned count = 0;

	vb_spin_lock(&nic->mcast_lock);
	vb_list_for(m, &nic->memberships, struct membership, node)
		if (is_in_group(m, group_gid, fabric) && count < VB_MCAST_QP_MAX &&
		    !has_qpn(qpns, count, m->qpn))
			qpns[count++] = m->qpn;
	vb_spin_unlock(&nic->mcast_lock);
	return count;
}

bool vb_mcast_mgid(struct vb_nic *nic, uint32_t qpn, const union ibv_gid *group_gid,
		   uint16_t fabric, union ibv_gid *mgid)
{
	bool found = false;

	vb_spin_lock(&nic->mcast_lock);
	vb_list_for(m, &nic->memberships, struct membership, node) {
		if (found || m->qpn != qpn || !is_in_group(m, group_gid, fabric))
			continue;
		*mgid = m->gid;
		found = true;
	}
	vb_spin_unlock(&nic->mcast_lock);
	return found;
}
