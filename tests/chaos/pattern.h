/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that prove themselves. Each starts with a stamp (who sent it, which one it is, how long
 * it is) and goes on with bytes that follow from the stamp: a torn, foreign, old or repeated
 * message cannot pass for the right one.
 */
#ifndef CHAOS_PATTERN_H
#define CHAOS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stamp {
	uint32_t tag; /* the sender: round, role and lane */
	uint32_t seq; /* counts the messages of that sender from 0 */
	uint32_t length;
	uint32_t check; /* of the three above */
};

enum { MESSAGE_MIN = sizeof(struct stamp) };

void message_fill(void *buffer, uint32_t length, uint32_t tag, uint32_t seq);

/* NULL, and the seq, if these are all bytes of a message of that sender; else what is wrong. */
const char *message_fault(const void *buffer, uint32_t length, uint32_t tag, uint32_t *seq);

/* Bytes of an endless stream, from an offset that is a multiple of 8. */
void stream_fill(void *buffer, size_t offset, size_t length, uint64_t key);
bool stream_right(const void *buffer, size_t offset, size_t length, uint64_t key);

#endif
