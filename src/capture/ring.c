/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/annotate.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/spin.h"
#include "shm/segment.h"

enum {
	PATIENCE = 2000, /* looks at a busy ring: some 100 us */
	YIELDS = 20000,  /* of a thread that has a station, behind that */
};

_Atomic uint32_t vb_capture_wants;

/* One per process. The owner believes only this, and nothing that lies in the ring. */
static struct {
	struct vb_capture_ring_head *head; /* mapped, for writing */
	uint8_t *data;                     /* the same, twice in a row */
	int fd, reader_fd;                 /* reader_fd: for reading only */
	struct vb_spin lock;               /* for the rest */
	uint64_t position, number, size;   /* size: of the record that is being written */
	uint64_t stations;
} ring = { .fd = -1, .reader_fd = -1 };

static int file_make(void)
{
	const uint64_t size = VB_CAPTURE_HEAD + VB_CAPTURE_RING;
	char path[40];

	ring.fd = vb_fd_high(memfd_create("verbena-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (ring.fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ring.fd);
	if (vb_truncate_quietly(ring.fd, size))
		return -ENOSPC;
	if (fcntl(ring.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
	    fchmod(ring.fd, 0400))
		return -errno;
	ring.reader_fd = vb_fd_high(open(path, O_RDONLY | O_CLOEXEC));
	return ring.reader_fd < 0 ? -errno : 0;
}

static void *map_at(void *at, size_t size, off_t offset)
{
	void *map = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0),
			 ring.fd, offset);

	return map == MAP_FAILED ? NULL : map;
}

static int file_map(void)
{
	uint8_t *space = mmap(NULL, 2 * (size_t)VB_CAPTURE_RING, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (space == MAP_FAILED)
		return -ENOMEM;
	ring.head = map_at(NULL, VB_CAPTURE_HEAD, 0);
	if (!ring.head || !map_at(space, VB_CAPTURE_RING, VB_CAPTURE_HEAD) ||
	    !map_at(space + VB_CAPTURE_RING, VB_CAPTURE_RING, VB_CAPTURE_HEAD)) {
		munmap(space, 2 * (size_t)VB_CAPTURE_RING);
		if (ring.head)
			munmap(ring.head, VB_CAPTURE_HEAD);
		ring.head = NULL;
		return -ENOMEM;
	}
	madvise(ring.head, VB_CAPTURE_HEAD, MADV_DONTFORK);
	madvise(space, 2 * (size_t)VB_CAPTURE_RING, MADV_DONTFORK);
	madvise(space, 2 * (size_t)VB_CAPTURE_RING, MADV_DONTDUMP);
	ring.data = space;
	return 0;
}

static int ring_make(void)
{
	int err = file_make();

	if (!err)
		err = file_map();
	if (err) {
		vb_fd_close(&ring.fd);
		vb_fd_close(&ring.reader_fd);
		return err;
	}
	ring.head->magic = VB_CAPTURE_MAGIC;
	ring.head->version = VB_CAPTURE_VERSION;
	ring.head->ring = VB_CAPTURE_RING;
	return 0;
}

/* The places where a program posts and polls ask for tools only: a trace is one of them. */
static void tools_tell(unsigned wants)
{
	if (wants & VB_WANT_STATIONS)
		atomic_fetch_or(&vb_tools, VB_TOOL_TRACE);
	else
		atomic_fetch_and(&vb_tools, ~(unsigned)VB_TOOL_TRACE);
}

int vb_capture_start(unsigned wants, uint32_t bytes)
{
	int err = ring.data ? 0 : ring_make();

	if (err)
		return err;
	/* A thread that finds the capture on takes this lock before it looks at the ring. */
	vb_spin_lock(&ring.lock);
	vb_spin_unlock(&ring.lock);
	atomic_store(&vb_capture_wants, bytes << VB_CAPTURE_BYTES_SHIFT | wants);
	tools_tell(wants);
	return ring.reader_fd;
}

void vb_capture_place(struct vb_capture_answer *answer)
{
	vb_spin_lock(&ring.lock);
	answer->position = ring.position;
	answer->number = ring.number;
	answer->station = (uint32_t)ring.stations;
	vb_spin_unlock(&ring.lock);
}

/* A thread may still write a record: its pages come back, and hold a few KB. */
void vb_capture_stop(void)
{
	atomic_store(&vb_capture_wants, 0);
	tools_tell(0);
	if (ring.fd >= 0)
		(void)fallocate(ring.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				VB_CAPTURE_HEAD, VB_CAPTURE_RING);
}

/* The maps are not in the child. */
void vb_capture_forget(void)
{
	atomic_store(&vb_capture_wants, 0);
	tools_tell(0);
	vb_fd_close(&ring.fd);
	vb_fd_close(&ring.reader_fd);
	ring.head = NULL;
	ring.data = NULL;
	ring.position = ring.number = ring.stations = 0;
	atomic_store(&ring.lock.held, 0);
}

/* The holder may have lost its CPU. No packet waits for that. A station does for a while: without
 * it the story of a work request has a hole. */
static bool lock_try(bool station)
{
	for (unsigned turn = 0; turn < PATIENCE; turn++) {
		if (vb_spin_try(&ring.lock))
			return true;
		vb_cpu_relax();
	}
	for (unsigned turn = 0; station && turn < YIELDS; turn++) {
		sched_yield();
		if (vb_spin_try(&ring.lock))
			return true;
	}
	return false;
}

void *vb_capture_begin(enum vb_capture_kind kind, size_t size, uint32_t packets, uint64_t time_ns)
{
	struct vb_capture_head *record;

	if (!lock_try(kind == VB_CAPTURE_STATION)) {
		if (ring.head)
			atomic_fetch_add_explicit(
				kind == VB_CAPTURE_STATION ? &ring.head->stations_lost
							   : &ring.head->lost,
				kind == VB_CAPTURE_STATION ? 1 : packets, memory_order_relaxed);
		return NULL;
	}
	if (!ring.data) { /* a child of fork */
		vb_spin_unlock(&ring.lock);
		return NULL;
	}
	ring.size = (size + 7) & ~(size_t)7;
	/* The reader's look at reserved comes after its copy: pairs with the fence there. */
	atomic_store_explicit(&ring.head->reserved, ring.position + ring.size,
			      memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	record = (void *)(ring.data + ring.position % VB_CAPTURE_RING);
	*record = (struct vb_capture_head){ .position = ring.position,
					    .number = ring.number,
					    .time_ns = time_ns,
					    .size = (uint32_t)ring.size,
					    .packets = packets,
					    .kind = (uint16_t)kind,
					    .station = (uint32_t)ring.stations };
	ring.number += packets;
	ring.stations += kind == VB_CAPTURE_STATION;
	return record;
}

void vb_capture_end(void)
{
	ring.position += ring.size;
	/* Pairs with the acquire load of the reader. */
	atomic_store_explicit(&ring.head->written, ring.position, memory_order_release);
	/* Pair with the loads before that of `written`: what is counted is written. */
	atomic_store_explicit(&ring.head->packets, ring.number, memory_order_release);
	atomic_store_explicit(&ring.head->stations, ring.stations, memory_order_release);
	vb_spin_unlock(&ring.lock);
}

void vb_capture_station(const struct vb_capture_station *station)
{
	const size_t head = sizeof(struct vb_capture_head);
	void *record;

	if (!vb_captures(VB_WANT_STATIONS))
		return;
	record = vb_capture_begin(VB_CAPTURE_STATION, sizeof(*station), 0, vb_now_ns());
	if (!record)
		return;
	memcpy((char *)record + head, (const char *)station + head, sizeof(*station) - head);
	vb_capture_end();
}

void vb_capture_tell(enum vb_capture_kind kind, const struct vb_capture_note *note,
		     const char *sentence)
{
	const size_t text = sentence ? strnlen(sentence, VB_CAPTURE_TEXT) : 0;
	struct vb_capture_note *record = vb_capture_begin(kind, sizeof(*note) + text, 0, 0);

	if (!record)
		return;
	memcpy((char *)record + sizeof(record->head), (const char *)note + sizeof(note->head),
	       sizeof(*note) - sizeof(note->head));
	record->head.text = (uint16_t)text;
	if (text)
		memcpy(record + 1, sentence, text);
	vb_capture_end();
}
