/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of posted work requests. Programs use the same buffers again and again, so a range stays
 * when nothing uses it, and is found by its start and length. A tree over all ranges (a treap, with
 * the highest end of each subtree) is asked only for ranges that overlap others.
 */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

enum { FIRST = 4096, IDLE_MAX = 1 << 18 };

static struct vb_range **table; /* open addressing by start and length */
static uint64_t mask, count;
static struct vb_range *root;
static uint32_t random_state = 2463534242u;

static uint64_t hash_of(uint64_t addr, uint64_t length)
{
	uint64_t hash = (addr ^ length * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;

	return hash ^ hash >> 32;
}

static struct vb_range **slot_of(uint64_t addr, uint64_t length)
{
	uint64_t at = hash_of(addr, length);

	while (table[at & mask] &&
	       (table[at & mask]->addr != addr || table[at & mask]->length != length))
		at++;
	return &table[at & mask];
}

/* --- the tree --- */

static uint64_t end_of(const struct vb_range *range)
{
	return range->addr + range->length;
}

static void renew(struct vb_range *range)
{
	range->end_max = end_of(range);
	if (range->left && range->left->end_max > range->end_max)
		range->end_max = range->left->end_max;
	if (range->right && range->right->end_max > range->end_max)
		range->end_max = range->right->end_max;
}

static struct vb_range *turn_right(struct vb_range *top)
{
	struct vb_range *left = top->left;

	top->left = left->right;
	left->right = top;
	renew(top);
	return left;
}

static struct vb_range *turn_left(struct vb_range *top)
{
	struct vb_range *right = top->right;

	top->right = right->left;
	right->left = top;
	renew(top);
	return right;
}

static struct vb_range *tree_add(struct vb_range *top, struct vb_range *range)
{
	if (!top)
		return range;
	if (range->addr < top->addr) {
		top->left = tree_add(top->left, range);
		if (top->left->priority > top->priority)
			top = turn_right(top);
	} else {
		top->right = tree_add(top->right, range);
		if (top->right->priority > top->priority)
			top = turn_left(top);
	}
	renew(top);
	return top;
}

/* Calls each() for all ranges that overlap, until it returns true. */
static bool tree_each(struct vb_range *top, const struct vb_range *range,
		      bool (*each)(struct vb_range *other, void *arg), void *arg)
{
	for (; top && top->end_max > range->addr; top = top->right) {
		if (tree_each(top->left, range, each, arg))
			return true;
		if (top->addr >= end_of(range))
			return false;
		if (top != range && end_of(top) > range->addr && each(top, arg))
			return true;
	}
	return false;
}

/* --- the table --- */

static bool grow(void)
{
	const uint64_t size = table ? 2 * (mask + 1) : FIRST;
	struct vb_range **old = table, **wider = calloc(size, sizeof(*wider));
	const uint64_t old_size = table ? mask + 1 : 0;

	if (!wider)
		return false;
	table = wider;
	mask = size - 1;
	for (uint64_t i = 0; i < old_size; i++)
		if (old[i])
			*slot_of(old[i]->addr, old[i]->length) = old[i];
	free(old);
	return true;
}

/* Drops what nothing uses. The others meet again, by what is known of them. */
static void sweep(void)
{
	struct vb_range **old = table;
	const uint64_t size = mask + 1;

	table = calloc(size, sizeof(*table));
	if (!table) {
		table = old;
		return;
	}
	root = NULL;
	count = 0;
	for (uint64_t i = 0; i < size; i++) {
		struct vb_range *range = old[i];

		if (range && (range->reads || range->writes)) {
			range->left = range->right = NULL;
			renew(range);
			root = tree_add(root, range);
			*slot_of(range->addr, range->length) = range;
			count++;
		} else {
			free(range);
		}
	}
	free(old);
}

static bool not_alone(struct vb_range *other, void *range)
{
	other->alone = false;
	((struct vb_range *)range)->alone = false;
	return false;
}

static struct vb_range *make(uint64_t addr, uint64_t length)
{
	struct vb_range *range = calloc(1, sizeof(*range));

	if (!range)
		return NULL;
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	*range = (struct vb_range){
		.addr = addr, .length = length, .alone = true, .priority = random_state
	};
	renew(range);
	tree_each(root, range, not_alone, range);
	root = tree_add(root, range);
	*slot_of(addr, length) = range;
	count++;
	return range;
}

struct vb_range *vb_range_get(uint64_t addr, uint64_t length)
{
	struct vb_range *found;

	if (!table && !grow())
		return NULL;
	found = *slot_of(addr, length);
	if (__builtin_expect(found != NULL, 1))
		return found;
	if (count > IDLE_MAX)
		sweep();
	if (2 * count > mask && !grow())
		return NULL;
	return make(addr, length);
}

struct search {
	struct vb_range *found;
	bool any;
};

static bool in_use(struct vb_range *other, void *arg)
{
	struct search *search = arg;

	if (!other->writes && !(search->any && other->reads))
		return false;
	search->found = other;
	return true;
}

struct vb_range *vb_range_rival(struct vb_range *range, bool any)
{
	struct search search = { .any = any };

	if (range->writes || (any && range->reads))
		return range;
	if (__builtin_expect(!range->alone, 0))
		tree_each(root, range, in_use, &search);
	return search.found;
}

struct vb_range *vb_range_in_use(uint64_t addr, uint64_t length)
{
	const struct vb_range range = { .addr = addr, .length = length };
	struct search search = { .any = true };

	tree_each(root, &range, in_use, &search);
	return search.found;
}

static bool was_written(struct vb_range *other, void *since)
{
	return other->writes || other->written > *(uint64_t *)since;
}

bool vb_range_written(struct vb_range *range, uint64_t since)
{
	return was_written(range, &since) || tree_each(root, range, was_written, &since);
}

void vb_ranges_forget(void)
{
	table = NULL;
	root = NULL;
	mask = count = 0;
}
