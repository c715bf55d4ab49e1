/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets to this process itself, without a socket: a ring of bursts, written and read under the
 * wire lock. The eventfd is readable while there are records.
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
	uint32_t length, segment;
	uint8_t traffic_class, hop_limit;
	struct vb_icrc_flow flow;
	uint8_t bytes[];
};

int vb_memory_open(struct vb_port *port)
{
	struct vb_memory *memory = &port->memory;
	int err;

	if (memory->ring)
		return 0;
	memory->event = vb_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (memory->event < 0)
		return -errno;
	memory->ring =
		mmap(NULL, RING_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	err = memory->ring == MAP_FAILED
		      ? -ENOMEM
		      : vb_port_watch_source(port, memory->event, VB_SOURCE_MEMORY);
	if (!err)
		return 0;
	if (memory->ring != MAP_FAILED)
		munmap(memory->ring, RING_SIZE);
	memory->ring = NULL;
	vb_fd_close(&memory->event);
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
	if (!memory->count)
		memory->head = memory->tail = 0;
	if (memory->count && memory->head <= memory->tail)
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

void vb_memory_send(struct vb_port *port, const struct vb_burst *burst)
{
	struct vb_memory *memory = &port->memory;
	uint32_t packets = vb_packets_of(burst->length, burst->segment);
	uint32_t size = (uint32_t)sizeof(struct record) + burst->length;
	struct record *record;

	size = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1u);
	record = reserve_record(memory, size);
	if (!record) {
		port->counters->memory_full += packets;
		return;
	}
	record->size = size;
	record->length = burst->length;
	record->segment = burst->segment;
	record->traffic_class = burst->way->traffic_class;
	record->hop_limit = burst->way->hop_limit;
	record->flow = burst->way->flow;
	memcpy(record->bytes, burst->bytes, burst->length);
	memory->head += size;
	port->counters->packets_out += packets;
	port->counters->bytes_out += burst->length;
	if (!memory->count++)
		signal_waiting(memory);
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
		.fabric = vb_group_fabric(&record->flow),
	};

	return vb_port_deliver(port, &delivery);
}

/* port->input may send, so a record leaves the ring only after it was delivered. */
unsigned vb_memory_receive(struct vb_port *port, unsigned most)
{
	struct vb_memory *memory = &port->memory;
	unsigned total = 0;
	uint64_t count;

	while (memory->count && total < most) {
		const struct record *record = record_at(memory, memory->tail);

		if (!record->size) {
			memory->tail = 0;
			record = record_at(memory, 0);
		}
		total += deliver_record(port, record);
		memory->tail += record->size;
		memory->count--;
	}
	if (!memory->count && vb_read(memory->event, &count, sizeof(count)) < 0)
		return total; /* nothing was signalled */
	return total;
}
