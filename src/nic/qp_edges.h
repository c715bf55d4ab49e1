/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which state changes of a QP are legal, and which attributes each needs or allows (IBA 10.3.1,
 * ibv_modify_qp(3)): the rules that the Linux kernel enforces for RC, UC and UD.
 *
 * `next` is the requested state, or `cur` if IBV_QP_STATE is not in the mask. The caller compares
 * cur_qp_state with the QP's state.
 */
#ifndef VB_NIC_QP_EDGES_H
#define VB_NIC_QP_EDGES_H

#include <infiniband/verbs.h>
#include <stddef.h>

/* 0, or -EINVAL: no such edge for this type, an attribute is missing, or one is not allowed. */
int vb_qp_edge_check(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
		     int attr_mask);

/*
 * Why vb_qp_edge_check refused, as one sentence without a full stop. Returns `sentence`, which
 * is cut to `size` bytes and is empty if nothing is wrong.
 */
const char *vb_qp_edge_explain(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
			       int attr_mask, char *sentence, size_t size);

/* "RC", "UD", ...; "unknown" for other values. */
const char *vb_qp_type_str(enum ibv_qp_type type);
/* "RTS", "SQD", ...; "unknown" for other values. */
const char *vb_qp_state_str(enum ibv_qp_state state);

#endif
