/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const void *map_at(void *at, int fd, size_t size, off_t offset)
{
	const void *map = mmap(at, size, PROT_READ, MAP_SHARED | (at ? MAP_FIXED : 0), fd, offset);

	return map == MAP_FAILED ? NULL : map;
}

/* A file that can become shorter would end this process. */
static bool file_stays(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat file;

	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &file) &&
	       file.st_size >= VB_CAPTURE_HEAD + VB_CAPTURE_RING;
}

static int ring_map(struct vb_capture_reader *reader, int fd)
{
	uint8_t *space = mmap(NULL, 2 * (size_t)VB_CAPTURE_RING, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (space == MAP_FAILED)
		return -ENOMEM;
	reader->data = space;
	reader->head = map_at(NULL, fd, VB_CAPTURE_HEAD, 0);
	if (!reader->head || !map_at(space, fd, VB_CAPTURE_RING, VB_CAPTURE_HEAD) ||
	    !map_at(space + VB_CAPTURE_RING, fd, VB_CAPTURE_RING, VB_CAPTURE_HEAD))
		return -ENOMEM;
	return reader->head->magic == VB_CAPTURE_MAGIC &&
			       reader->head->version == VB_CAPTURE_VERSION &&
			       reader->head->ring == VB_CAPTURE_RING
		       ? 0
		       : -EPROTO;
}

int vb_capture_open(struct vb_capture_reader *reader, int fd,
		    const struct vb_capture_answer *answer)
{
	int err;

	*reader = (struct vb_capture_reader){ 0 };
	if (!file_stays(fd))
		return -EPROTO;
	err = ring_map(reader, fd);
	if (!err) {
		reader->copy = malloc(VB_CAPTURE_RING);
		err = reader->copy ? 0 : -ENOMEM;
	}
	if (err) {
		vb_capture_close(reader);
		return err;
	}
	reader->position = answer->position;
	reader->number = answer->number;
	reader->busy = atomic_load_explicit(&reader->head->lost, memory_order_relaxed);
	reader->stations = answer->station;
	reader->stations_busy =
		atomic_load_explicit(&reader->head->stations_lost, memory_order_relaxed);
	return 0;
}

void vb_capture_close(struct vb_capture_reader *reader)
{
	if (reader->head)
		munmap((void *)reader->head, VB_CAPTURE_HEAD);
	if (reader->data)
		munmap((void *)reader->data, 2 * (size_t)VB_CAPTURE_RING);
	free(reader->copy);
	*reader = (struct vb_capture_reader){ 0 };
}

/* A record whose sizes make sense, as far as its head tells. */
static bool is_sound(const struct vb_capture_head *record, uint64_t position, size_t left)
{
	return record->position == position && record->size >= sizeof(*record) &&
	       record->size <= left && record->size % 8 == 0 && record->text <= VB_CAPTURE_TEXT &&
	       record->text <= record->size - sizeof(*record);
}

/* The record has the lower half of the count. */
static void stations_count(struct vb_capture_reader *reader, const struct vb_capture_head *record)
{
	const uint32_t missing = record->station - (uint32_t)reader->stations;

	reader->stations_overwritten += missing;
	reader->stations += missing + (record->kind == VB_CAPTURE_STATION);
}

/* Takes the records of a copy, which is sound from reader->position on. */
static size_t hand_out(struct vb_capture_reader *reader, const uint8_t *copy, size_t size,
		       vb_capture_each *each, void *arg)
{
	size_t count = 0;

	for (size_t at = 0; size - at >= sizeof(struct vb_capture_head); count++) {
		const struct vb_capture_head *record = (const void *)(copy + at);

		if (!is_sound(record, reader->position, size - at))
			break;
		if (record->number > reader->number)
			reader->overwritten += record->number - reader->number;
		reader->number = record->number + record->packets;
		stations_count(reader, record);
		each(arg, record);
		at += record->size;
		reader->position += record->size;
	}
	return count;
}

/* Records were overwritten before they were read: goes on with the next one that is written. */
static void skip(struct vb_capture_reader *reader)
{
	reader->position = atomic_load_explicit(&reader->head->written, memory_order_acquire);
}

size_t vb_capture_read(struct vb_capture_reader *reader, vb_capture_each *each, void *arg)
{
	const uint64_t written = atomic_load_explicit(&reader->head->written, memory_order_acquire);
	const uint64_t size = written - reader->position;
	size_t count;

	if (!size)
		return 0;
	if (size > VB_CAPTURE_RING) {
		skip(reader);
		return 0;
	}
	memcpy(reader->copy, reader->data + reader->position % VB_CAPTURE_RING, size);
	/* Pairs with the fence of the owner: it moves `reserved` before it overwrites. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&reader->head->reserved, memory_order_relaxed) - reader->position >
	    VB_CAPTURE_RING) {
		skip(reader);
		return 0;
	}
	count = hand_out(reader, reader->copy, size, each, arg);
	if (reader->position != written)
		skip(reader); /* no record: the owner is not what it should be */
	return count;
}

uint64_t vb_capture_lost(const struct vb_capture_reader *reader)
{
	/* The count first: a record that comes between the loads is not lost. */
	const uint64_t packets = atomic_load_explicit(&reader->head->packets, memory_order_acquire);
	const uint64_t written = atomic_load_explicit(&reader->head->written, memory_order_acquire);
	const uint64_t busy = atomic_load_explicit(&reader->head->lost, memory_order_relaxed);
	uint64_t lost = reader->overwritten + busy - reader->busy;

	if (reader->position == written && packets > reader->number)
		lost += packets - reader->number; /* behind the last record that was read */
	return lost;
}

uint64_t vb_capture_stations_lost(const struct vb_capture_reader *reader)
{
	const uint64_t stations =
		atomic_load_explicit(&reader->head->stations, memory_order_acquire);
	const uint64_t written = atomic_load_explicit(&reader->head->written, memory_order_acquire);
	const uint64_t busy =
		atomic_load_explicit(&reader->head->stations_lost, memory_order_relaxed);
	uint64_t lost = reader->stations_overwritten + busy - reader->stations_busy;

	/* The reader may be ahead of the count, which is moved last. */
	if (reader->position == written && (int32_t)(stations - reader->stations) > 0)
		lost += (uint32_t)(stations - reader->stations); /* behind the last record */
	return lost;
}
