/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that need the connection manager. */
#include <rdma/rdma_cma.h>

#include "rdmacm/missing.h"

/* clang-format takes the parameter lists for expressions. */
/* clang-format off */

/* channels, events, identifiers */
MISSING_POINTER(struct rdma_event_channel, rdma_create_event_channel, (void));
MISSING_VOID(rdma_destroy_event_channel, (struct rdma_event_channel *channel));
MISSING(rdma_get_cm_event, (struct rdma_event_channel *channel, struct rdma_cm_event **event));
MISSING(rdma_ack_cm_event, (struct rdma_cm_event *event));
MISSING(rdma_create_id, (struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			 enum rdma_port_space ps));
MISSING(rdma_destroy_id, (struct rdma_cm_id *id));
MISSING(rdma_migrate_id, (struct rdma_cm_id *id, struct rdma_event_channel *channel));
MISSING(rdma_set_option, (struct rdma_cm_id *id, int level, int optname, void *optval,
			  size_t optlen));
MISSING(rdma_notify, (struct rdma_cm_id *id, enum ibv_event_type event));

/* addresses and routes */
MISSING(rdma_getaddrinfo, (const char *node, const char *service, const struct rdma_addrinfo *hints,
			   struct rdma_addrinfo **res));
MISSING_VOID(rdma_freeaddrinfo, (struct rdma_addrinfo *res));
MISSING(rdma_bind_addr, (struct rdma_cm_id *id, struct sockaddr *addr));
MISSING(rdma_resolve_addr, (struct rdma_cm_id *id, struct sockaddr *src_addr,
			    struct sockaddr *dst_addr, int timeout_ms));
MISSING(rdma_resolve_route, (struct rdma_cm_id *id, int timeout_ms));

/* endpoints and their queues */
MISSING(rdma_create_ep, (struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			 struct ibv_qp_init_attr *qp_init_attr));
MISSING_VOID(rdma_destroy_ep, (struct rdma_cm_id *id));
MISSING(rdma_create_qp, (struct rdma_cm_id *id, struct ibv_pd *pd,
			 struct ibv_qp_init_attr *qp_init_attr));
MISSING(rdma_create_qp_ex, (struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr));
MISSING_VOID(rdma_destroy_qp, (struct rdma_cm_id *id));
MISSING(rdma_init_qp_attr, (struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask));
MISSING(rdma_create_srq, (struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr));
MISSING(rdma_create_srq_ex, (struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr));
MISSING_VOID(rdma_destroy_srq, (struct rdma_cm_id *id));

/* connections */
MISSING(rdma_listen, (struct rdma_cm_id *id, int backlog));
MISSING(rdma_get_request, (struct rdma_cm_id *listen, struct rdma_cm_id **id));
MISSING(rdma_connect, (struct rdma_cm_id *id, struct rdma_conn_param *conn_param));
MISSING(rdma_accept, (struct rdma_cm_id *id, struct rdma_conn_param *conn_param));
MISSING(rdma_establish, (struct rdma_cm_id *id));
MISSING(rdma_reject, (struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len));
MISSING(rdma_reject_ece, (struct rdma_cm_id *id, const void *private_data,
			  uint8_t private_data_len));
MISSING(rdma_disconnect, (struct rdma_cm_id *id));
MISSING(rdma_set_local_ece, (struct rdma_cm_id *id, struct ibv_ece *ece));
MISSING(rdma_get_remote_ece, (struct rdma_cm_id *id, struct ibv_ece *ece));

/* multicast */
MISSING(rdma_join_multicast, (struct rdma_cm_id *id, struct sockaddr *addr, void *context));
MISSING(rdma_join_multicast_ex, (struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
				 void *context));
MISSING(rdma_leave_multicast, (struct rdma_cm_id *id, struct sockaddr *addr));

/* devices */
MISSING_VOID(rdma_free_devices, (struct ibv_context **list));

/* clang-format on */

VB_PUBLIC struct ibv_context **rdma_get_devices(int *num_devices)
{
	/* Some programs look at the count only. */
	if (num_devices)
		*num_devices = 0;
	errno = ENOSYS;
	return NULL;
}
