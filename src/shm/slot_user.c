/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/slot_user.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"

enum {
	ACCOUNTS = 65536, /* uids below: subuids begin above */
	LINE_SIZE = 33,   /* of /proc/self/uid_map: three numbers of ten digits */
};

/* The parts of the own slots. Each user of a part has one of share slots there. */
static const struct part {
	uint32_t first, last, share;
} parts[] = {
	{ VB_SLOT_OWN_MIN, 2303, 1 }, /* root, alone */
	{ 2304, 3839, 24 },           /* accounts: about 64 each */
	{ 3840, VB_SLOT_MAX, 4 },     /* all others */
};

static_assert(VB_SLOT_OWN_MIN < 2303, "the parts follow the shared slots");

/* Without stdio: a program that opens a device waits for this. */
static void read_text(char *text, size_t size)
{
	int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t more;

	while (fd >= 0 && length < size - 1 &&
	       (more = read(fd, text + length, size - 1 - length)) > 0)
		length += (size_t)more;
	text[length] = '\0';
	if (fd >= 0)
		close(fd);
}

/* False: there is none; numbers go up to UINT32_MAX. */
static bool next_number(char **text, uint32_t *number)
{
	char *end;

	*number = (uint32_t)strtoul(*text, &end, 10);
	if (end == *text)
		return false;
	*text = end;
	return true;
}

void vb_uid_map_read(struct vb_uid_map *map)
{
	char text[VB_UID_RANGES * LINE_SIZE + 1], *at = text;

	read_text(text, sizeof(text));
	map->count = 0;
	while (map->count < VB_UID_RANGES && next_number(&at, &map->ranges[map->count].inside) &&
	       next_number(&at, &map->ranges[map->count].outside) &&
	       next_number(&at, &map->ranges[map->count].length))
		map->count++;
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
