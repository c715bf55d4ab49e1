/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/slot_user.h"
#include "base/limits.h"

#include <assert.h>
#include <stdio.h>

enum { ACCOUNTS = 65536 }; /* uids below: subuids begin above */

/* The parts of the own slots. Each user of a part has one of share slots there. */
static const struct part {
	uint32_t first, last, share;
} parts[] = {
	{ VB_SLOT_OWN_MIN, 2303, 1 }, /* root, alone */
	{ 2304, 3839, 24 },           /* accounts: about 64 each */
	{ 3840, VB_SLOT_MAX, 4 },     /* all others */
};

static_assert(VB_SLOT_OWN_MIN < 2303, "the parts follow the shared slots");

void vb_uid_map_read(struct vb_uid_map *map)
{
	FILE *file = fopen("/proc/self/uid_map", "re");

	map->count = 0;
	while (file && map->count < VB_UID_RANGES &&
	       fscanf(file, "%u %u %u", &map->ranges[map->count].inside,
		      &map->ranges[map->count].outside, &map->ranges[map->count].length) == 3)
		map->count++;
	if (file)
		fclose(file);
	if (map->count)
		return;
	map->ranges[map->count].inside = map->ranges[map->count].outside = 0;
	map->ranges[map->count++].length = UINT32_MAX;
}

bool vb_uid_outside(const struct vb_uid_map *map, uid_t uid, uint32_t *user)
{
	for (unsigned i = 0; i < map->count; i++) {
		if (uid - map->ranges[i].inside >= map->ranges[i].length)
			continue;
		*user = uid - map->ranges[i].inside + map->ranges[i].outside;
		return true;
	}
	return false;
}

/* Each bit of the result depends on every bit of the arguments. */
static uint32_t mix_hash(uint32_t user, uint32_t slot)
{
	uint64_t word = ((uint64_t)user << 32 | slot) + 0x9e3779b97f4a7c15u;

	word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
	word = (word ^ word >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((word ^ word >> 31) >> 32);
}

bool vb_slot_shared_is_for(uint32_t user, uint32_t slot)
{
	return !user || mix_hash(user, slot) & 1;
}

static const struct part *part_of(uint32_t user)
{
	return &parts[!user ? 0 : user < ACCOUNTS ? 1 : 2];
}

uint32_t vb_slot_weight(uint32_t user, uint32_t slot)
{
	const struct part *part = part_of(user);
	const uint32_t weight = mix_hash(user, slot);

	if (slot < part->first || slot > part->last ||
	    weight < UINT32_MAX - UINT32_MAX / part->share)
		return 0;
	return weight ? weight : 1;
}
