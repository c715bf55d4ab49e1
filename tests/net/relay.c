/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frame.h"

enum { HOLD_NS_MAX = 5000000 };

int relay_open(struct relay *relay, size_t queue_frames)
{
	return delay_line_open(&relay->line, queue_frames);
}

void relay_close(struct relay *relay)
{
	for (unsigned i = 0; i < HELD_MAX; i++)
		free(relay->held[i].bytes);
	delay_line_close(&relay->line);
}

static void deliver(struct relay *relay, const uint8_t *frame, size_t length)
{
	ssize_t sent = write(relay->out, frame, length);

	if (sent == (ssize_t)length)
		relay->counts.delivered++;
	else
		relay->counts.refused++;
}

/* When this frame has crossed the link: the rate first, then the delay. */
static uint64_t due_ns(struct relay *relay, size_t length, uint32_t delay_us, uint64_t now_ns)
{
	uint64_t sent_ns = now_ns;

	if (relay->rate_bps) {
		if (relay->rate_free_ns > sent_ns)
			sent_ns = relay->rate_free_ns;
		sent_ns += length * 8 * 1000000000ull / relay->rate_bps;
		relay->rate_free_ns = sent_ns;
	}
	return sent_ns + delay_us * 1000ull;
}

static void launch(struct relay *relay, const uint8_t *frame, size_t length, uint32_t delay_us,
		   uint64_t now_ns)
{
	uint64_t at_ns;

	if (!relay->rate_bps && !delay_us && !relay->line.count) {
		deliver(relay, frame, length);
		return;
	}
	/* Looked at before the rate is charged: a frame that finds no room takes no time. */
	if (relay->line.count == relay->line.capacity) {
		relay->counts.overflowed++;
		return;
	}
	at_ns = due_ns(relay, length, delay_us, now_ns);
	if (delay_line_put(&relay->line, frame, length, at_ns))
		relay->counts.delayed++;
	else
		relay->counts.overflowed++;
}

static bool hold(struct relay *relay, const uint8_t *frame, size_t length, const struct fate *fate,
		 uint64_t now_ns)
{
	struct held *held = relay->held;

	while (held < relay->held + HELD_MAX && held->bytes)
		held++;
	if (held == relay->held + HELD_MAX || !(held->bytes = malloc(length)))
		return false;
	memcpy(held->bytes, frame, length);
	held->length = length;
	held->overtakers = fate->overtakers;
	held->delay_us = fate->delay_us;
	held->due_ns = now_ns + HOLD_NS_MAX;
	held->index = relay->counts.subject;
	relay->held_count++;
	relay->counts.reordered++;
	return true;
}

static void let_go(struct relay *relay, struct held *held, uint64_t now_ns)
{
	launch(relay, held->bytes, held->length, held->delay_us, now_ns);
	free(held->bytes);
	held->bytes = NULL;
	relay->held_count--;
}

/* The oldest first: those that were held together keep their order. */
static struct held *held_ready(struct relay *relay, uint64_t now_ns)
{
	struct held *first = NULL;

	for (struct held *held = relay->held; held < relay->held + HELD_MAX; held++)
		if (held->bytes && (!held->overtakers || held->due_ns <= now_ns) &&
		    (!first || held->index < first->index))
			first = held;
	return first;
}

static void held_release(struct relay *relay, uint64_t now_ns)
{
	struct held *held;

	while (relay->held_count && (held = held_ready(relay, now_ns)))
		let_go(relay, held, now_ns);
}

static void held_overtaken(struct relay *relay)
{
	for (unsigned i = 0; relay->held_count && i < HELD_MAX; i++)
		if (relay->held[i].bytes && relay->held[i].overtakers)
			relay->held[i].overtakers--;
}

static void log_fate(const struct relay *relay, const struct fate *fate)
{
	const char side = "AB"[relay->direction];

	if (!relay->log)
		return;
	if (fate->lost || fate->duplicated || fate->reordered || fate->corrupted || fate->tampered)
		fprintf(relay->log, "%c %" PRIu64 "%s%s%s%s%s\n", side, relay->counts.subject,
			fate->lost ? " lost" : "", fate->duplicated ? " duplicated" : "",
			fate->reordered ? " reordered" : "", fate->corrupted ? " corrupted" : "",
			fate->tampered ? " tampered" : "");
}

static void meet_fate(struct relay *relay, uint8_t *frame, size_t length, uint64_t now_ns)
{
	struct fate fate =
		fate_of(&relay->odds, relay->seed, relay->direction, relay->counts.subject);

	log_fate(relay, &fate);
	relay->counts.subject++;
	if (fate.lost) {
		relay->counts.lost++;
		return;
	}
	if (fate.corrupted && frame_corrupt(frame, length, fate.bit))
		relay->counts.corrupted++;
	else if (fate.tampered && frame_tamper(frame, length, fate.bit))
		relay->counts.tampered++;
	if (fate.reordered && hold(relay, frame, length, &fate, now_ns))
		return;
	launch(relay, frame, length, fate.delay_us, now_ns);
	if (fate.duplicated) {
		relay->counts.duplicated++;
		launch(relay, frame, length, fate.delay_us, now_ns);
	}
	held_overtaken(relay);
	held_release(relay, now_ns);
}

void relay_take(struct relay *relay, uint8_t *frame, size_t length, uint64_t now_ns)
{
	relay->counts.frames++;
	relay->counts.bytes += length;
	if (relay->partitioned)
		relay->counts.partitioned++;
	else if (frame_look(frame, length).kind & relay->kinds)
		meet_fate(relay, frame, length, now_ns);
	else
		deliver(relay, frame, length);
}

int relay_pull(struct relay *relay, uint64_t now_ns, unsigned budget)
{
	static uint8_t frame[FRAME_MAX];
	unsigned taken = 0;

	while (taken < budget) {
		ssize_t length = read(relay->in, frame, sizeof(frame));

		if (length < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (length < 0)
			return -errno;
		relay_take(relay, frame, (size_t)length, now_ns);
		taken++;
	}
	return (int)taken;
}

void relay_release(struct relay *relay, uint64_t now_ns)
{
	struct delayed frame;

	held_release(relay, now_ns);
	while (delay_line_take(&relay->line, now_ns, &frame)) {
		if (relay->partitioned)
			relay->counts.partitioned++;
		else
			deliver(relay, frame.bytes, frame.length);
		free(frame.bytes);
	}
}

uint64_t relay_next_ns(const struct relay *relay)
{
	uint64_t next_ns = delay_line_next_ns(&relay->line);

	for (unsigned i = 0; relay->held_count && i < HELD_MAX; i++)
		if (relay->held[i].bytes && relay->held[i].due_ns < next_ns)
			next_ns = relay->held[i].due_ns;
	return next_ns;
}

void relay_print(const struct relay *relay, FILE *file)
{
	const struct relay_counts *c = &relay->counts;

	fprintf(file,
		"impair %s: frames %" PRIu64 " bytes %" PRIu64 " subject %" PRIu64 " lost %" PRIu64
		" duplicated %" PRIu64 " reordered %" PRIu64 " corrupted %" PRIu64
		" tampered %" PRIu64 " delayed %" PRIu64 " partitioned %" PRIu64
		" overflowed %" PRIu64 " refused %" PRIu64 " delivered %" PRIu64 "\n",
		relay->direction == A_TO_B ? "A->B" : "B->A", c->frames, c->bytes, c->subject,
		c->lost, c->duplicated, c->reordered, c->corrupted, c->tampered, c->delayed,
		c->partitioned, c->overflowed, c->refused, c->delivered);
}
