/* SPDX-License-Identifier: BSD-2-Clause */
/* One direction of an impaired link: frames in, their fates, frames out. */
#ifndef NET_RELAY_H
#define NET_RELAY_H

#include <stdbool.h>
#include <stdio.h>

#include "delay_line.h"
#include "fate.h"

enum { HELD_MAX = 64, FRAME_MAX = 65600 };

struct relay_counts {
	uint64_t frames, bytes, subject; /* subject: of a kind that is impaired */
	uint64_t lost, duplicated, reordered, corrupted, tampered, delayed;
	uint64_t partitioned; /* of any kind, while the link was cut */
	uint64_t overflowed;  /* the delay line was full */
	uint64_t refused;     /* the other end did not take it: its interface is down */
	uint64_t delivered;   /* duplicates included */
};

/* A reordered frame waits here until enough others have passed it, or for a moment. */
struct held {
	uint32_t overtakers; /* still to come */
	uint64_t due_ns, index;
	uint32_t delay_us;
	size_t length;
	uint8_t *bytes; /* owned; NULL: free */
};

struct relay {
	enum direction direction;
	int in, out; /* taps; not owned */
	unsigned kinds;
	uint64_t seed;
	struct fate_odds odds;
	uint64_t rate_bps,
		rate_free_ns; /* when the link has sent what it was given; 0 bps: no limit */
	bool partitioned;
	struct delay_line line;
	struct held held[HELD_MAX];
	unsigned held_count;
	struct relay_counts counts;
	FILE *log; /* a line per fate that is not plain delivery; or NULL */
};

int relay_open(struct relay *relay, size_t queue_frames);
void relay_close(struct relay *relay);

/* Reads up to budget frames; how many there were, or -errno. */
int relay_pull(struct relay *relay, uint64_t now_ns, unsigned budget);

/* One frame, as if it had been read. May change its bytes. */
void relay_take(struct relay *relay, uint8_t *frame, size_t length, uint64_t now_ns);

/* Sends what is due. */
void relay_release(struct relay *relay, uint64_t now_ns);
uint64_t relay_next_ns(const struct relay *relay);

void relay_print(const struct relay *relay, FILE *file);

#endif
