/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sums over buffers. They must be fast, and a change of any byte must show: lanes of 64 bits, each
 * with the sum of its words and the sum of those sums, so that words that changed places show, too.
 *
 * A sum over a long buffer would take as long as sending it. Of more than 4 KB the sum has the
 * first and the last 512 bytes, and one of 32 lines between them: other lines with each post.
 *
 * Of a receive buffer, the bytes behind the message must be as they were at the post. The length of
 * the message is not known then: so there are sums of parts of the first 512 bytes, and of the
 * last.
 */
#include <string.h>

#include "check/check.h"

typedef uint64_t lanes __attribute__((vector_size(32), aligned(1), may_alias));

enum {
	LANES_BYTES = 2 * sizeof(lanes),
	WHOLE_MAX = 4096,
	EDGE = 512,
	LINE = 64,
	LINES = 32,
	AHEAD = 16
};

static uint64_t fold(lanes sum)
{
	return (sum[0] ^ sum[1] * 3) + (sum[2] ^ sum[3] * 5);
}

uint64_t vb_sum(const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	lanes a = { 0 }, b = { 0 }, aa = { 0 }, bb = { 0 };
	uint64_t rest[LANES_BYTES / sizeof(uint64_t)] = { 0 }, sum = length;

	for (; length >= LANES_BYTES; at += LANES_BYTES, length -= LANES_BYTES) {
		a += *(const lanes *)at;
		b += *(const lanes *)(at + sizeof(lanes));
		aa += a;
		bb += b;
	}
	memcpy(rest, at, length);
	for (size_t i = 0; i < sizeof(rest) / sizeof(*rest); i++)
		sum = (sum ^ rest[i]) * 0x9e3779b97f4a7c15u;
	return sum + (fold(a) + fold(b) * 7 + fold(aa) * 11 + fold(bb) * 13);
}

/* --- sends --- */

/* The lines are far apart: none waits for the one before it. */
static uint64_t sum_lines(const uint8_t *bytes, size_t length, uint64_t phase)
{
	const size_t first = EDGE + phase * LINE, end = length - EDGE, step = LINES * LINE;
	uint64_t sum;

	for (size_t at = first; at < end && at < first + AHEAD * step; at += step)
		__builtin_prefetch(bytes + at);
	sum = vb_sum(bytes, EDGE) * 3 + vb_sum(bytes + end, EDGE);
	for (size_t at = first; at + LINE <= end; at += step) {
		__builtin_prefetch(bytes + at + AHEAD * step);
		sum = sum * 31 + vb_sum(bytes + at, LINE);
	}
	return sum;
}

static uint64_t sum_send(struct vb_work *work, uint64_t phase)
{
	const struct vb_piece *piece = vb_work_pieces(work);
	uint64_t sum = 0;

	for (uint16_t i = 0; i < work->piece_count; i++, piece++) {
		const uint8_t *bytes = (const uint8_t *)(uintptr_t)piece->range->addr;
		const size_t length = piece->range->length;

		sum = sum * 31 + (length <= WHOLE_MAX ? vb_sum(bytes, length)
						      : sum_lines(bytes, length, phase));
	}
	return sum;
}

void vb_sum_send(struct vb_work *work)
{
	static uint64_t phase; /* under the lock */

	work->sum[1] = phase++ % LINES;
	work->sum[0] = sum_send(work, work->sum[1]);
	work->summed = true;
}

bool vb_sum_send_same(const struct vb_work *work)
{
	return sum_send((struct vb_work *)work, work->sum[1]) == work->sum[0];
}

/* --- receives --- */

static uint64_t sum_pieces(struct vb_work *work, uint64_t from, uint64_t to)
{
	const struct vb_piece *piece = vb_work_pieces(work);
	uint64_t sum = 0, at = 0;

	for (uint16_t i = 0; i < work->piece_count && at < to; i++, piece++) {
		const uint64_t length = piece->range->length;
		const uint64_t first = from > at ? from - at : 0;
		const uint64_t last = to - at < length ? to - at : length;

		if (first < last)
			sum = sum * 31 +
			      vb_sum((const void *)(uintptr_t)(piece->range->addr + first),
				     last - first);
		at += length;
	}
	return sum;
}

/* The part with this number, as [from, to). */
static bool part_of(uint64_t length, int part, uint64_t *from, uint64_t *to)
{
	static const uint64_t cuts[VB_SUMS] = { 0, 64, 256, EDGE };

	*from = cuts[part];
	*to = length;
	if (part == VB_SUMS - 1 && length > 2 * EDGE) /* the end */
		*from = length - EDGE;
	else if (part < VB_SUMS - 1 && cuts[part + 1] < length)
		*to = cuts[part + 1];
	return *from < *to;
}

void vb_sum_receive(struct vb_work *work)
{
	uint64_t from, to;

	for (int i = 0; i < VB_SUMS; i++)
		if (part_of(work->length, i, &from, &to))
			work->sum[i] = sum_pieces(work, from, to);
	work->summed = true;
}

bool vb_sum_receive_same(const struct vb_work *work, uint64_t filled)
{
	uint64_t from, to;

	for (int i = 0; i < VB_SUMS; i++)
		if (part_of(work->length, i, &from, &to) && from >= filled &&
		    sum_pieces((struct vb_work *)work, from, to) != work->sum[i])
			return false;
	return true;
}
