/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "engine/wire/multicast.h"
#include "nic/given.h"
#include "nic/profile.h"
#include "system/forward.h"
#include "verbs/stale.h"

VB_PUBLIC int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	VB_SYSTEM_PASS(qp, ibv_attach_mcast, (qp, gid, lid));
	VB_NO_CANCEL;
	int err = vb_given_check(VB_GIVEN_QP, qp, "ibv_attach_mcast");

	if (!err)
		err = vb_profile_check_verb(VB_VERB_ATTACH_MCAST, "ibv_attach_mcast");
	if (!err)
		err = vb_stale(vb_qp(qp)->nic, "ibv_attach_mcast");
	return vb_return_errno(err ? err : vb_multicast_attach(vb_qp(qp), gid, lid));
}

VB_PUBLIC int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	VB_SYSTEM_PASS(qp, ibv_detach_mcast, (qp, gid, lid));
	VB_NO_CANCEL;
	int err = vb_given_check(VB_GIVEN_QP, qp, "ibv_detach_mcast");

	if (!err)
		err = vb_stale(vb_qp(qp)->nic, "ibv_detach_mcast");
	return vb_return_errno(err ? err : vb_multicast_detach(vb_qp(qp), gid, lid));
}
