/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a QP, with all that takes part in it: the service thread, attaching, the wire and the
 * threads that execute its queue. nic/qp.h has the object alone, src/verbs the calls.
 */
#ifndef VB_ENGINE_QP_LIFE_H
#define VB_ENGINE_QP_LIFE_H

#include "nic/qp.h"

/*
 * attr->cap becomes the capacity that the QP has. 0 or -errno. A raw packet QP has no interface yet
 * (engine/raw_port.h). An XRC_RECV QP is made by engine/xrc/share.h.
 */
int vb_qp_life_create(struct vb_pd *pd, struct ibv_qp_init_attr *attr, struct vb_qp **out);

/* vb_qp_modify, and the consequences of the change. */
int vb_qp_life_modify(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask);
/* The rate in kilobits per second, and the bytes of a burst. 0: no limit, the default. */
void vb_qp_life_limit_rate(struct vb_qp *qp, uint32_t kbps, uint32_t burst_bytes);

/*
 * Waits until no thread runs the QP and no thread finds it, then frees it. -EBUSY: groups or flows
 * name it, or a stopped thread is inside; the QP stays. A QP that fork has brought: only the copy
 * goes.
 */
int vb_qp_life_destroy(struct vb_qp *qp);

#endif
