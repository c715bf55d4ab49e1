/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

static const struct vb_fork_handlers *_Atomic stages[VB_FORK_STAGES];

/*
 * A thread may register a stage while another thread forks: only prepared stages are undone. One
 * thread forks at a time. A thread that registers does not wait for the fork, as the thread may
 * hold a lock that a handler takes.
 */
static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER;
static const struct vb_fork_handlers *prepared[VB_FORK_STAGES]; /* under forking */

static void prepare_stages(void)
{
	pthread_mutex_lock(&forking);
	for (int stage = 0; stage < VB_FORK_STAGES; stage++) {
		prepared[stage] = atomic_load(&stages[stage]);
		if (prepared[stage] && prepared[stage]->prepare)
			prepared[stage]->prepare();
	}
}

static void in_parent(void)
{
	for (int stage = VB_FORK_STAGES - 1; stage >= 0; stage--)
		if (prepared[stage] && prepared[stage]->parent)
			prepared[stage]->parent();
	pthread_mutex_unlock(&forking);
}

/* A stage without `prepare` may have been registered since: its handler works from any state. */
static void in_child(void)
{
	for (int stage = VB_FORK_STAGES - 1; stage >= 0; stage--) {
		const struct vb_fork_handlers *handlers = atomic_load(&stages[stage]);

		if (handlers && handlers->child && (!handlers->prepare || prepared[stage]))
			handlers->child();
	}
	pthread_mutex_init(&forking, NULL);
}

static void watch_child(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

static void watch_parent(void)
{
	pthread_atfork(prepare_stages, in_parent, NULL);
}

/*
 * Two calls of pthread_atfork: a stage that prepares may have to come after the libraries below it
 * (fork.h), other stages may be needed long before. The child's handler is registered first, so
 * that it runs whenever the others do.
 */
void vb_fork_register(enum vb_fork_stage stage, const struct vb_fork_handlers *handlers)
{
	static pthread_once_t child_once = PTHREAD_ONCE_INIT, parent_once = PTHREAD_ONCE_INIT;

	if (atomic_load_explicit(&stages[stage], memory_order_acquire) == handlers)
		return;
	pthread_once(&child_once, watch_child);
	if (handlers->prepare)
		pthread_once(&parent_once, watch_parent);
	atomic_store(&stages[stage], handlers);
}
