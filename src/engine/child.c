/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NIC in a child of fork. The parent goes on undisturbed. The child has none of the shared
 * memory and forgets the NIC. Its next control call makes a NIC of the child's own. Inherited
 * objects are known by the NIC that they belong to.
 */
#include <unistd.h>

#include "base/fork.h"
#include "engine/engine.h"
#include "nic/move.h"

/* The NIC whose locks the forking thread has taken. Another thread may make a NIC meanwhile. */
static struct vb_nic *forking;

static void lock_nic(void)
{
	forking = vb_nic_current();
	if (forking)
		pthread_mutex_lock(&forking->lock);
}

static void unlock_nic(void)
{
	if (forking)
		pthread_mutex_unlock(&forking->lock);
}

static void forget_in_child(void)
{
	struct vb_nic *nic = vb_nic_current();

	if (nic && nic->engine && nic->engine->epoll >= 0)
		close(nic->engine->epoll);
	/* The parent's service thread may have had its turn. The child has no such thread yet. */
	pthread_mutex_init(&vb_service_turn, NULL);
	unlock_nic(); /* calls on inherited objects take the lock */
	vb_nic_forget();
	vb_thread_forget();
}

/* The child walks the list of peers, to close their descriptors. */
static void lock_peers(void)
{
	if (forking)
		vb_spin_lock(&forking->peers_lock);
}

static void unlock_peers(void)
{
	if (forking)
		vb_spin_unlock(&forking->peers_lock);
}

void vb_engine_watch_fork(void)
{
	static const struct vb_fork_handlers nic = { lock_nic, unlock_nic, forget_in_child };
	static const struct vb_fork_handlers peers = { lock_peers, unlock_peers, unlock_peers };

	vb_fork_register(VB_FORK_NIC, &nic);
	vb_fork_register(VB_FORK_PEERS, &peers);
}
