/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests that today's verbs do not have. libverbena-legacy gives them the names of the
 * experimental verbs, and reaches these functions through the engine's table.
 */
#ifndef VB_VERBS_EXTENDED_H
#define VB_VERBS_EXTENDED_H

#include <infiniband/verbs.h>

#include "nic/masked.h"
#include "nic/umr.h"
#include "nic/wr_opcode.h"

/* The purposes of a QP beyond its ibv_qp_init_attr. */
struct vb_extended_qp {
	uint32_t max_atomic_arg; /* bytes of an operand; 0: no extended atomics */
	bool umr;
	uint32_t max_inline_parts;
	bool cross;                        /* it may wait for CQs and enable queues */
	bool managed_sends, managed_recvs; /* its queues have to be enabled */
};

struct vb_extended_wr {
	uint8_t opcode; /* enum vb_wr_extended */
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
	unsigned send_flags; /* SIGNALED and FENCE */
	uint64_t remote_addr;
	uint32_t rkey;
	struct vb_masked masked; /* extended atomics */
	const struct vb_umr *umr;
	bool inlined;             /* UMR: its parts are in the work request */
	struct ibv_cq *wait_cq;   /* CQE_WAIT */
	struct ibv_qp *enable_qp; /* SEND_ENABLE, RECV_ENABLE */
	int32_t count; /* of completions, or of work requests; enabling 0: all that are posted */
	bool last;     /* IBV_EXP_SEND_WAIT_EN_LAST */
};

/* Is it a device of this library? */
bool vb_extended_device(struct ibv_context *context);
/* The CQ if its completions carry their times; NULL: they do not. */
struct ibv_cq_ex *vb_extended_stamped(struct ibv_cq *cq);
/* Work requests will wait for completions of the CQ: counts them from now on. 0 or -errno. */
int vb_extended_cq(struct ibv_cq *cq, bool ignore_overrun);
/* Right after the QP's creation. 0 or -errno. */
int vb_extended_qp(struct ibv_qp *qp, const struct vb_extended_qp *wanted);
/* An empty indirect key. NULL and errno. */
struct ibv_mr *vb_extended_key(struct ibv_pd *pd, uint32_t parts, unsigned access);
/* The parts that an indirect key has room for; 0: it is none. */
uint32_t vb_extended_key_room(struct ibv_mr *mr);
/* 0 or -errno: -EINVAL, -ENOMEM as ibv_post_send; -EOPNOTSUPP: the QP was not created for it. */
int vb_extended_post(struct ibv_qp *qp, const struct vb_extended_wr *wr);

#endif
