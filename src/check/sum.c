/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sums over buffers, at the speed of the cache. A sum shows each change within eight aligned bytes,
 * and of others all but a few in 2^64.
 *
 * Reading a long buffer twice takes as long as sending it. So all bytes are summed of the first
 * long buffers of a queue only. Of a later send the first and the last bytes are summed, and a
 * window somewhere between, by chance: a small change in the middle shows when it happens again. Of
 * later receives one in 256 is summed wholly, by chance as well: a program may use its buffers in
 * turn.
 *
 * Of a receive buffer, the bytes behind the message must be as they were at the post. The length of
 * the message is not known then: so there are sums of parts, each longer than the one before it.
 */
#include <string.h>

#include "check/check.h"

enum { LONG = 4096, HEAD = 128, TAIL = 64 };
enum { WHOLE_FIRST = 64, WINDOW = 512, WHOLE_RECEIVES = 256 };

/* --- the sum of some bytes --- */

typedef uint64_t lanes __attribute__((vector_size(32)));

enum { WIDTH = sizeof(lanes), BLOCK = 2048 };

struct sum {
	lanes a, b, c, d;
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* A turn is undone by no other bytes at the same place. */
ALWAYS_INLINE void take(lanes *sum, const uint8_t *bytes)
{
	lanes next;

	memcpy(&next, bytes, WIDTH);
	*sum = (*sum << 13 | *sum >> 51) + next;
}

/* 64 turns are none: equal changes of all bytes would cancel each other. This comes before. */
ALWAYS_INLINE void stir(lanes *sum)
{
	*sum = (*sum ^ *sum >> 29) * 0x9e3779b97f4a7c15u;
}

/* Up to BLOCK bytes. */
ALWAYS_INLINE void add_block(struct sum *sum, const uint8_t *bytes, uint64_t length)
{
	struct sum s = *sum;
	uint8_t rest[WIDTH] = { 0 };

	for (; length >= sizeof(s); bytes += sizeof(s), length -= sizeof(s)) {
		take(&s.a, bytes);
		take(&s.b, bytes + WIDTH);
		take(&s.c, bytes + 2 * WIDTH);
		take(&s.d, bytes + 3 * WIDTH);
	}
	for (; length >= WIDTH; bytes += WIDTH, length -= WIDTH)
		take(&s.a, bytes);
	if (length) {
		memcpy(rest, bytes, length);
		rest[WIDTH - 1] ^= (uint8_t)length;
		take(&s.b, rest);
	}
	*sum = s;
}

ALWAYS_INLINE void stir_all(struct sum *sum)
{
	stir(&sum->a);
	stir(&sum->b);
	stir(&sum->c);
	stir(&sum->d);
}

ALWAYS_INLINE void add_all(struct sum *sum, const uint8_t *bytes, uint64_t length)
{
	for (; length > BLOCK; bytes += BLOCK, length -= BLOCK) {
		add_block(sum, bytes, BLOCK);
		stir_all(sum);
	}
	add_block(sum, bytes, length);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void add_avx2(struct sum *sum, const uint8_t *bytes,
						     uint64_t length)
{
	add_all(sum, bytes, length);
}
#endif

static void add_memory(struct sum *sum, const uint8_t *bytes, uint64_t length)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2")) {
		add_avx2(sum, bytes, length);
		return;
	}
#endif
	add_all(sum, bytes, length);
}

static uint64_t folded(struct sum *sum)
{
	uint64_t whole = 0;

	stir_all(sum);
	sum->a += sum->c;
	sum->b += sum->d;
	stir(&sum->a);
	sum->a += sum->b;
	for (unsigned i = 0; i < WIDTH / sizeof(uint64_t); i++) {
		whole = (whole ^ sum->a[i]) * 0xd6e8feb86659fd93u;
		whole ^= whole >> 32;
	}
	return whole;
}

/* --- the sum of a buffer --- */

static const struct sum NOTHING = { { 1 }, { 2 }, { 3 }, { 4 } };

/* The bytes [from, to) of the buffer. */
static void add_bytes(struct sum *sum, const struct vb_work *work, uint64_t from, uint64_t to)
{
	const struct vb_piece *piece = vb_work_pieces((struct vb_work *)work);
	uint64_t at = 0;

	for (uint16_t i = 0; i < work->piece_count && at < to; i++, piece++) {
		const uint64_t length = piece->range->length;
		const uint64_t first = from > at ? from - at : 0;
		const uint64_t last = to - at < length ? to - at : length;

		if (first < last)
			add_memory(sum, (const uint8_t *)(uintptr_t)(piece->range->addr + first),
				   last - first);
		at += length;
	}
}

static uint64_t sum_bytes(const struct vb_work *work, uint64_t from, uint64_t to)
{
	struct sum sum = NOTHING;

	add_bytes(&sum, work, from, to);
	return folded(&sum);
}

/* Under the lock. */
static uint32_t draw(void)
{
	static uint32_t chance = 2463534242u;

	chance ^= chance << 13;
	chance ^= chance >> 17;
	chance ^= chance << 5;
	return chance;
}

static bool is_early(struct vb_queue *queue, uint64_t length)
{
	return length <= LONG || queue->long_count++ < WHOLE_FIRST;
}

/* --- sends --- */

static uint64_t sum_send(const struct vb_work *work)
{
	struct sum sum = NOTHING;

	if (work->whole)
		return sum_bytes(work, 0, work->length);
	add_bytes(&sum, work, 0, HEAD);
	add_bytes(&sum, work, work->window, work->window + WINDOW);
	add_bytes(&sum, work, work->length - TAIL, work->length);
	return folded(&sum);
}

void vb_sum_send(struct vb_queue *queue, struct vb_work *work)
{
	work->whole = is_early(queue, work->length);
	work->window = work->whole ? 0 : draw() % (work->length - WINDOW + 1);
	work->sum[0] = sum_send(work);
	work->summed = true;
}

bool vb_sum_send_same(const struct vb_work *work)
{
	return sum_send(work) == work->sum[0];
}

/* --- receives --- */

/* The part with this number, as [from, to). Of a buffer that is not summed wholly, two edges. */
static bool part_of(const struct vb_work *work, int part, uint64_t *from, uint64_t *to)
{
	static const uint64_t cuts[VB_SUMS + 1] = { 0, 64, 512, 4096, 32768, UINT64_MAX };

	*from = cuts[part];
	*to = cuts[part + 1] < work->length ? cuts[part + 1] : work->length;
	if (!work->whole && part == VB_SUMS - 1)
		*from = work->length - TAIL;
	return *from < *to && (work->whole || !part || part == VB_SUMS - 1);
}

void vb_sum_receive(struct vb_queue *queue, struct vb_work *work)
{
	uint64_t from, to;

	work->whole = is_early(queue, work->length) || draw() % WHOLE_RECEIVES == 0;
	for (int i = 0; i < VB_SUMS; i++)
		if (part_of(work, i, &from, &to))
			work->sum[i] = sum_bytes(work, from, to);
	work->summed = true;
}

bool vb_sum_receive_same(const struct vb_work *work, uint64_t filled)
{
	uint64_t from, to;
	bool same = true;

	for (int i = 0; i < VB_SUMS && same; i++)
		if (part_of(work, i, &from, &to) && from >= filled)
			same = sum_bytes(work, from, to) == work->sum[i];
	return same;
}
