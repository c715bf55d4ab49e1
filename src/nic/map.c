/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/barrier.h"
#include "base/cancel.h"
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

/* Held while pages move, from the look for the region to the end; before nic->lock. A region whose
 * key is void is not found any more, and ends after this lock was free (vb_map_leave_begin). */
pthread_mutex_t vb_map_moving = PTHREAD_MUTEX_INITIALIZER;

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

/* Moves back all that regions have left behind. Under nic->lock. */
static void maps_move_back(struct vb_nic *nic, struct vb_move *move)
{
	for (unsigned i = 0; nic->maps && i < VB_MAPS_MAX; i++) {
		struct vb_map *map = &nic->maps->at[i];

		if (map->serial && !map->mr && !vb_move_back(move, map->file))
			map_drop(map);
	}
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

/* Under nic->lock, between vb_move_begin and vb_move_end. */
static const char *map_try(struct vb_mr *mr, struct vb_move *move, const struct vb_range *range,
			   bool early)
{
	const char *why;

	maps_move_back(mr->nic, move);
	if (vb_mw_has_bound_to(mr))
		return "a memory window is bound to it";
	why = vb_move_pages_forbid(range);
	return why ? why : map_make(mr, move, range, early);
}

/* Under vb_map_moving. A thread that polls may hold the lock of a CQ, which comes after nic->lock:
 * it does not wait. */
static const char *region_map(struct vb_mr *mr, bool early, bool wait)
{
	const struct vb_range range = vb_move_pages(mr->addr, mr->length);
	const char *why = region_forbids(mr, &range);
	struct vb_nic *nic = mr->nic;
	struct vb_move move;

	if (!why)
		why = vb_move_begin(nic, &move, true);
	if (why)
		return why;
	if (wait ? pthread_mutex_lock(&nic->lock) : pthread_mutex_trylock(&nic->lock)) {
		why = "another thread is in a call of the library";
	} else {
		why = map_try(mr, &move, &range, early);
		pthread_mutex_unlock(&nic->lock);
	}
	vb_move_end(&move);
	return why;
}

const char *vb_map_region(struct vb_mr *mr, bool early)
{
	const char *why;

	pthread_mutex_lock(&vb_map_moving);
	why = region_map(mr, early, true);
	pthread_mutex_unlock(&vb_map_moving);
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

/* Under vb_map_moving, which keeps it. */
static struct vb_mr *region_at(struct vb_nic *nic, uint32_t index)
{
	struct vb_mr **page =
		index < nic->keys_made
			? __atomic_load_n(&nic->mrs[index / VB_KEY_PAGE], __ATOMIC_ACQUIRE)
			: NULL;

	return page ? __atomic_load_n(&page[index % VB_KEY_PAGE], __ATOMIC_SEQ_CST) : NULL;
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

static bool is_small_and_plain(const struct vb_mr *mr, const struct vb_pd *pd, uint64_t most)
{
	return mr && mr->pd == pd && mr->access & REMOTE && !atomic_load(&mr->entry->map) &&
	       mr->length <= most;
}

static void map_small_regions(struct vb_pd *pd, struct vb_maps *maps)
{
	struct vb_nic *nic = pd->nic;

	for (uint32_t i = 0; i < nic->keys_made && vb_now_ns() >= maps->retry_ns; i++) {
		struct vb_mr *mr = region_at(nic, i);

		if (!is_small_and_plain(mr, pd, maps->early_bytes))
			continue;
		if (!region_map(mr, true, true))
			maps->early_bytes -= mr->length;
		else
			note_result(maps, true);
	}
}

void vb_map_connected(struct vb_pd *pd)
{
	struct vb_maps *maps;

	if (vb_config_map() != VB_MAP_AUTO)
		return;
	pthread_mutex_lock(&vb_map_moving);
	pthread_mutex_lock(&pd->nic->lock);
	maps = maps_get(pd->nic);
	pthread_mutex_unlock(&pd->nic->lock);
	if (maps)
		map_small_regions(pd, maps);
	pthread_mutex_unlock(&vb_map_moving);
}

/* Under vb_map_moving. */
static void map_wanted(struct vb_nic *nic, uint32_t index)
{
	struct vb_mr *mr = region_at(nic, index);
	const char *why;

	if (!mr || pthread_mutex_trylock(&nic->lock))
		return;
	maps_get(nic);
	pthread_mutex_unlock(&nic->lock);
	if (!nic->maps || vb_now_ns() < nic->maps->retry_ns)
		return;
	why = region_map(mr, false, false);
	note_result(nic->maps, why);
	explain(mr, why);
}

/* Peers write wanted_key: it may name anything. */
void vb_map_turn(struct vb_nic *nic)
{
	VB_NO_CANCEL;
	uint32_t wanted = atomic_exchange(&nic->seg.lent->wanted_key, 0);

	atomic_store(&nic->map_wanted, 0);
	if (!wanted || vb_config_map() == VB_MAP_OFF || pthread_mutex_trylock(&vb_map_moving))
		return;
	map_wanted(nic, wanted - 1);
	pthread_mutex_unlock(&vb_map_moving);
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
	*leave = (struct vb_map_leave){ 0 };
	if (vb_config_map() == VB_MAP_OFF)
		return;
	pthread_mutex_lock(&vb_map_moving);
	leave->mapped = atomic_load(&mr->entry->map);
	if (!leave->mapped)
		pthread_mutex_unlock(&vb_map_moving);
	else
		leave->severed = !vb_move_begin(mr->nic, &leave->move, false);
}

void vb_map_leave_cancel(struct vb_map_leave *leave)
{
	if (leave->severed)
		vb_move_end(&leave->move);
	if (leave->mapped)
		pthread_mutex_unlock(&vb_map_moving);
}

/*
 * A thread that was excused because it copies through a view looks at the serial after its copy.
 * The barrier lies between the new serial and the move: the thread's stores were in the file before
 * it, or the thread sees that its copy was in vain (pairs with vb_mapped_is_current).
 */
bool vb_map_leave_end(struct vb_mr *mr, struct vb_map_leave *leave)
{
	struct vb_nic *nic = mr->nic;
	struct vb_map *map;
	bool left;

	if (!leave->mapped)
		return true;
	pthread_mutex_lock(&nic->lock);
	map = &nic->maps->at[leave->mapped - 1];
	map_hide(nic, map);
	if (leave->severed) {
		vb_barrier_others();
		maps_move_back(nic, &leave->move);
	}
	left = map->serial;
	pthread_mutex_unlock(&nic->lock);
	vb_map_leave_cancel(leave);
	return !left || !leave->severed;
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
