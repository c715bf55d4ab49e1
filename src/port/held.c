/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets for another process of this host that came before we were attached to it: the first
 * packets for a new process in the group of the port. A datagram that is lost here is never sent
 * again, so the packets wait until the attach is done. Packets of strangers may name any slot: they
 * wait in bounded room for a short time, and only if a process answered the connect.
 *
 * The attach ends on the service thread, which does not hold the wire lock: hence a lock of its
 * own.
 */
#include "base/clock.h"
#include "port/impl.h"

#include <stdlib.h>
#include <string.h>

enum { HELD_COUNT_MAX = 1024, HELD_BYTES_MAX = 4 << 20, HELD_NS_MAX = 200000000 };

struct held {
	struct vb_list node;
	uint64_t until_ns;
	struct vb_peer *peer; /* referenced */
	uint32_t packets;
	struct vb_slot_message message;
	uint8_t bytes[];
};

void vb_held_init(struct vb_held *held)
{
	vb_list_init(&held->list);
	pthread_mutex_init(&held->lock, NULL);
}

static void entry_drop(struct vb_held *held, struct held *entry, bool sent)
{
	atomic_fetch_add(sent ? &held->sent : &held->lost, entry->packets);
	vb_list_remove(&entry->node);
	held->count--;
	held->bytes -= entry->message.length;
	vb_peer_put(entry->peer);
	free(entry);
}

/* The oldest entry is the first in the list. */
static void expire_held(struct vb_held *held)
{
	uint64_t now_ns = vb_now_ns();

	while (!vb_list_empty(&held->list)) {
		struct held *oldest = vb_container(held->list.next, struct held, node);

		if (oldest->until_ns > now_ns)
			return;
		entry_drop(held, oldest, false);
	}
}

static void hold_packets(struct vb_held *held, struct vb_peer *peer,
			 const struct vb_slot_message *message, const uint8_t *bytes)
{
	uint32_t packets = vb_packets_of(message->length, message->segment);
	struct held *entry = NULL;

	if (held->count < HELD_COUNT_MAX && held->bytes + message->length <= HELD_BYTES_MAX)
		entry = malloc(sizeof(*entry) + message->length);
	if (!entry) {
		atomic_fetch_add(&held->lost, packets);
		return;
	}
	entry->until_ns = vb_now_ns() + HELD_NS_MAX;
	vb_peer_get(peer);
	entry->peer = peer;
	entry->packets = packets;
	entry->message = *message;
	memcpy(entry->bytes, bytes, message->length);
	vb_list_append(&held->list, &entry->node);
	held->count++;
	held->bytes += message->length;
}

/* Sends in the order of arrival. */
static void release_held(struct vb_held *held, const struct vb_peer *peer)
{
	expire_held(held);
	vb_list_for(entry, &held->list, struct held, node)
		if (entry->peer == peer)
			entry_drop(held, entry, vb_slot_write(peer, &entry->message, entry->bytes));
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
