/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sums over buffers: a CRC of 64 bits. It shows each change of up to eight bytes, and of others all
 * but one in 2^64.
 *
 * Reading a long buffer twice takes longer than sending it. So all bytes are summed of the first
 * long buffers of a queue, and later of one in 64, by chance: a program may use its buffers in
 * turn. Of the others the first and the last bytes are summed.
 *
 * Of a receive buffer, the bytes behind the message must be as they were at the post. The length of
 * the message is not known then: so there are sums of parts, each longer than the one before it.
 */
#include <isa-l/crc64.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "check/check.h"

enum { LONG = 4096, EDGE = 512, WHOLE_FIRST = 256, WHOLE_ONE_IN = 64 };

/*
 * The widest versions of ISA-L leave the upper halves of the vector registers in use, and all SSE
 * instructions of the program wait for them then.
 */
#if defined(__x86_64__)
__attribute__((target("avx"))) static void zero_upper_halves(void)
{
	_mm256_zeroupper();
}

static void clear_upper_halves(void)
{
	if (__builtin_cpu_supports("avx"))
		zero_upper_halves();
}
#else
static void clear_upper_halves(void)
{
}
#endif

/* The bytes [from, to) of the buffer. */
static uint64_t sum_bytes(uint64_t sum, const struct vb_work *work, uint64_t from, uint64_t to)
{
	const struct vb_piece *piece = vb_work_pieces((struct vb_work *)work);
	uint64_t at = 0;

	for (uint16_t i = 0; i < work->piece_count && at < to; i++, piece++) {
		const uint64_t length = piece->range->length;
		const uint64_t first = from > at ? from - at : 0;
		const uint64_t last = to - at < length ? to - at : length;

		if (first < last)
			sum = crc64_jones_refl(
				sum, (const uint8_t *)(uintptr_t)(piece->range->addr + first),
				last - first);
		at += length;
	}
	return sum;
}

/* Under the lock. */
static bool takes_whole(struct vb_queue *queue, uint64_t length)
{
	static uint32_t chance = 2463534242u;

	if (length <= LONG || queue->long_count++ < WHOLE_FIRST)
		return true;
	chance ^= chance << 13;
	chance ^= chance >> 17;
	chance ^= chance << 5;
	return chance % WHOLE_ONE_IN == 0;
}

/* --- sends --- */

static uint64_t sum_send(const struct vb_work *work)
{
	uint64_t sum = sum_bytes(0, work, 0, work->whole ? work->length : EDGE);

	if (!work->whole)
		sum = sum_bytes(sum, work, work->length - EDGE, work->length);
	clear_upper_halves();
	return sum;
}

void vb_sum_send(struct vb_queue *queue, struct vb_work *work)
{
	work->whole = takes_whole(queue, work->length);
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
	static const uint64_t cuts[VB_SUMS + 1] = { 0, 64, EDGE, 8 * EDGE, 64 * EDGE, UINT64_MAX };

	*from = cuts[part];
	*to = cuts[part + 1] < work->length ? cuts[part + 1] : work->length;
	if (!work->whole && part == VB_SUMS - 1)
		*from = work->length - EDGE;
	return *from < *to && (work->whole || part < 2 || part == VB_SUMS - 1);
}

void vb_sum_receive(struct vb_queue *queue, struct vb_work *work)
{
	uint64_t from, to;

	work->whole = takes_whole(queue, work->length);
	for (int i = 0; i < VB_SUMS; i++)
		if (part_of(work, i, &from, &to))
			work->sum[i] = sum_bytes(0, work, from, to);
	clear_upper_halves();
	work->summed = true;
}

bool vb_sum_receive_same(const struct vb_work *work, uint64_t filled)
{
	uint64_t from, to;
	bool same = true;

	for (int i = 0; i < VB_SUMS && same; i++)
		if (part_of(work, i, &from, &to) && from >= filled)
			same = sum_bytes(0, work, from, to) == work->sum[i];
	clear_upper_halves();
	return same;
}
