/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests that are built by calls (ibv_wr_*). The calls collect them here. A complete batch
 * is posted as one list, all or none. Until then the send queue has none of them: an abort has
 * nothing to take back, and no thread waits for a thread that builds.
 */
#ifndef VB_VERBS_QP_EX_H
#define VB_VERBS_QP_EX_H

#include "nic/qp.h"

struct vb_built { /* one work request; its stride in the list is builder->stride */
	struct ibv_send_wr wr;
	struct ibv_sge sge[1]; /* max_send_sge of them, or one and the inline bytes behind it */
};

struct vb_builder {
	struct vb_spin lock;  /* held from wr_start to wr_complete or wr_abort */
	bool single_threaded; /* one thread alone builds: no lock */
	uint64_t ops;         /* enum ibv_qp_create_send_ops_flags that the QP was created with */
	int err;              /* of the batch: 0 or the first error, negative */
	uint32_t count, room; /* work requests of the batch; memory for so many */
	uint32_t stride;
	uint32_t header_max; /* header of a large send, at the end of each; 0: none */
	uint8_t *list;
	struct vb_built *now; /* the work request for setters; NULL: none, or the batch failed */
};

/* ibv_create_qp for these operations (enum ibv_qp_create_send_ops_flags; 0: all of the type). */
struct ibv_qp *vb_verbs_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, uint64_t ops);

/* Gives the QP its builders; -ENOMEM. */
int vb_builder_create(struct vb_qp *qp, uint64_t ops);
void vb_builder_destroy(struct vb_builder *builder);

static inline struct vb_built *vb_builder_at(const struct vb_builder *builder, uint32_t index)
{
	return (void *)(builder->list + (size_t)index * builder->stride);
}

/* The list as ibv_wr_complete will post it; NULL: none, or the batch failed. */
struct ibv_send_wr *vb_builder_list(struct ibv_qp_ex *ex);

/* Posts the list: all of it, or nothing and -errno (post.c). */
int vb_post_whole(struct vb_qp *qp, struct ibv_send_wr *wr);

#endif
