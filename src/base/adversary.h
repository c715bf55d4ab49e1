/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adversary: a NIC that uses every freedom that the specification leaves, as VERBENA_ADVERSARY
 * says. This file decides, and remembers what was done; the places that know what is free carry it
 * out. A decision depends on the seed, the deed, the object and the count of such decisions about
 * the object, and on nothing else. verbena-adversary(7) describes the deeds.
 */
#ifndef VB_BASE_ADVERSARY_H
#define VB_BASE_ADVERSARY_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum vb_deed {
	VB_DEED_SEND_LATE,       /* a work request is executed long after its post */
	VB_DEED_QUIET_LATE,      /* the same for one without a completion, which nobody awaits */
	VB_DEED_COMPLETION_LATE, /* a work request is done, and completes later */
	VB_DEED_POLL_EMPTY,      /* completions hide from polls, and come in bunches */
	VB_DEED_POST_SLOW,       /* a post returns late: its thread has lost its CPU */
	VB_DEED_EVENT_LATE,      /* one event for the completions of some time */
	VB_DEED_EVENT_EXTRA,     /* an event for completions that were there before the arm */
	VB_DEED_WRITE_SHARDS,    /* bytes become visible in pieces, out of order */
	VB_DEED_READ_SHARDS,     /* bytes are read in pieces, out of order */
	VB_DEED_ATOMIC_GAP,      /* time passes between the load and the store of an atomic */
	VB_DEED_ATOMIC_BUSY,     /* another atomic is under way */
	VB_DEED_PACKET_LOST,
	VB_DEED_PACKET_TWICE,
	VB_DEED_PACKET_OVERTAKEN,
	VB_DEED_PACKET_LATE,
	VB_DEED_ACK_LATE,
	VB_DEED_COUNT
};

extern _Atomic bool vb_adversary_in_force; /* read by vb_adversary_on only */

/* True: the adversary is in force. One load; without it no function below needs a call. */
static inline bool vb_adversary_on(void)
{
	return __builtin_expect(atomic_load_explicit(&vb_adversary_in_force, memory_order_relaxed),
				0);
}

/* Reads VERBENA_ADVERSARY, once. -EINVAL, and a line on standard error: its value is no seed. */
int vb_adversary_load(void);
/* For tests: in force, or not, with this seed. */
void vb_adversary_set(bool on, uint64_t seed);
/* Reads a seed; false: the text is none. */
static inline bool vb_adversary_parse(const char *text, uint64_t *number)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return !*end && !errno;
}

uint64_t vb_adversary_seed(void);

/*
 * True: the deed is done to the object this time, and *bits are random. Deeds become rare as count
 * grows, so that long programs end.
 */
bool vb_adversary_draws(enum vb_deed deed, uint64_t object, uint64_t count, uint64_t *bits);
/* The same with a count of its own, for objects without one: 64 counts per deed, by the object. */
bool vb_adversary_draws_next(enum vb_deed deed, uint64_t object, uint64_t *bits);
/* A QP is new: its place among the QPs of the process stands for it, as its number is drawn. */
void vb_adversary_meets(uint32_t qpn);
uint64_t vb_adversary_place(uint32_t qpn);
/* A time from bits: mostly some 100 us, now and then up to most_ns. */
uint64_t vb_adversary_time_ns(uint64_t bits, uint64_t most_ns);
/* Other random bits that follow from these. */
uint64_t vb_adversary_more(uint64_t bits);

/* Lets time pass. Not a cancellation point. */
void vb_adversary_pause(uint64_t ns);

/* --- adversary_report.c --- */

/* Remembers a deed, as a sentence without its end; qpn 0: no QP, which then names no work request
 * either. */
void vb_adversary_note(enum vb_deed deed, uint32_t qpn, uint64_t wr_id, const char *format, ...)
	__attribute__((format(printf, 4, 5), cold));
/* Says on standard error what was done last, and the command that does it again. */
void vb_adversary_report(const char *why);
/* The same at most once: for the first bad completion. */
void vb_adversary_report_once(const char *why);
/* From now on a program that fails, or ends by a signal that it does not handle, is reported on. */
void vb_adversary_watch_end(void);

#endif
