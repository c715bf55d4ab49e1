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

/* ibv_query_gid_type, which no installed header declares. ibv_devinfo and pyverbs import it. */
enum { VB_GID_IB_OR_ROCE_V1, VB_GID_ROCE_V2 };
int vb_verbs_gid_type(struct ibv_context *context, uint8_t port_num, unsigned index, int *type);

int vb_ops_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
/* After an empty poll: does work that may bring completions. True: that took time, look again. */
struct vb_cq;
bool vb_cq_lend_a_hand(struct vb_cq *cq);
/* For ibv_create_cq and ibv_create_cq_ex: 0 or -errno. */
struct vb_cq_spec;
int vb_verbs_make_cq(struct ibv_context *context, const struct vb_cq_spec *spec, int comp_vector,
		     struct vb_cq **cq);
int vb_ops_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int vb_ops_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *vb_ops_create_cq_ex(struct ibv_context *context,
				      struct ibv_cq_init_attr_ex *attr);

int vb_ops_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int vb_ops_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int vb_ops_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int vb_ops_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
struct ibv_qp *vb_ops_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

struct ibv_mw *vb_ops_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int vb_ops_dealloc_mw(struct ibv_mw *mw);
int vb_ops_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

struct ibv_srq *vb_ops_create_srq_ex(struct ibv_context *context,
				     struct ibv_srq_init_attr_ex *attr);
int vb_ops_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad);
int vb_ops_get_srq_num(struct ibv_srq *srq, uint32_t *number);

struct ibv_wq *vb_ops_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr);
int vb_ops_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int vb_ops_destroy_wq(struct ibv_wq *wq);
struct ibv_rwq_ind_table *vb_ops_create_rwq_ind_table(struct ibv_context *context,
						      struct ibv_rwq_ind_table_init_attr *attr);
int vb_ops_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);
struct ibv_flow *vb_ops_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int vb_ops_destroy_flow(struct ibv_flow *flow);

struct ibv_xrcd *vb_ops_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int vb_ops_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_qp *vb_ops_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

struct ibv_mr *vb_ops_alloc_null_mr(struct ibv_pd *pd);
int vb_ops_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *sg_list, uint32_t num_sge);
struct ibv_dm *vb_ops_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int vb_ops_free_dm(struct ibv_dm *dm);
struct ibv_mr *vb_ops_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
				size_t length, unsigned int access);
struct ibv_td *vb_ops_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int vb_ops_dealloc_td(struct ibv_td *td);
struct ibv_pd *vb_ops_alloc_parent_domain(struct ibv_context *context,
					  struct ibv_parent_domain_init_attr *attr);
int vb_ops_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

struct ibv_counters *vb_ops_create_counters(struct ibv_context *context,
					    struct ibv_counters_init_attr *attr);
int vb_ops_destroy_counters(struct ibv_counters *counters);
int vb_ops_attach_counters_point_flow(struct ibv_counters *counters,
				      struct ibv_counter_attach_attr *attr, struct ibv_flow *flow);
int vb_ops_read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t count,
			 uint32_t flags);

struct vb_nic;
/* The NIC of this process, made on demand with the settings of the environment. NULL: see *err. */
struct vb_nic *vb_nic_prepare(int *err);

#endif
