/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * <rdma/rdma_cma.h> and <rdma/rsocket.h> as of rdma-core 65, whatever version the system has:
 * declarations that an older header lacks. Functions are declared in any case: the compiler
 * compares them with the header's. tests/abi/layout_newer.c has the values once more.
 */
#ifndef VB_ABI_RDMACM_H
#define VB_ABI_RDMACM_H

#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "abi/config.h"

/* --- version 60: RDMACM_1.4 --- */

#if !VB_HEADER_HAS_CM_ARG
#define RDMA_CM_EVENT_ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define RDMA_CM_EVENT_ADDRINFO_ERROR    ((enum rdma_cm_event_type)17)
#define RDMA_CM_EVENT_USER              ((enum rdma_cm_event_type)18)
#define RDMA_CM_EVENT_INTERNAL          ((enum rdma_cm_event_type)19)
#define RAI_SA                          0x00000010
#define RAI_DNS                         0x00000020
#endif

/* The argument of RDMA_CM_EVENT_USER: param.arg, a member of a union. */
static inline uint64_t *vb_abi_event_arg(struct rdma_cm_event *event)
{
	return (uint64_t *)(void *)&event->param;
}

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

/* --- version 65: RDMACM_1.5 --- */

int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

#endif
