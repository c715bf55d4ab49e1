/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/map_fork.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/log.h"
#include "nic/map.h"

enum { CHILD_MS = 10000 }; /* a child that is stopped in its handler does not hold us up for ever */

/* The child closes its end when it has its copies. -1: no region is mapped. */
static int copied[2] = { -1, -1 };

static bool any_mapped(const struct vb_nic *nic)
{
	bool any = false;

	for (unsigned i = 0; nic && nic->maps && i < VB_MAPS_MAX; i++)
		any |= nic->maps->at[i].serial != 0;
	return any;
}

static int advise(const struct vb_mapping *at, void *arg)
{
	madvise((void *)(uintptr_t)at->start, at->length, *(int *)arg);
	return 0;
}

static void advise_all(const struct vb_nic *nic, int advice)
{
	for (unsigned i = 0; i < VB_MAPS_MAX; i++)
		if (nic->maps->at[i].serial)
			vb_mappings_of(nic->maps->at[i].file, advise, &advice);
}

/* Under nic->lock, as all that follows. */
static void prepare(void)
{
	const struct vb_nic *nic = vb_nic_current();

	if (!any_mapped(nic))
		return;
	if (pipe2(copied, O_CLOEXEC)) {
		copied[0] = copied[1] = -1;
		vb_explain_work("fork: no descriptor is left, so the child has no mapped regions");
		return;
	}
	advise_all(nic, MADV_DOFORK);
}

static void in_parent(void)
{
	struct pollfd end = { .fd = copied[0] };

	if (copied[0] < 0)
		return;
	close(copied[1]);
	if (!(vb_move_rules_off & VB_RULE_FORK))
		poll(&end, 1, CHILD_MS);
	close(copied[0]);
	copied[0] = copied[1] = -1;
	advise_all(vb_nic_current(), MADV_DONTFORK);
}

/* The child has one thread. A handler of a signal could write between copy and replacement. */
static void in_child(void)
{
	const struct vb_nic *nic = vb_nic_current();
	sigset_t all, before;

	if (copied[0] < 0)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; i < VB_MAPS_MAX; i++) {
		const struct vb_map *map = &nic->maps->at[i];

		if (!map->serial)
			continue;
		if (!(vb_move_rules_off & VB_RULE_FORK))
			vb_move_back_in_child(map->file);
		close(map->file);
		close(map->given);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(copied[0]);
	close(copied[1]);
	copied[0] = copied[1] = -1;
}

/* No page moves during fork. The child would find its place empty. */
static void moves_stop(void)
{
	pthread_mutex_lock(&vb_map_moving);
}

static void moves_go_on(void)
{
	pthread_mutex_unlock(&vb_map_moving);
}

void vb_map_watch_fork(void)
{
	static const struct vb_fork_handlers moves = { moves_stop, moves_go_on, moves_go_on };
	static const struct vb_fork_handlers handlers = { prepare, in_parent, in_child };

	vb_fork_register(VB_FORK_MOVES, &moves);
	vb_fork_register(VB_FORK_MAPS, &handlers);
}
