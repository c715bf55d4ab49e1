/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets to lanes of this process, without a socket: a ring of bursts per lane. Ports of all lanes
 * write it, each under the lock of its own lane and the ring's. The lane reads it. The eventfd is
 * readable while there are records.
 *
 *   +--------+--------+- - - - - -+--------+--------+
 *   | record | (end)  |   free    | record | record |
 *   +--------+--------+- - - - - -+--------+--------+
 *            ^ head               ^ tail
 */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/message.h"
#include "port/impl.h"

enum { RING_SIZE = 4 << 20, ALIGNMENT = 64 };

struct record {
	uint32_t size; /* of the whole record; 0: the next record is at the beginning of the ring */
	uint32_t length, segment, scope;
	uint16_t position, fabric;
	uint8_t traffic_class, hop_limit;
	bool forwarded;
	struct vb_peer *peer; /* referenced, or NULL */
	struct vb_icrc_flow flow;
	uint8_t bytes[];
};

void vb_memory_init(struct vb_memory *memory)
{
	pthread_mutex_init(&memory->lock, NULL);
	memory->event = -1;
	memory->open = true;
}

/* Under the ring's lock. */
static int ring_open(struct vb_port *port)
{
	struct vb_memory *memory = &port->memory;
	void *ring;
	int err;

	if (memory->ring)
		return 0;
	memory->event = vb_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (memory->event < 0)
		return -errno;
	ring = mmap(NULL, RING_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	err = ring == MAP_FAILED ? -ENOMEM
				 : vb_port_watch_source(port, memory->event, VB_SOURCE_MEMORY);
	if (!err) {
		memory->ring = ring;
		return 0;
	}
	if (ring != MAP_FAILED)
		munmap(ring, RING_SIZE);
	vb_fd_close(&memory->event);
	return err;
}

int vb_memory_open(struct vb_port *port)
{
	int err;

	pthread_mutex_lock(&port->memory.lock);
	err = port->memory.open ? ring_open(port) : -ENETDOWN;
	pthread_mutex_unlock(&port->memory.lock);
	return err;
}

static struct record *record_at(const struct vb_memory *memory, uint32_t offset)
{
	return (struct record *)(memory->ring + offset);
}

/* Room for one record, or NULL. A record never ends at the beginning of the oldest one, so head and
 * tail are equal only in an empty ring. */
static struct record *reserve_record(struct vb_memory *memory, uint32_t size)
{
	const uint32_t count = atomic_load_explicit(&memory->count, memory_order_relaxed);

	if (!count)
		memory->head = memory->tail = 0;
	if (count && memory->head <= memory->tail)
		return size < memory->tail - memory->head ? record_at(memory, memory->head) : NULL;
	/* Behind the record there is room for the header that leads back to the beginning. */
	if (size + ALIGNMENT <= RING_SIZE - memory->head)
		return record_at(memory, memory->head);
	if (size >= memory->tail)
		return NULL;
	record_at(memory, memory->head)->size = 0;
	memory->head = 0;
	return record_at(memory, 0);
}

static void signal_waiting(const struct vb_memory *memory)
{
	uint64_t one = 1;

	if (vb_write(memory->event, &one, sizeof(one)) < 0)
		return; /* EAGAIN, a full counter: the eventfd is readable already */
}

/* False: the packets are lost. */
static bool ring_push(struct vb_port *to, const struct vb_delivery *delivery)
{
	struct vb_memory *memory = &to->memory;
	uint32_t size = (uint32_t)sizeof(struct record) + delivery->length;
	struct record *record;

	size = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1u);
	if (!memory->open || ring_open(to))
		return false;
	record = reserve_record(memory, size);
	if (!record)
		return false;
	*record = (struct record){
		.size = size,
		.length = delivery->length,
		.segment = delivery->segment,
		.scope = delivery->scope,
		.position = delivery->position,
		.fabric = delivery->fabric,
		.traffic_class = delivery->traffic_class,
		.hop_limit = delivery->hop_limit,
		.forwarded = delivery->forwarded,
		.peer = delivery->peer,
		.flow = *delivery->flow,
	};
	memcpy(record->bytes, delivery->bytes, delivery->length);
	if (record->peer)
		vb_peer_get(record->peer);
	memory->head += size;
	if (!atomic_fetch_add_explicit(&memory->count, 1, memory_order_relaxed))
		signal_waiting(memory);
	return true;
}

static bool push(struct vb_port *to, const struct vb_delivery *delivery)
{
	bool pushed;

	pthread_mutex_lock(&to->memory.lock);
	pushed = ring_push(to, delivery);
	pthread_mutex_unlock(&to->memory.lock);
	return pushed;
}

void vb_memory_hand_over(struct vb_port *to, const struct vb_delivery *delivery)
{
	push(to, delivery); /* a ring that is full loses packets, as a socket does */
}

void vb_memory_send(struct vb_port *port, const struct vb_burst *burst)
{
	const uint32_t packets = vb_packets_of(burst->length, burst->segment);
	const struct vb_delivery delivery = {
		.flow = &burst->way->flow,
		.bytes = burst->bytes,
		.length = burst->length,
		.segment = burst->segment,
		.traffic_class = burst->way->traffic_class,
		.hop_limit = burst->way->hop_limit,
		.fabric = vb_group_fabric(&burst->way->flow),
	};
	struct vb_port *to = vb_port_for(port, burst->bytes, burst->segment);

	/* Packets for another process go on to it from the ring. */
	if (!push(to ? to : port, &delivery)) {
		port->counters->memory_full += packets;
		return;
	}
	port->counters->packets_out += packets;
	port->counters->bytes_out += burst->length;
}

static unsigned deliver_record(struct vb_port *port, const struct record *record)
{
	const struct vb_delivery delivery = {
		.flow = &record->flow,
		.bytes = record->bytes,
		.length = record->length,
		.segment = record->segment,
		.traffic_class = record->traffic_class,
		.hop_limit = record->hop_limit,
		.scope = record->scope,
		.peer = record->peer,
		.forwarded = record->forwarded,
		.fabric = record->fabric,
		.position = record->position,
	};

	return vb_port_deliver(port, &delivery);
}

/* The oldest record, or NULL: the ring is empty. Only the lane itself takes records. */
static struct record *oldest_record(struct vb_memory *memory)
{
	struct record *record = NULL;
	uint64_t count;

	pthread_mutex_lock(&memory->lock);
	if (atomic_load_explicit(&memory->count, memory_order_relaxed)) {
		record = record_at(memory, memory->tail);
		if (!record->size) {
			memory->tail = 0;
			record = record_at(memory, 0);
		}
	} else if (vb_read(memory->event, &count, sizeof(count)) < 0) {
		record = NULL; /* nothing was signalled */
	}
	pthread_mutex_unlock(&memory->lock);
	return record;
}

static void drop_record(struct vb_memory *memory, struct record *record)
{
	vb_peer_put(record->peer);
	pthread_mutex_lock(&memory->lock);
	memory->tail += record->size;
	atomic_fetch_sub_explicit(&memory->count, 1, memory_order_relaxed);
	pthread_mutex_unlock(&memory->lock);
}

/* port->input may send, so a record leaves the ring only after it was delivered. */
unsigned vb_memory_receive(struct vb_port *port, unsigned most)
{
	struct record *record;
	unsigned total = 0;

	while (total < most && (record = oldest_record(&port->memory))) {
		total += deliver_record(port, record);
		drop_record(&port->memory, record);
	}
	return total;
}

void vb_memory_close(struct vb_port *port)
{
	struct vb_memory *memory = &port->memory;
	struct record *record;

	pthread_mutex_lock(&memory->lock);
	memory->open = false;
	pthread_mutex_unlock(&memory->lock);
	while ((record = oldest_record(memory)))
		drop_record(memory, record);
	if (memory->ring)
		munmap(memory->ring, RING_SIZE);
	memory->ring = NULL;
	memory->head = memory->tail = 0;
	vb_fd_close(&memory->event);
}
