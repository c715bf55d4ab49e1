/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A NIC in this process without an engine: nobody executes, collects or answers, so that a test
 * can play peers and senders by hand. Includes cmocka's assertions: for one test program each.
 */
#ifndef VB_TESTS_UNIT_NIC_RIG_H
#define VB_TESTS_UNIT_NIC_RIG_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nic/mr.h"
#include "nic/pd.h"

struct rig {
	struct vb_context ctx;
	struct vb_nic *nic;
	struct vb_pd *pd;
};

static inline void rig_open(struct rig *rig)
{
	memset(rig, 0, sizeof(*rig));
	rig->nic = vb_nic_get();
	assert_non_null(rig->nic);
	assert_int_equal(vb_pd_alloc(&rig->ctx.verbs.context, &rig->pd), 0);
}

static inline void rig_close(struct rig *rig)
{
	assert_int_equal(vb_pd_dealloc(rig->pd), 0);
}

static inline struct vb_mr *rig_register(struct vb_pd *pd, void *memory, size_t length)
{
	struct vb_mr_spec spec = { .addr = (uintptr_t)memory,
				   .length = length,
				   .iova = (uintptr_t)memory,
				   .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	struct vb_mr *mr;

	assert_int_equal(vb_mr_register(pd, &spec, &mr), 0);
	return mr;
}

/* A hazard word of this process that belongs to no thread: the test enters and leaves with it. */
static inline struct vb_thread *rig_thread(struct vb_nic *nic)
{
	struct vb_thread *thread = calloc(1, sizeof(*thread));

	assert_non_null(thread);
	thread->nic = nic;
	thread->hazard = vb_nic_hazard_alloc(nic, &thread->cell);
	assert_non_null(thread->hazard);
	thread->fences = &nic->unregistered_barrier;
	thread->sequence = vb_hazard_sequence(atomic_load(&thread->hazard->word));
	return thread;
}

static inline void rig_thread_end(struct vb_thread *thread)
{
	vb_hazard_leave(thread);
	vb_nic_hazard_free(thread->nic, thread->cell);
	free(thread);
}

#endif
