/* SPDX-License-Identifier: BSD-2-Clause */
/* New objects, and calls of ibv_context_ops that make and destroy. */
#ifndef VB_CHECK_CREATE_H
#define VB_CHECK_CREATE_H

#include "check/check.h"

/* NULL: no memory; the object is not checked. */
struct vb_object *vb_check_made(enum vb_kind kind, void *handle, const struct vb_stack *stack);
struct vb_object *vb_check_made_qp(struct ibv_qp *qp, const struct ibv_qp_init_attr *attr,
				   const struct vb_stack *stack);
/* An object in a parent domain with a thread domain is for one thread at a time. */
void vb_check_inherit(struct vb_object *object, const struct ibv_pd *pd);
/* The call comes from librdmacm or libibverbs. */
bool vb_check_by_library(void *return_address);

struct ibv_mw *vb_check_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int vb_check_dealloc_mw(struct ibv_mw *mw);

#endif
