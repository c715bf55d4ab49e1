/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests built by calls (ibv_wr_*). They are collected here and posted as one list, all or
 * none, when the batch is complete: until then nothing of them is in the send queue, so that an
 * abort has nothing to take back and nobody waits for a thread that is building.
 */
#ifndef VB_VERBS_QP_EX_H
#define VB_VERBS_QP_EX_H

#include "nic/qp.h"

struct vb_built { /* one work request; its stride in the list is builder->stride */
	struct ibv_send_wr wr;
	struct ibv_sge sge[1]; /* max_send_sge of them, or one and the inline bytes behind it */
};

struct vb_builder {
	struct vb_spin lock;  /* from wr_start to wr_complete or wr_abort */
	bool single_threaded; /* nobody else builds: no lock */
	uint64_t ops;         /* enum ibv_qp_create_send_ops_flags: what the QP was created for */
	int err;              /* of the batch: 0 or the first error, negative */
	uint32_t count, room; /* work requests of the batch; that there is memory for */
	uint32_t stride;
	uint32_t header_max; /* of a large send, at the end of each; 0: none */
	uint8_t *list;
	struct vb_built *now; /* the one that setters are about; NULL: none, or the batch failed */
};

/* Gives the QP its builders; -ENOMEM. */
int vb_builder_create(struct vb_qp *qp, uint64_t ops);
void vb_builder_destroy(struct vb_builder *builder);

static inline struct vb_built *vb_builder_at(const struct vb_builder *builder, uint32_t index)
{
	return (void *)(builder->list + (size_t)index * builder->stride);
}

/* Posts the list: everything, or nothing and -errno (post.c). */
int vb_post_whole(struct vb_qp *qp, struct ibv_send_wr *wr);

#endif
