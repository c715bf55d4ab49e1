/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/barrier.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/fd.h"
#include "base/log.h"
#include "nic/freeze.h"
#include "nic/map_fork.h"
#include "nic/mw.h"
#include "shm/view.h"

enum {
	WRITES = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	REMOTE = WRITES | IBV_ACCESS_REMOTE_READ,
	RETRY_NS = 10000000, /* after the first failure; twice as long after each further one */
	FAILURES_MAX = 10,
};

/* --- the table --- */

/* Under nic->lock. */
static struct vb_maps *maps_get(struct vb_nic *nic)
{
	if (!nic->maps) {
		nic->maps = calloc(1, sizeof(*nic->maps));
		if (nic->maps)
			nic->maps->early_bytes = VB_MAP_EARLY_BYTES;
		vb_map_watch_fork();
	}
	return nic->maps;
}

static struct vb_map *map_free(struct vb_maps *maps)
{
	for (unsigned i = 0; maps && i < VB_MAPS_MAX; i++)
		if (!maps->at[i].serial)
			return &maps->at[i];
	return NULL;
}

static struct vb_shown_map *map_shown(const struct vb_nic *nic, const struct vb_map *map)
{
	return &nic->seg.head->maps[map - nic->maps->at];
}

/* Only /proc opens a file again: with its own flags, and for reading only where peers may not
 * write. */
static int file_open_again(int file, bool writes)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	return vb_fd_high(open(path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC));
}

static void map_drop(struct vb_map *map)
{
	vb_fd_close(&map->file);
	vb_fd_close(&map->given);
	map->serial = 0;
	map->mr = NULL;
}

/* --- plain to mapped --- */

/* Moves back all that regions have left behind. */
static void maps_move_back(struct vb_nic *nic, struct vb_move *move)
{
	pthread_mutex_lock(&nic->lock);
	for (unsigned i = 0; nic->maps && i < VB_MAPS_MAX; i++) {
		struct vb_map *map = &nic->maps->at[i];

		if (map->serial && !map->mr && !vb_move_back(move, map->file))
			map_drop(map);
	}
	pthread_mutex_unlock(&nic->lock);
}

static bool is_ours_to_move(const struct vb_mr *mr)
{
	return !mr->null && !mr->dm && !mr->mapping && !mr->foreign && !mr->imported &&
	       !mr->destroyed && !vb_mr_on_demand(mr);
}

/* XRC: a third process may write to this one for a peer. */
static const char *region_forbids(const struct vb_mr *mr, const struct vb_range *range)
{
	if (vb_config_map() == VB_MAP_OFF)
		return "VERBENA_MAP is off";
	if (atomic_load(&mr->entry->map))
		return "it is mapped";
	if (!is_ours_to_move(mr))
		return "its memory is special";
	if (!(mr->access & REMOTE))
		return "it grants no remote access";
	if (!range->length)
		return "it has no whole page";
	if (range->length > VB_MAP_BYTES_MAX)
		return "it is too large";
	return mr->nic->xrc_srqs ? "the process has XRC SRQs" : NULL;
}

/* The word of the key is valid throughout: senders see map change from 0 while they are frozen, or
 * later. */
static void map_publish(struct vb_mr *mr, struct vb_map *map)
{
	struct vb_shown_map *shown = map_shown(mr->nic, map);

	shown->start = map->range.start;
	shown->length = map->range.length;
	shown->proof_at = (uintptr_t)&map->proof;
	atomic_store(&shown->serial, map->serial);
	atomic_store(&mr->entry->map, 1 + (uint32_t)(map - mr->nic->maps->at));
}

static int files_make(struct vb_map *map, bool writes)
{
	map->given = -1;
	map->file = vb_move_file();
	if (map->file >= 0)
		map->given = file_open_again(map->file, writes);
	return map->file < 0 ? map->file : map->given < 0 ? -errno : 0;
}

/* Under nic->lock, between vb_move_begin and vb_move_end. */
static const char *map_make(struct vb_mr *mr, struct vb_move *move, const struct vb_range *range,
			    bool early)
{
	struct vb_maps *maps = maps_get(mr->nic);
	struct vb_map *map = map_free(maps);

	if (!map)
		return "there are too many mapped regions";
	*map = (struct vb_map){ .range = *range, .mr = mr, .early = early };
	map->proof = vb_random64();
	if (files_make(map, mr->access & WRITES) || vb_move_out(move, range, map->file)) {
		map_drop(map);
		return "its pages did not move";
	}
	map->serial = ++maps->next_serial;
	map_publish(mr, map);
	return NULL;
}

/* The thread may hold the lock of a CQ, which comes after nic->lock: no other thread of the program
 * is there to wait for it. */
const char *vb_map_region(struct vb_mr *mr, bool early)
{
	const struct vb_range range = vb_move_pages(mr->addr, mr->length);
	const char *why = region_forbids(mr, &range);
	struct vb_move move;

	if (!why)
		why = vb_move_begin(mr->nic, &move);
	if (why)
		return why;
	maps_move_back(mr->nic, &move);
	why = vb_mw_is_any_bound_to(mr) ? "a memory window is bound to it"
					: vb_move_pages_forbid(&range);
	if (!why) {
		pthread_mutex_lock(&mr->nic->lock);
		why = map_make(mr, &move, &range, early);
		pthread_mutex_unlock(&mr->nic->lock);
	}
	vb_move_end(&move);
	return why;
}

/* --- when it pays --- */

static void explain(const struct vb_mr *mr, const char *why)
{
	if (why)
		vb_explain_work("the region with lkey 0x%08x is not mapped: %s", mr->ibv.lkey, why);
}

void vb_map_registered(struct vb_mr *mr)
{
	if (vb_config_map() == VB_MAP_ALWAYS)
		explain(mr, vb_map_region(mr, false));
}

static struct vb_mr *region_at(struct vb_nic *nic, uint32_t index)
{
	return index < nic->keys_made ? nic->mrs[index / VB_KEY_PAGE][index % VB_KEY_PAGE] : NULL;
}

/* After a failure the next try waits, because each costs some hundred microseconds. */
static void note_result(struct vb_maps *maps, bool failed)
{
	if (!failed) {
		maps->failures = 0;
		return;
	}
	maps->retry_ns = vb_now_ns() + ((uint64_t)RETRY_NS << maps->failures);
	maps->failures += maps->failures < FAILURES_MAX;
}

/* A region that was found stays: no other thread of the program can end it. */
static bool may_move(struct vb_nic *nic, struct vb_maps *maps)
{
	if (!maps || vb_now_ns() < maps->retry_ns)
		return false;
	if (!vb_move_threads_forbid(nic->engine ? nic->self->tid : 0))
		return true;
	note_result(maps, true);
	return false;
}

void vb_map_connected(struct vb_pd *pd)
{
	struct vb_nic *nic = pd->nic;
	struct vb_maps *maps;

	if (vb_config_map() != VB_MAP_AUTO)
		return;
	pthread_mutex_lock(&nic->lock);
	maps = maps_get(nic);
	pthread_mutex_unlock(&nic->lock);
	if (!may_move(nic, maps))
		return;
	for (uint32_t i = 0; i < nic->keys_made; i++) {
		struct vb_mr *mr = region_at(nic, i);

		if (!mr || mr->pd != pd || !(mr->access & REMOTE) || atomic_load(&mr->entry->map) ||
		    mr->length > maps->early_bytes)
			continue;
		if (!vb_map_region(mr, true))
			maps->early_bytes -= mr->length;
		else
			note_result(maps, true);
		if (vb_now_ns() < maps->retry_ns)
			return;
	}
}

/* Peers write wanted_key: it may name anything. */
void vb_map_turn(struct vb_nic *nic)
{
	uint32_t wanted = atomic_exchange(&nic->seg.lent->wanted_key, 0);
	struct vb_maps *maps;
	struct vb_mr *mr;
	const char *why;

	atomic_store(&nic->map_wanted, 0);
	if (!wanted || vb_config_map() == VB_MAP_OFF || pthread_mutex_trylock(&nic->lock))
		return;
	maps = maps_get(nic);
	pthread_mutex_unlock(&nic->lock);
	if (!may_move(nic, maps))
		return;
	mr = region_at(nic, wanted - 1);
	if (!mr)
		return;
	why = vb_map_region(mr, false);
	note_result(maps, why);
	explain(mr, why);
}

/* --- mapped to plain --- */

/* No peer is told of the file from now on. Peers that have it let go of it. */
static void map_hide(struct vb_nic *nic, struct vb_map *map)
{
	uint32_t index = (uint32_t)(map - nic->maps->at);
	const struct vb_view_message ended = {
		.magic = VB_VIEW_MAGIC, .kind = VB_VIEW_ENDED, .index = index, .serial = map->serial
	};

	atomic_store(&map->mr->entry->map, 0);
	atomic_store(&map_shown(nic, map)->serial, 0);
	map->mr = NULL;
	if (map->early && map->asked)
		nic->maps->early_bytes += map->range.length;
	if (!map->asked)
		return;
	vb_spin_lock(&nic->peers_lock);
	vb_list_for(peer, &nic->peers, struct vb_peer, node) {
		if (peer->has_views)
			vb_view_send(peer->socket, &ended, -1);
	}
	vb_spin_unlock(&nic->peers_lock);
}

void vb_map_leave_begin(struct vb_mr *mr, struct vb_map_leave *leave)
{
	leave->severed = atomic_load(&mr->entry->map) && !vb_move_begin(mr->nic, &leave->move);
}

void vb_map_leave_cancel(struct vb_map_leave *leave)
{
	if (leave->severed)
		vb_move_end(&leave->move);
}

/*
 * A thread that was excused because it copies through a view looks at the serial after its copy.
 * The barrier lies between the new serial and the move: the thread's stores were in the file before
 * it, or the thread sees that its copy was in vain (pairs with vb_mapped_is_current).
 */
void vb_map_leave_end(struct vb_mr *mr, struct vb_map_leave *leave)
{
	struct vb_nic *nic = mr->nic;
	uint32_t map = atomic_load(&mr->entry->map);

	if (!map)
		return;
	pthread_mutex_lock(&nic->lock);
	map_hide(nic, &nic->maps->at[map - 1]);
	pthread_mutex_unlock(&nic->lock);
	if (!leave->severed)
		return;
	vb_barrier_others();
	maps_move_back(nic, &leave->move);
	vb_move_end(&leave->move);
}

/* --- peers --- */

int vb_map_give(struct vb_nic *nic, uint32_t index, uint64_t serial, uint64_t proof)
{
	struct vb_map *map = nic->maps && index < VB_MAPS_MAX ? &nic->maps->at[index] : NULL;

	if (!map || !serial || map->serial != serial || map->proof != proof || !map->mr)
		return -1;
	map->asked = true;
	return map->given;
}
