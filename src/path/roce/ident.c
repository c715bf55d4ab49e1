/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/roce/ident.h"

#include <string.h>

#include "port/port.h"

static_assert((int)VB_IDENT_OWN == (int)VB_BURST_PACKETS, "a burst is numbered from 0");

/*
 * Linux lets a counter jump by as many ticks as nobody used it, of which it has up to 1,000 in a
 * second; others' packets, and lost ones, come on top of it.
 */
enum {
	NEAR = 64, /* both ways: packets overtake each other */
	/*
	 * A packet that waits for its CPU is overtaken by all packets of the last two spans, up to
	 * LATELY_MAX. CPUs send in batches, so a batch may jump ahead, by a quarter of that.
	 */
	LATELY_NS = 250000000,
	LATELY_MAX = 1024,
	/*
	 * A counter that was idle jumps when it is used again. If two CPUs use it at once, the jump
	 * may come with the second packet: within WAKING_NS, after a pause of IDLE_NS or more.
	 */
	IDLE_NS = 4000000,
	WAKING_NS = 100000000,
	LEARN_MAX = 8, /* packets of an unknown peer that are taken as they are in that time */
	AGREES = 16,   /* near one that was dropped: that may have been damage */
	AGREES_TICKS = 64,
	TICK_NS = 1000000,
	OTHERS_NS = 8000, /* a packet of somebody else's per 8 us ... */
	OTHERS_MAX = 512, /* ... but not for long */
	ROUND = 4096, /* packets that fit: what was not met meanwhile is forgotten, it may be damage */
	DOUBT_DROP = 16,
	DOUBT_MAX = 64,   /* from here on everything is taken, and doubt is ... */
	DOUBT_LONG = 128, /* ... until packets that fit have brought it down again */
};
#define STALE_NS 8000000000ull /* a counter may be anywhere by then */

/* --- peers --- */

static uint64_t key_of(const struct vb_icrc_flow *flow)
{
	uint64_t key;

	memcpy(&key, flow->src, 4);
	memcpy((uint8_t *)&key + 4, flow->dst, 4);
	return key;
}

static struct vb_ident *set_of(struct vb_ident_table *table, uint64_t key)
{
	return table->peers[key * 0x9e3779b97f4a7c15ull >> 32 & (VB_IDENT_SETS - 1)];
}

static struct vb_ident *search(struct vb_ident_table *table, uint64_t key)
{
	struct vb_ident *set = set_of(table, key);

	for (unsigned i = 0; i < VB_IDENT_WAYS; i++)
		if (set[i].used && set[i].key == key)
			return table->last = &set[i];
	return NULL;
}

static struct vb_ident *find(struct vb_ident_table *table, uint64_t key)
{
	return table->last && table->last->key == key ? table->last : search(table, key);
}

static struct vb_ident *create(struct vb_ident_table *table, uint64_t key)
{
	struct vb_ident *set = set_of(table, key), *peer = set;

	for (unsigned i = 1; i < VB_IDENT_WAYS && peer->used; i++)
		if (!set[i].used || set[i].used_ns < peer->used_ns)
			peer = &set[i];
	*peer = (struct vb_ident){ .key = key, .used = true };
	return table->last = peer;
}

/* --- counters --- */

static uint64_t at_most(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

static bool is_stale(const struct vb_ident_counter *counter, uint64_t now_ns)
{
	return counter->state == VB_IDENT_NONE || now_ns - counter->used_ns >= STALE_NS;
}

/* How many have been counted in the last one or two spans. */
static uint64_t lately(const struct vb_ident_counter *counter)
{
	return at_most((uint16_t)(counter->last - counter->before), LATELY_MAX);
}

static void note_time(struct vb_ident_counter *counter, uint64_t now_ns)
{
	const uint64_t spans = (now_ns - counter->since_ns) / LATELY_NS;

	if (!spans)
		return;
	counter->before = spans == 1 ? counter->from : counter->last;
	counter->from = counter->last;
	counter->since_ns = now_ns;
}

/* For how long it was idle, if that was just now. */
static uint64_t waking(const struct vb_ident_counter *counter, uint64_t now_ns)
{
	return now_ns - counter->woke_ns < WAKING_NS ? counter->idle_ns : 0;
}

static uint64_t ahead_of(const struct vb_ident_counter *counter, uint64_t now_ns)
{
	const uint64_t idle_ns = now_ns - counter->used_ns;

	if (counter->state == VB_IDENT_SEEN)
		return AGREES + at_most(idle_ns / TICK_NS, AGREES_TICKS);
	return NEAR + lately(counter) / 4 + (idle_ns + waking(counter, now_ns)) / TICK_NS +
	       at_most(idle_ns / OTHERS_NS, OTHERS_MAX);
}

static bool fits(const struct vb_ident_counter *counter, uint16_t id, uint64_t now_ns)
{
	const uint64_t behind = counter->state == VB_IDENT_SEEN ? AGREES : NEAR + lately(counter);

	return !is_stale(counter, now_ns) &&
	       ((uint16_t)(id - counter->last) <= ahead_of(counter, now_ns) ||
		(uint16_t)(counter->last - id) <= behind);
}

static void advance(struct vb_ident *peer, struct vb_ident_counter *counter, uint16_t id,
		    uint64_t now_ns)
{
	note_time(counter, now_ns);
	if (now_ns - counter->used_ns >= IDLE_NS) {
		counter->idle_ns = now_ns - counter->used_ns;
		counter->woke_ns = now_ns;
	}
	/* One that was overtaken does not move it back. */
	if ((uint16_t)(id - counter->last) < 0x8000)
		counter->last = id;
	counter->used_ns = now_ns;
	counter->met = true;
	peer->counts = true;
	peer->next = (uint16_t)(counter->last + 1);
}

static struct vb_ident_counter *counter_of(struct vb_ident *peer, uint16_t id, uint64_t now_ns)
{
	for (unsigned i = 0; i < VB_IDENT_COUNTERS; i++)
		if (fits(&peer->counters[i], id, now_ns))
			return &peer->counters[i];
	return NULL;
}

/* One that is not known is given up before one that is; of two the older one. */
static bool is_worse(const struct vb_ident_counter *a, const struct vb_ident_counter *b)
{
	return a->state != b->state ? a->state < b->state : a->used_ns < b->used_ns;
}

static void add_counter(struct vb_ident *peer, uint16_t id, enum vb_ident_state state,
			uint64_t now_ns)
{
	struct vb_ident_counter *worst = peer->counters;

	for (unsigned i = 1; i < VB_IDENT_COUNTERS; i++)
		if (is_worse(&peer->counters[i], worst))
			worst = &peer->counters[i];
	*worst = (struct vb_ident_counter){
		.used_ns = now_ns,
		.since_ns = now_ns,
		.last = id,
		.from = id,
		.before = id,
		.state = (uint8_t)state,
	};
}

/* --- packets --- */

/* Nothing that it sent says what is to come: the first packet, or the first one after a long time. */
static bool is_unknown(const struct vb_ident *peer, uint64_t now_ns)
{
	if (peer->own == VB_IDENT_KNOWN)
		return false;
	for (unsigned i = 0; i < VB_IDENT_COUNTERS; i++)
		if (peer->counters[i].state == VB_IDENT_KNOWN &&
		    !is_stale(&peer->counters[i], now_ns))
			return false;
	return true;
}

static void end_round(struct vb_ident *peer)
{
	peer->round = 0;
	for (unsigned i = 0; i < VB_IDENT_COUNTERS; i++) {
		if (!peer->counters[i].met)
			peer->counters[i].state = VB_IDENT_NONE;
		peer->counters[i].met = false;
	}
	if (!peer->own_met)
		peer->own = VB_IDENT_NONE;
	peer->own_met = false;
}

static void note(struct vb_ident *peer, uint16_t id, enum vb_ident_state state, uint64_t now_ns)
{
	if (id < VB_IDENT_OWN)
		peer->own = (uint8_t)state;
	else
		add_counter(peer, id, state, now_ns);
}

/* It goes on where another one was, even if that one was dropped. */
static bool is_expected(struct vb_ident *peer, uint16_t id, uint64_t now_ns)
{
	struct vb_ident_counter *counter;

	if (id < VB_IDENT_OWN && peer->own != VB_IDENT_NONE) {
		peer->own = VB_IDENT_KNOWN;
		peer->own_met = true;
		peer->counts = false;
		return true;
	}
	counter = counter_of(peer, id, now_ns);
	if (!counter)
		return false;
	counter->state = VB_IDENT_KNOWN;
	advance(peer, counter, id, now_ns);
	return true;
}

static bool is_unpredictable(struct vb_ident *peer)
{
	const unsigned doubt = peer->doubt + DOUBT_DROP;

	peer->doubt = (uint8_t)(doubt < DOUBT_MAX ? doubt : DOUBT_LONG);
	return doubt >= DOUBT_MAX;
}

static bool takes_slowly(struct vb_ident *peer, uint16_t id, uint64_t now_ns)
{
	if (is_expected(peer, id, now_ns)) {
		peer->doubt -= peer->doubt != 0;
		if (++peer->round == ROUND)
			end_round(peer);
		return true;
	}
	if (is_unknown(peer, now_ns)) {
		peer->met_ns = now_ns;
		peer->learnt = 0;
	}
	if (peer->learnt < LEARN_MAX && now_ns - peer->met_ns < WAKING_NS) {
		peer->learnt++;
		note(peer, id, VB_IDENT_KNOWN, now_ns);
		return true;
	}
	note(peer, id, VB_IDENT_SEEN, now_ns);
	return is_unpredictable(peer);
}

/* Nearly all packets are of our own kind, from a peer that sends no others. */
static bool takes(struct vb_ident *peer, uint16_t id, uint64_t now_ns)
{
	peer->used_ns = now_ns;
	if (id >= VB_IDENT_OWN || peer->own != VB_IDENT_KNOWN || peer->doubt || peer->counts ||
	    peer->round == ROUND - 1)
		return takes_slowly(peer, id, now_ns);
	peer->own_met = true;
	peer->round++;
	return true;
}

bool vb_ident_takes(struct vb_ident_table *table, const struct vb_icrc_flow *flow, uint16_t id,
		    uint64_t now_ns)
{
	uint64_t key;
	struct vb_ident *peer;

	if (flow->ipv6)
		return true;
	key = key_of(flow);
	peer = find(table, key);
	return takes(peer ? peer : create(table, key), id, now_ns);
}

bool vb_ident_check(struct vb_ident_table *table, const struct vb_icrc_flow *flow,
		    const uint8_t *packet, size_t length, uint16_t position, uint64_t now_ns)
{
	uint16_t id = vb_port_id(position);
	struct vb_ident *peer;

	if (flow->ipv6)
		return vb_icrc_check_guess(flow, packet, length, &id);
	peer = find(table, key_of(flow));
	if (peer && peer->counts)
		id = peer->next;
	if (!vb_icrc_check_guess(flow, packet, length, &id))
		return false;
	return takes(peer ? peer : create(table, key_of(flow)), id, now_ns);
}
