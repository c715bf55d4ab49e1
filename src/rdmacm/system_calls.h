/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of the system's librdmacm that this one uses, in the namespace of the system's
 * libibverbs (system/load.h). A row: the result, the name, the parameters. A pointer is NULL where
 * the system's version lacks the name.
 */
#ifndef VB_RDMACM_SYSTEM_CALLS_H
#define VB_RDMACM_SYSTEM_CALLS_H

#include <rdma/rdma_cma.h>

#include "abi/rdmacm.h"

/* clang-format off */
#define VB_CMA_SYSTEM_CALLS(X) \
	X(struct rdma_event_channel *, rdma_create_event_channel, (void)) \
	X(void, rdma_destroy_event_channel, (struct rdma_event_channel *channel)) \
	X(int, rdma_get_cm_event, (struct rdma_event_channel *channel, \
		struct rdma_cm_event **event)) \
	X(int, rdma_ack_cm_event, (struct rdma_cm_event *event)) \
	X(struct ibv_context **, rdma_get_devices, (int *count)) \
	X(int, rdma_create_id, (struct rdma_event_channel *channel, struct rdma_cm_id **id, \
		void *context, enum rdma_port_space ps)) \
	X(int, rdma_destroy_id, (struct rdma_cm_id *id)) \
	X(int, rdma_migrate_id, (struct rdma_cm_id *id, struct rdma_event_channel *channel)) \
	X(int, rdma_set_option, (struct rdma_cm_id *id, int level, int name, void *value, \
		size_t length)) \
	X(int, rdma_bind_addr, (struct rdma_cm_id *id, struct sockaddr *addr)) \
	X(int, rdma_resolve_addr, (struct rdma_cm_id *id, struct sockaddr *src, \
		struct sockaddr *dst, int timeout_ms)) \
	X(int, rdma_resolve_route, (struct rdma_cm_id *id, int timeout_ms)) \
	X(int, rdma_listen, (struct rdma_cm_id *id, int backlog)) \
	X(int, rdma_connect, (struct rdma_cm_id *id, struct rdma_conn_param *param)) \
	X(int, rdma_establish, (struct rdma_cm_id *id)) \
	X(int, rdma_accept, (struct rdma_cm_id *id, struct rdma_conn_param *param)) \
	X(int, rdma_reject, (struct rdma_cm_id *id, const void *data, uint8_t length)) \
	X(int, rdma_reject_ece, (struct rdma_cm_id *id, const void *data, uint8_t length)) \
	X(int, rdma_disconnect, (struct rdma_cm_id *id)) \
	X(int, rdma_notify, (struct rdma_cm_id *id, enum ibv_event_type event)) \
	X(int, rdma_create_qp, (struct rdma_cm_id *id, struct ibv_pd *pd, \
		struct ibv_qp_init_attr *attr)) \
	X(int, rdma_create_qp_ex, (struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)) \
	X(void, rdma_destroy_qp, (struct rdma_cm_id *id)) \
	X(int, rdma_create_srq, (struct rdma_cm_id *id, struct ibv_pd *pd, \
		struct ibv_srq_init_attr *attr)) \
	X(int, rdma_create_srq_ex, (struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)) \
	X(void, rdma_destroy_srq, (struct rdma_cm_id *id)) \
	X(int, rdma_init_qp_attr, (struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)) \
	X(int, rdma_set_local_ece, (struct rdma_cm_id *id, struct ibv_ece *ece)) \
	X(int, rdma_get_remote_ece, (struct rdma_cm_id *id, struct ibv_ece *ece)) \
	X(int, rdma_join_multicast, (struct rdma_cm_id *id, struct sockaddr *addr, void *arg)) \
	X(int, rdma_join_multicast_ex, (struct rdma_cm_id *id, \
		struct rdma_cm_join_mc_attr_ex *attr, void *arg)) \
	X(int, rdma_leave_multicast, (struct rdma_cm_id *id, struct sockaddr *addr))
/* clang-format on */

#define VB_CMA_SYSTEM_MEMBER(type, name, params) type(*name) params;
struct vb_cma_system_calls {
	VB_CMA_SYSTEM_CALLS(VB_CMA_SYSTEM_MEMBER)
};
#undef VB_CMA_SYSTEM_MEMBER

#endif
