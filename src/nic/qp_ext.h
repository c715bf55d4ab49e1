/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of a QP for extended work requests, which no public verb posts (verbs/extended.h). A WQE
 * has room for the operands of public ones; those of extended ones lie in rings beside the send
 * queue, at the same index.
 */
#ifndef VB_NIC_QP_EXT_H
#define VB_NIC_QP_EXT_H

#include "nic/cross.h"
#include "nic/masked.h"
#include "nic/qp.h"
#include "nic/umr.h"

struct vb_qp_ext {
	uint32_t atomic_max;      /* bytes of an operand of extended atomics; 0: none is posted */
	struct vb_masked *masked; /* ring; owned */
	uint32_t parts_max;       /* parts that a UMR request itself can carry */
	struct vb_umr **umrs;     /* ring, as the pointers in it; owned; NULL: no UMR is posted */
	struct vb_cross *cross;   /* ring; owned; NULL: the QP is no cross-channel QP */
};

struct vb_qp_ext_spec {
	uint32_t atomic_max;
	bool umr;
	uint32_t parts_max;
	bool cross;
};

enum { VB_UMR_INLINE_MAX = 64 }; /* most parts_max */

/* The bytes of a work request whose elements have indirect keys. */
struct vb_bounce {
	uint8_t *at;
	size_t room;
	bool used;     /* the work request at the index has its bytes there */
	bool scatters; /* they go to its elements when it completes */
};

/* Before the first post. -EINVAL: a limit of the device is exceeded; -ENOMEM. */
int vb_qp_ext_make(struct vb_qp *qp, const struct vb_qp_ext_spec *spec);
void vb_qp_ext_free(struct vb_qp *qp);
/* No work request has bytes there any more: the queue is reset. */
void vb_qp_bounces_forget(struct vb_qp *qp);

/* The operation of an extended atomic. */
static inline struct vb_masked *vb_wqe_masked(const struct vb_wqe *wqe)
{
	return (struct vb_masked *)(uintptr_t)wqe->operand[0];
}

static inline const struct vb_cross *vb_wqe_cross(const struct vb_wqe *wqe)
{
	return (const struct vb_cross *)(uintptr_t)wqe->operand[0];
}

static inline const struct vb_umr *vb_wqe_umr(const struct vb_wqe *wqe)
{
	return (const struct vb_umr *)(uintptr_t)wqe->operand[0];
}

#endif
