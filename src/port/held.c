/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets for another process of this host that came before we were attached to it: the first
 * packets for a new process in the group of the port. A datagram that is lost here is never sent
 * again, so the packets wait until the attach is done. Packets of strangers may name any slot: they
 * wait in bounded room for a short time, and only if a process answered the connect.
 *
 * The attach ends on the service thread, which holds the lock of no lane: hence a lock of its own.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "port/impl.h"

enum { HELD_COUNT_MAX = 1024, HELD_BYTES_MAX = 4 << 20, HELD_NS_MAX = 200000000 };

/* Where a burst was to go. */
struct target {
	struct vb_peer *peer; /* referenced */
	uint32_t packets;
	struct vb_slot_message message;
};

void vb_held_init(struct vb_held *held)
{
	vb_delay_line_init(&held->line, HELD_COUNT_MAX, HELD_BYTES_MAX);
	pthread_mutex_init(&held->lock, NULL);
}

/* The burst is out of the line. */
static void finish_burst(struct vb_held *held, struct vb_delayed *burst, bool sent)
{
	const struct target *target = burst->context;

	atomic_fetch_add(sent ? &held->sent : &held->lost, target->packets);
	vb_peer_put(target->peer);
	free(burst);
}

/* Bursts that are due have waited long enough. */
static void expire_held(struct vb_held *held)
{
	const uint64_t now_ns = vb_now_ns();
	struct vb_delayed *burst;

	while ((burst = vb_delay_pop_due(&held->line, now_ns)))
		finish_burst(held, burst, false);
}

static void hold_packets(struct vb_held *held, struct vb_peer *peer,
			 const struct vb_slot_message *message, const uint8_t *bytes)
{
	const struct target target = { peer, vb_packets_of(message->length, message->segment),
				       *message };
	const struct vb_delay_input input = {
		.bytes = bytes,
		.length = message->length,
		.context = &target,
		.context_length = sizeof(target),
		.due_ns = vb_now_ns() + HELD_NS_MAX,
	};

	if (vb_delay_push(&held->line, &input))
		atomic_fetch_add(&held->lost, target.packets);
	else
		vb_peer_get(peer);
}

/* Sends in the order of arrival. */
static void release_held(struct vb_held *held, const struct vb_peer *peer)
{
	expire_held(held);
	vb_list_for(burst, &held->line.packets, struct vb_delayed, node) {
		const struct target *target = burst->context;

		if (target->peer != peer)
			continue;
		vb_delay_take(&held->line, burst);
		finish_burst(held, burst, vb_slot_write(peer, &target->message, burst->bytes));
	}
}

void vb_held_forward(struct vb_held *held, struct vb_peer *peer,
		     const struct vb_slot_message *message, const uint8_t *bytes)
{
	uint32_t packets = vb_packets_of(message->length, message->segment);

	pthread_mutex_lock(&held->lock);
	expire_held(held);
	/* Pairs with vb_port_attached, which takes the lock after the verdict: either this thread
	 * sees the verdict, or that one sees the entry. */
	if (!vb_slot_is_attached(peer)) {
		hold_packets(held, peer, message, bytes);
	} else {
		release_held(held, peer);
		atomic_fetch_add(vb_slot_write(peer, message, bytes) ? &held->sent : &held->lost,
				 packets);
	}
	pthread_mutex_unlock(&held->lock);
}

void vb_port_attached(struct vb_port *port, struct vb_peer *peer)
{
	pthread_mutex_lock(&port->held.lock);
	release_held(&port->held, peer);
	pthread_mutex_unlock(&port->held.lock);
}
