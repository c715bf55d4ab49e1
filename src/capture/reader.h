/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader's side of the ring of a capture (record.h). Nothing in the ring is believed. */
#ifndef VB_CAPTURE_READER_H
#define VB_CAPTURE_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "capture/record.h"

struct vb_capture_reader {
	const struct vb_capture_ring_head *head; /* mapped, for reading */
	const uint8_t *data;                     /* the same, twice in a row */
	uint8_t *copy;                           /* VB_CAPTURE_RING bytes; owned */
	uint64_t position;                       /* the next record to read */
	uint64_t number;                         /* packets before it */
	uint64_t overwritten;                    /* packets that came too fast */
	uint64_t busy; /* the owner's count of lost ones at the beginning */
	uint64_t stations, stations_overwritten, stations_busy; /* the same of stations */
};

/* Reading begins where the answer says. 0 or -errno: EPROTO, ENOMEM. */
int vb_capture_open(struct vb_capture_reader *reader, int fd,
		    const struct vb_capture_answer *answer);
void vb_capture_close(struct vb_capture_reader *reader);

/* Called with each record, a copy that is whole: record->size bytes. */
typedef void vb_capture_each(void *arg, const struct vb_capture_head *record);
/* Reads all records that have been written. Returns their number. */
size_t vb_capture_read(struct vb_capture_reader *reader, vb_capture_each *each, void *arg);
/* Packets, or stations, that were lost so far, for whichever reason. */
uint64_t vb_capture_lost(const struct vb_capture_reader *reader);
uint64_t vb_capture_stations_lost(const struct vb_capture_reader *reader);

#endif
