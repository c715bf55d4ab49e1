/* SPDX-License-Identifier: BSD-2-Clause */
/* The capacity of a QP's queues: how much of it the device in force grants. */
#ifndef VB_NIC_QP_CAP_H
#define VB_NIC_QP_CAP_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* -EOPNOTSUPP: the device has no QPs of this type. */
int vb_qp_cap_check_type(enum ibv_qp_type type);

/* -EINVAL: a limit is exceeded. Lowers max_inline_data where the device does so instead. */
int vb_qp_cap_check(struct ibv_qp_init_attr *attr);

/*
 * Devices whose send queues have a limit in bytes: the longest WQE grows with max_send_sge,
 * max_inline_data and the operations (enum ibv_qp_create_send_ops_flags; 0: all of the type), and
 * fewer of them fit. -EINVAL: too many. Otherwise max_send_wr and max_inline_data are raised to
 * what fits into the memory that the queue takes.
 */
int vb_qp_cap_fit(struct ibv_qp_init_attr *attr, uint64_t ops);

#endif
