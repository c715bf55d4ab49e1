/* SPDX-License-Identifier: BSD-2-Clause */
/* The adversary's calls in the place of those of a context: without it they do not exist there. */
#ifndef VB_VERBS_ADVERSARY_H
#define VB_VERBS_ADVERSARY_H

#include <infiniband/verbs.h>

struct vb_cq;

/* A context is new. */
void vb_adversary_take_ops(struct ibv_context_ops *ops);
/* A CQ is new, and has its iterator, if any. */
void vb_adversary_take_cq(struct vb_cq *cq, bool extended);
/* The program has got this event. */
void vb_adversary_saw_event(const struct ibv_async_event *event);

#endif
