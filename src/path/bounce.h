/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Elements with indirect keys (nic/umr.h) of the initiator's own side. Such a key may stand for
 * thousands of pieces, and paths know lists of VB_SGE_MAX elements. So the bytes of the request
 * are gathered in a buffer of the QP before they leave; those that come are scattered when the work
 * request completes. Only the executor of the send queue calls these functions.
 */
#ifndef VB_PATH_BOUNCE_H
#define VB_PATH_BOUNCE_H

#include "nic/qp.h"

/*
 * The elements of a WQE were refused as ordinary ones. True: some are indirect, all are good, and
 * *element stands for them. access: as vb_path_check_sges; 0: the bytes leave.
 */
bool vb_bounce_take(struct vb_qp *qp, const struct vb_wqe *wqe, unsigned access,
		    struct ibv_sge *element);
/* The WQE at sq.next is about to complete. Its status becomes LOC_PROT_ERR if the bytes that came
 * have no place any more. */
void vb_bounce_end(struct vb_qp *qp, struct vb_wqe *wqe);

#endif
