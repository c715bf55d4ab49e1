/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names that RDMA programs used before today's verbs had them: the first XRC calls, and the
 * experimental verbs (exp.h). They work on top of today's calls; link with -lverbena-legacy.
 *
 * Include it behind <infiniband/verbs.h>, or give the compiler `-include verbena/legacy.h`. Then
 *
 *   struct ibv_qp_init_attr has the member xrc_domain, struct ibv_send_wr the member
 *   xrc_remote_srq_num, struct ibv_srq the member xrc_srq_num, and there is IBV_QPT_XRC,
 *
 * which is done with macros, and in C only. Sources are compatible, binaries are not.
 */
#ifndef VERBENA_LEGACY_H
#define VERBENA_LEGACY_H

#include <infiniband/verbs.h>
#include <verbena/exp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- XRC --- */

struct ibv_xrc_domain {
	struct ibv_context *context;
	uint32_t handle;
};

/* struct ibv_qp_init_attr as it was. It begins like today's. */
struct ibv_legacy_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	struct ibv_xrc_domain *xrc_domain;
};

#define IBV_QPT_XRC IBV_QPT_XRC_SEND

/* NULL and errno. fd -1: a domain of this process alone; else those who name the same file. */
struct ibv_xrc_domain *ibv_open_xrc_domain(struct ibv_context *context, int fd, int oflag);
/* These and all below: 0, or an error number, which is in errno as well. EBUSY: in use. */
int ibv_close_xrc_domain(struct ibv_xrc_domain *domain);

/* NULL and errno. */
struct ibv_srq *ibv_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrc_domain *domain,
				   struct ibv_cq *cq, struct ibv_srq_init_attr *attr);

/*
 * A QP that receives for all processes of attr->xrc_domain; its number is its name. It lives until
 * the last process that created or registered it has unregistered it.
 */
int ibv_create_xrc_rcv_qp(struct ibv_legacy_qp_init_attr *attr, uint32_t *qp_num);
int ibv_modify_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num, struct ibv_qp_attr *attr,
			  int attr_mask);
int ibv_query_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num, struct ibv_qp_attr *attr,
			 int attr_mask, struct ibv_legacy_qp_init_attr *init_attr);
int ibv_reg_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num);
int ibv_unreg_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num);

/* --- today's calls, as the macros below have them --- */

struct ibv_qp *ibv_legacy_create_qp(struct ibv_pd *pd, struct ibv_legacy_qp_init_attr *attr);

#ifdef __cplusplus
}
#endif

#ifndef VERBENA_LEGACY_NO_MACROS
#ifndef __cplusplus
#define ibv_qp_init_attr                        ibv_legacy_qp_init_attr
#define ibv_create_qp(pd, attr)                 ibv_legacy_create_qp(pd, attr)
#define ibv_query_qp(qp, attr, mask, init_attr) ibv_query_qp(qp, attr, mask, (void *)(init_attr))
#define rdma_create_qp(id, pd, attr)            rdma_create_qp(id, pd, (void *)(attr))
#define xrc_remote_srq_num                      qp_type.xrc.remote_srqn
#define xrc_srq_num                             handle
#endif
#endif

#endif
