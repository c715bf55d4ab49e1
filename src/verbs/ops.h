/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions behind the pointers of struct ibv_context and struct verbs_context. */
#ifndef VB_VERBS_OPS_H
#define VB_VERBS_OPS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The caller's struct may be shorter or longer than ours: `size` bytes of it are written. */
int vb_ops_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		      size_t size);
int vb_ops_query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size);

int vb_ops_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int vb_ops_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *vb_ops_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);

int vb_ops_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int vb_ops_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int vb_ops_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
struct ibv_qp *vb_ops_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

struct ibv_mw *vb_ops_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int vb_ops_dealloc_mw(struct ibv_mw *mw);
int vb_ops_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

struct ibv_srq *vb_ops_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int vb_ops_get_srq_num(struct ibv_srq *srq, uint32_t *number);

#endif
