/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/roce/ident.h"

#include <string.h>

#include "port/port.h"
#include "wire/packet.h"

static_assert((int)VB_IDENT_OWN == (int)VB_BURST_PACKETS, "a burst is numbered from 0");

/*
 * Linux lets an idle counter jump by the ticks of its idle time, up to 1,000 per second. Packets of
 * other flows, and lost packets, come on top.
 */
enum {
	NEAR = 64, /* in both directions: packets overtake each other */
	/*
	 * All packets of the last two spans, up to LATELY_MAX, may overtake a packet that waits for
	 * its CPU. CPUs send in batches, so a batch may jump ahead, by a quarter of that number.
	 */
	LATELY_NS = 250000000,
	LATELY_MAX = 1024,
	/*
	 * A counter that was idle jumps when it is used again. If two CPUs use it at once, the jump
	 * may come with the second packet: within WAKING_NS, after a pause of IDLE_NS or more.
	 */
	IDLE_NS = 4000000,
	WAKING_NS = 100000000,
	LEARN_MAX = 8, /* packets of an unknown peer that are accepted as they are in WAKING_NS */
	AGREES = 16,   /* distance from a number that was dropped, and may have been damage */
	AGREES_TICKS = 64,
	TICK_NS = 1000000,
	OTHERS_NS = 8000, /* other flows use the counter once in 8 us ... */
	OTHERS_MAX = 512, /* ... but not for long */
	ROUND = 4096, /* packets that fit; a counter not met in a round may be damage: forgotten */
	DOUBT_DROP = 16,
	DOUBT_MAX = 64,   /* from here on every packet is accepted, and doubt becomes ... */
	DOUBT_LONG = 128, /* ... this, until packets that fit have brought it down */
};
#define STALE_NS 8000000000ull /* after this time a counter may be anywhere */

/* --- peers --- */

static uint64_t flow_key(const struct vb_icrc_flow *flow)
{
	uint64_t key;

	memcpy(&key, flow->src, 4);
	memcpy((uint8_t *)&key + 4, flow->dst, 4);
	return key;
}

static struct vb_ident *peer_set(struct vb_ident_table *table, uint64_t key)
{
	return table->peers[key * 0x9e3779b97f4a7c15ull >> 32 & (VB_IDENT_SETS - 1)];
}

static struct vb_ident *peer_search(struct vb_ident_table *table, uint64_t key)
{
	struct vb_ident *set = peer_set(table, key);

	for (unsigned i = 0; i < VB_IDENT_WAYS; i++)
		if (set[i].used && set[i].key == key)
			return table->last = &set[i];
	return NULL;
}

static struct vb_ident *peer_find(struct vb_ident_table *table, uint64_t key)
{
	return table->last && table->last->key == key ? table->last : peer_search(table, key);
}

static struct vb_ident *peer_create(struct vb_ident_table *table, uint64_t key)
{
	struct vb_ident *set = peer_set(table, key), *peer = set;

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

static bool counter_is_stale(const struct vb_ident_counter *counter, uint64_t now_ns)
{
	return counter->state == VB_IDENT_NONE || now_ns - counter->used_ns >= STALE_NS;
}

/* The numbers that were counted in the last one or two spans. */
static uint64_t counted_lately(const struct vb_ident_counter *counter)
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

/* The idle time of a counter that has woken within WAKING_NS, else 0. */
static uint64_t idle_before_waking(const struct vb_ident_counter *counter, uint64_t now_ns)
{
	return now_ns - counter->woke_ns < WAKING_NS ? counter->idle_ns : 0;
}

static uint64_t ahead_of(const struct vb_ident_counter *counter, uint64_t now_ns)
{
	const uint64_t idle_ns = now_ns - counter->used_ns;

	if (counter->state == VB_IDENT_SEEN)
		return AGREES + at_most(idle_ns / TICK_NS, AGREES_TICKS);
	return NEAR + counted_lately(counter) / 4 +
	       (idle_ns + idle_before_waking(counter, now_ns)) / TICK_NS +
	       at_most(idle_ns / OTHERS_NS, OTHERS_MAX);
}

static bool counter_fits(const struct vb_ident_counter *counter, uint16_t id, uint64_t now_ns)
{
	const uint64_t behind =
		counter->state == VB_IDENT_SEEN ? AGREES : NEAR + counted_lately(counter);

	return !counter_is_stale(counter, now_ns) &&
	       ((uint16_t)(id - counter->last) <= ahead_of(counter, now_ns) ||
		(uint16_t)(counter->last - id) <= behind);
}

static void counter_advance(struct vb_ident *peer, struct vb_ident_counter *counter, uint16_t id,
			    uint64_t now_ns)
{
	note_time(counter, now_ns);
	if (now_ns - counter->used_ns >= IDLE_NS) {
		counter->idle_ns = now_ns - counter->used_ns;
		counter->woke_ns = now_ns;
	}
	/* A packet that was overtaken does not move the counter back. */
	if ((uint16_t)(id - counter->last) < 0x8000)
		counter->last = id;
	counter->used_ns = now_ns;
	counter->met = true;
	peer->counts = true;
	peer->next = (uint16_t)(counter->last + 1);
}

static struct vb_ident_counter *counter_find(struct vb_ident *peer, uint16_t id, uint64_t now_ns)
{
	for (unsigned i = 0; i < VB_IDENT_COUNTERS; i++)
		if (counter_fits(&peer->counters[i], id, now_ns))
			return &peer->counters[i];
	return NULL;
}

/* A counter that is not KNOWN is replaced before one that is; of two alike, the older one. */
static bool counter_is_worse(const struct vb_ident_counter *a, const struct vb_ident_counter *b)
{
	return a->state != b->state ? a->state < b->state : a->used_ns < b->used_ns;
}

static void add_counter(struct vb_ident *peer, uint16_t id, enum vb_ident_state state,
			uint64_t now_ns)
{
	struct vb_ident_counter *worst = peer->counters;

	for (unsigned i = 1; i < VB_IDENT_COUNTERS; i++)
		if (counter_is_worse(&peer->counters[i], worst))
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

/* No earlier packet predicts the next: this one is the first, or the first after a long time. */
static bool peer_is_unknown(const struct vb_ident *peer, uint64_t now_ns)
{
	if (peer->own == VB_IDENT_KNOWN)
		return false;
	for (unsigned i = 0; i < VB_IDENT_COUNTERS; i++)
		if (peer->counters[i].state == VB_IDENT_KNOWN &&
		    !counter_is_stale(&peer->counters[i], now_ns))
			return false;
	return true;
}

static void peer_end_round(struct vb_ident *peer)
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

static void peer_note(struct vb_ident *peer, uint16_t id, enum vb_ident_state state,
		      uint64_t now_ns)
{
	if (id < VB_IDENT_OWN)
		peer->own = (uint8_t)state;
	else
		add_counter(peer, id, state, now_ns);
}

/* True: the packet continues an earlier one, even one that was dropped. */
static bool peer_expects(struct vb_ident *peer, uint16_t id, uint64_t now_ns)
{
	struct vb_ident_counter *counter;

	if (id < VB_IDENT_OWN && peer->own != VB_IDENT_NONE) {
		peer->own = VB_IDENT_KNOWN;
		peer->own_met = true;
		peer->counts = false;
		return true;
	}
	counter = counter_find(peer, id, now_ns);
	if (!counter)
		return false;
	counter->state = VB_IDENT_KNOWN;
	counter_advance(peer, counter, id, now_ns);
	return true;
}

static bool peer_is_unpredictable(struct vb_ident *peer)
{
	const unsigned doubt = peer->doubt + DOUBT_DROP;

	peer->doubt = (uint8_t)(doubt < DOUBT_MAX ? doubt : DOUBT_LONG);
	return doubt >= DOUBT_MAX;
}

static bool peer_takes_slowly(struct vb_ident *peer, uint16_t id, uint64_t now_ns)
{
	if (peer_expects(peer, id, now_ns)) {
		peer->doubt -= peer->doubt != 0;
		if (++peer->round == ROUND)
			peer_end_round(peer);
		return true;
	}
	if (peer_is_unknown(peer, now_ns)) {
		peer->met_ns = now_ns;
		peer->learnt = 0;
	}
	if (peer->learnt < LEARN_MAX && now_ns - peer->met_ns < WAKING_NS) {
		peer->learnt++;
		peer_note(peer, id, VB_IDENT_KNOWN, now_ns);
		return true;
	}
	peer_note(peer, id, VB_IDENT_SEEN, now_ns);
	return peer_is_unpredictable(peer);
}

/* Short way for nearly all packets: they are of our own kind, from a peer that sends no others. */
static bool peer_takes(struct vb_ident *peer, uint16_t id, uint64_t now_ns)
{
	peer->used_ns = now_ns;
	if (id >= VB_IDENT_OWN || peer->own != VB_IDENT_KNOWN || peer->doubt || peer->counts ||
	    peer->round == ROUND - 1)
		return peer_takes_slowly(peer, id, now_ns);
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
	key = flow_key(flow);
	peer = peer_find(table, key);
	return peer_takes(peer ? peer : peer_create(table, key), id, now_ns);
}

bool vb_ident_check_behind(struct vb_ident_table *table, const struct vb_icrc_flow *flow,
			   uint32_t head, const uint8_t *packet, size_t length, uint16_t position,
			   uint64_t now_ns)
{
	uint16_t id = vb_port_id(position);
	struct vb_ident *peer;

	if (flow->ipv6)
		return vb_icrc_check_behind(flow, head, packet, length, &id);
	peer = peer_find(table, flow_key(flow));
	if (peer && peer->counts)
		id = peer->next;
	if (!vb_icrc_check_behind(flow, head, packet, length, &id))
		return false;
	return peer_takes(peer ? peer : peer_create(table, flow_key(flow)), id, now_ns);
}

bool vb_ident_check(struct vb_ident_table *table, const struct vb_icrc_flow *flow,
		    const uint8_t *packet, size_t length, uint16_t position, uint64_t now_ns)
{
	if (length < VB_BTH_LENGTH || length > VB_PACKET_MAX)
		return false;
	return vb_ident_check_behind(table, flow, vb_icrc_head(flow, packet, length), packet,
				     length, position, now_ns);
}
