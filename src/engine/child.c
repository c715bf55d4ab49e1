/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork: the parent goes on undisturbed. The child has none of the shared memory and forgets the
 * NIC; its next control call makes a NIC of its own, and what it inherited is recognized by the
 * NIC it belongs to.
 */
#include "engine/engine.h"

#include <unistd.h>

/* Whose locks the thread that forks has taken: another may make the NIC at the same time. */
static struct vb_nic *forking;

static void before(void)
{
	forking = vb_nic_current();
	if (!forking)
		return;
	pthread_mutex_lock(&forking->lock);
	vb_spin_lock(&forking->peers_lock); /* the child walks the list to close what is in it */
}

static void in_parent(void)
{
	if (!forking)
		return;
	vb_spin_unlock(&forking->peers_lock);
	pthread_mutex_unlock(&forking->lock);
}

static void in_child(void)
{
	struct vb_nic *nic = vb_nic_current();

	if (nic && nic->engine && nic->engine->epoll >= 0)
		close(nic->engine->epoll);
	in_parent(); /* what it inherited may be asked, too */
	vb_nic_forget();
	vb_thread_forget();
}

static void watch_once(void)
{
	pthread_atfork(before, in_parent, in_child);
}

void vb_fork_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_once);
}
