/* SPDX-License-Identifier: BSD-2-Clause */
/* The owner's side of the ring of a capture (record.h). */
#ifndef VB_CAPTURE_RING_H
#define VB_CAPTURE_RING_H

#include <stdbool.h>
#include <stddef.h>

#include "capture/record.h"

/* 0: nobody captures or traces. Else enum vb_capture_want, and above it the bytes of payload that
 * a capture wants of each packet. */
extern _Atomic uint32_t vb_capture_wants __attribute__((visibility("hidden")));
enum { VB_CAPTURE_BYTES_SHIFT = 2 };

static inline bool vb_captured(void)
{
	return __builtin_expect(atomic_load_explicit(&vb_capture_wants, memory_order_relaxed), 0);
}

/* Once vb_captured is true. */
static inline bool vb_captures(enum vb_capture_want want)
{
	return atomic_load_explicit(&vb_capture_wants, memory_order_relaxed) & want;
}

static inline uint32_t vb_capture_bytes(void)
{
	return atomic_load_explicit(&vb_capture_wants, memory_order_relaxed) >>
	       VB_CAPTURE_BYTES_SHIFT;
}

/*
 * Begins or changes the capture. The ring is made once, and stays. Returns a descriptor of it for
 * reading only, which the ring keeps, or -errno. One thread at a time.
 */
int vb_capture_start(unsigned wants, uint32_t bytes);
/* The next record, and the packets and stations before it. */
void vb_capture_place(struct vb_capture_answer *answer);
/* Nobody captures any more: the memory is given back. */
void vb_capture_stop(void);
/* In a child of fork: the ring is the parent's. */
void vb_capture_forget(void);

/*
 * Room for a record that stands for some packets; its head is filled in. NULL: the ring is busy,
 * and the packets are counted as lost. size includes everything behind the head; no more than
 * VB_CAPTURE_PAYLOAD plus some KB. Any thread, under any lock; vb_capture_end soon.
 */
void *vb_capture_begin(enum vb_capture_kind kind, size_t size, uint32_t packets, uint64_t time_ns);
void vb_capture_end(void);

/* Writes a station of now, if a program traces. Its head need not be filled in. */
void vb_capture_station(const struct vb_capture_station *station);

/* A note, with a sentence (NULL: none). */
void vb_capture_tell(enum vb_capture_kind kind, const struct vb_capture_note *note,
		     const char *sentence);

#endif
