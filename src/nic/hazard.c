/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/hazard.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nic/nic.h"

__thread struct vb_thread *vb_thread_self __attribute__((tls_model("initial-exec")));

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void thread_exit(void *arg)
{
	struct vb_thread *thread = arg;

	if (thread->nic == vb_nic_current()) {
		vb_hazard_copy_end(thread);
		vb_hazard_leave(thread);
		vb_nic_hazard_free(thread->nic, thread->cell);
		if (thread->second)
			vb_nic_hazard_free(thread->nic, thread->second_cell);
	}
	free(thread);
	vb_thread_self = NULL;
}

static void exit_key_make(void)
{
	pthread_key_create(&exit_key, thread_exit);
}

/* Another thread may have had the cell before: its sequence goes on. */
static struct vb_hazard_cell *cell_take(struct vb_nic *nic, uint32_t *index, uint64_t *sequence)
{
	struct vb_hazard_cell *cell = vb_nic_hazard_alloc(nic, index);

	if (!cell)
		return NULL;
	*sequence = vb_hazard_sequence(atomic_load(&cell->word));
	atomic_store(&cell->tid, (uint32_t)syscall(SYS_gettid));
	return cell;
}

struct vb_thread *vb_thread_make(void)
{
	struct vb_nic *nic = vb_nic_current();
	struct vb_thread *thread = nic ? calloc(1, sizeof(*thread)) : NULL;

	if (!thread)
		return NULL;
	thread->nic = nic;
	thread->fences = &nic->unregistered_barrier;
	thread->hazard = cell_take(nic, &thread->cell, &thread->sequence);
	if (!thread->hazard) {
		free(thread);
		return NULL;
	}
	thread->copies = atomic_load(&thread->hazard->copy) >> VB_COPY_FLAG_BITS;
	pthread_once(&exit_once, exit_key_make);
	pthread_setspecific(exit_key, thread);
	vb_thread_self = thread;
	return thread;
}

void vb_thread_forget(void)
{
	struct vb_thread *thread = vb_thread_self;

	if (!thread)
		return;
	vb_thread_self = NULL;
	pthread_setspecific(exit_key, NULL);
	free(thread);
}

bool vb_hazard_enter_second(struct vb_thread *thread, uint32_t slot)
{
	struct vb_hazard_cell *cell = thread->second;

	if (!cell) {
		cell = cell_take(thread->nic, &thread->second_cell, &thread->second_sequence);
		if (!cell)
			return false;
		thread->second = cell;
	}
	thread->inside_second = true;
	atomic_store_explicit(&cell->from, 0, memory_order_relaxed);
	atomic_store_explicit(&cell->to, UINT64_MAX, memory_order_relaxed);
	atomic_store_explicit(&cell->copy, VB_COPY_NOW, memory_order_relaxed);
	/* As in vb_hazard_enter. */
	atomic_exchange(&cell->word, ++thread->second_sequence << VB_HAZARD_SEQUENCE_SHIFT | slot);
	vb_fence_after_rmw();
	return true;
}

void vb_hazard_leave_second(struct vb_thread *thread)
{
	thread->inside_second = false;
	atomic_store_explicit(&thread->second->copy, 0, memory_order_release);
	atomic_store_explicit(&thread->second->word,
			      thread->second_sequence << VB_HAZARD_SEQUENCE_SHIFT,
			      memory_order_release);
}
