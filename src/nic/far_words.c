/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/far_words.h"

#include <stdio.h>

#include "net/gid.h"
#include "nic/key_words.h"

uint32_t vb_far_qpn(const struct vb_qp *qp, const struct vb_wqe *wqe)
{
	return qp->type == IBV_QPT_UD && wqe ? wqe->remote_qpn : qp->attr.dest_qp_num;
}

const char *vb_far_words(const struct vb_qp *qp, const struct vb_wqe *wqe, char text[VB_FAR_WORDS])
{
	const struct vb_av *av = qp->type != IBV_QPT_UD ? &qp->av
				 : wqe && wqe->ah       ? &wqe->ah->av
							: NULL;
	struct vb_peer *peer = NULL;
	char gid[VB_GID_TEXT];

	*text = '\0';
	if (!av)
		return text;
	if (av->local && vb_far_qpn(qp, wqe) == qp->ibv.qp_num) {
		snprintf(text, VB_FAR_WORDS, " (this QP itself)");
		return text;
	}
	if (av->local)
		peer = vb_nic_peer(qp->nic, vb_far_qpn(qp, wqe) >> VB_QP_INDEX_BITS);
	vb_peer_words(peer, text);
	vb_peer_put(peer);
	/* The list has no processes that have ended. */
	if (!*text && av->local && wqe && qp->type != IBV_QPT_UD)
		vb_peer_words(qp->remote.peer, text);
	if (!*text)
		snprintf(text, VB_FAR_WORDS, " (at %s%s)", vb_gid_print(&av->dgid, gid),
			 vb_far_qpn(qp, wqe) == qp->ibv.qp_num ? "; the number of this QP itself"
							       : "");
	return text;
}
