/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of which one end is known: a table by their keys, with linear probing. */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

enum { ROOM_FIRST = 1 << 12, ROOM_MAX = 1 << 21 };

static uint64_t mix(uint64_t key)
{
	key ^= key >> 31;
	key *= 0x9e3779b97f4a7c15ull;
	key ^= key >> 29;
	return key;
}

uint64_t trace_receive_key(uint32_t qpn, uint32_t receive)
{
	return 1ull << 63 | (uint64_t)qpn << 32 | receive;
}

uint64_t trace_packet_key(uint32_t qpn, uint32_t src_qpn, uint32_t psn)
{
	return (mix(mix((uint64_t)qpn << 24 | src_qpn) ^ psn) >> 1) | 1;
}

static struct trace_arrow *place_of(const struct trace_arrows *arrows, uint64_t key)
{
	size_t at = mix(key) & (arrows->room - 1);

	while (arrows->list[at].key && arrows->list[at].key != key)
		at = (at + 1) & (arrows->room - 1);
	return &arrows->list[at];
}

/* Doubles the table. At its greatest size everything is forgotten: the other ends are lost. */
static bool grow(struct trace_arrows *arrows)
{
	const size_t room = arrows->room ? 2 * arrows->room : ROOM_FIRST;
	struct trace_arrows larger = { .room = room, .count = arrows->count };

	if (room > ROOM_MAX) {
		memset(arrows->list, 0, arrows->room * sizeof(*arrows->list));
		arrows->count = 0;
		return true;
	}
	larger.list = calloc(room, sizeof(*larger.list));
	if (!larger.list)
		return false;
	for (size_t i = 0; i < arrows->room; i++)
		if (arrows->list[i].key)
			*place_of(&larger, arrows->list[i].key) = arrows->list[i];
	free(arrows->list);
	*arrows = larger;
	return true;
}

struct trace_arrow *trace_arrow_find(struct trace_arrows *arrows, uint64_t key, bool make)
{
	struct trace_arrow *arrow;

	if (make && 2 * (arrows->count + 1) > arrows->room && !grow(arrows))
		return NULL;
	if (!arrows->room)
		return NULL;
	arrow = place_of(arrows, key);
	if (arrow->key)
		return arrow;
	if (!make)
		return NULL;
	*arrow = (struct trace_arrow){ .key = key };
	arrows->count++;
	return arrow;
}

/* Entries behind it that were displaced move up. */
void trace_arrow_remove(struct trace_arrows *arrows, struct trace_arrow *arrow)
{
	size_t at = (size_t)(arrow - arrows->list);

	arrow->key = 0;
	arrows->count--;
	for (;;) {
		struct trace_arrow moved;

		at = (at + 1) & (arrows->room - 1);
		moved = arrows->list[at];
		if (!moved.key)
			return;
		arrows->list[at].key = 0;
		*place_of(arrows, moved.key) = moved;
	}
}
