/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/adversary.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/environment.h"
#include "base/once.h"

enum {
	CHANCE_ONE = 1 << 16,
	OFTEN = 256,     /* so many decisions about an object are taken with the full chance ... */
	AT_TIMES = 4096, /* ... those up to here with an eighth ... */
	SELDOM = 65536,  /* ... those up to here with a 64th, later ones with a 512th */
	COUNTS = 64,
	PLACE_BITS = 12, /* of a QP number: the rest tells the process */
};

_Atomic bool vb_adversary_in_force;

static uint64_t seed;

/* Out of CHANCE_ONE. */
static const uint32_t chances[VB_DEED_COUNT] = {
	[VB_DEED_SEND_LATE] = CHANCE_ONE / 4,       [VB_DEED_QUIET_LATE] = CHANCE_ONE / 2,
	[VB_DEED_COMPLETION_LATE] = CHANCE_ONE / 5, [VB_DEED_POLL_EMPTY] = CHANCE_ONE / 4,
	[VB_DEED_POST_SLOW] = CHANCE_ONE / 8,       [VB_DEED_EVENT_LATE] = CHANCE_ONE / 2,
	[VB_DEED_EVENT_EXTRA] = CHANCE_ONE / 3,     [VB_DEED_WRITE_SHARDS] = CHANCE_ONE / 4,
	[VB_DEED_READ_SHARDS] = CHANCE_ONE / 4,     [VB_DEED_ATOMIC_GAP] = CHANCE_ONE / 3,
	[VB_DEED_ATOMIC_BUSY] = CHANCE_ONE / 8,     [VB_DEED_PACKET_LOST] = CHANCE_ONE / 64,
	[VB_DEED_PACKET_TWICE] = CHANCE_ONE / 32,   [VB_DEED_PACKET_OVERTAKEN] = CHANCE_ONE / 24,
	[VB_DEED_PACKET_LATE] = CHANCE_ONE / 24,    [VB_DEED_ACK_LATE] = CHANCE_ONE / 6,
};

/* --- decisions --- */

/* Random bits that depend on the two numbers alone (the finalizer of splitmix64). */
static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = a + b * 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Each seed has a style of its own: it does some things often and others hardly ever. A mixture of
 * all at once hides what each of them shows. */
static uint32_t chance_of(enum vb_deed deed)
{
	static const uint8_t quarters[8] = { 1, 1, 2, 4, 4, 4, 8, 12 };
	const uint64_t chance = (uint64_t)chances[deed] * quarters[mix(~seed, deed) & 7] / 4;

	return chance < CHANCE_ONE ? (uint32_t)chance : CHANCE_ONE;
}

static unsigned rarer(uint64_t count)
{
	return count < OFTEN ? 0 : count < AT_TIMES ? 3 : count < SELDOM ? 6 : 9;
}

bool vb_adversary_draws(enum vb_deed deed, uint64_t object, uint64_t count, uint64_t *bits)
{
	const uint64_t drawn = mix(mix(mix(seed, deed), object), count);

	*bits = vb_adversary_more(drawn);
	return (drawn & (CHANCE_ONE - 1)) < chance_of(deed) >> rarer(count);
}

bool vb_adversary_draws_next(enum vb_deed deed, uint64_t object, uint64_t *bits)
{
	static _Atomic uint64_t counts[VB_DEED_COUNT][COUNTS];
	const uint64_t count =
		atomic_fetch_add_explicit(&counts[deed][object % COUNTS], 1, memory_order_relaxed);

	return vb_adversary_draws(deed, object, count, bits);
}

/* Of QPs whose numbers end alike the last one counts. */
static _Atomic uint32_t places[1 << PLACE_BITS];

void vb_adversary_meets(uint32_t qpn)
{
	static _Atomic uint32_t count;

	atomic_store(&places[qpn & ((1 << PLACE_BITS) - 1)], atomic_fetch_add(&count, 1) + 1);
}

uint64_t vb_adversary_place(uint32_t qpn)
{
	return atomic_load_explicit(&places[qpn & ((1 << PLACE_BITS) - 1)], memory_order_relaxed);
}

uint64_t vb_adversary_more(uint64_t bits)
{
	return mix(bits, 1);
}

uint64_t vb_adversary_time_ns(uint64_t bits, uint64_t most_ns)
{
	static const uint8_t parts[8] = { 64, 32, 32, 16, 16, 8, 4, 1 };
	const uint64_t top_ns = most_ns / parts[bits & 7];

	return top_ns / 4 + (bits >> 3) % (top_ns - top_ns / 4 + 1);
}

void vb_adversary_pause(uint64_t ns)
{
	const struct timespec time = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
	const int saved_errno = errno;

	syscall(SYS_nanosleep, &time, NULL);
	errno = saved_errno;
}

/* --- the seed --- */

uint64_t vb_adversary_seed(void)
{
	return seed;
}

void vb_adversary_set(bool on, uint64_t number)
{
	seed = number;
	atomic_store(&vb_adversary_in_force, on);
}

static int load(void)
{
	const char *text = vb_environment_text(VB_ENV_ADVERSARY);
	uint64_t number;

	if (!text)
		return 0;
	if (!vb_adversary_parse(text, &number))
		return vb_config_refuse(vb_environment_rows[VB_ENV_ADVERSARY].name,
					"a seed is a decimal number below 2^64");
	vb_adversary_watch_end();
	vb_adversary_set(true, number);
	return 0;
}

int vb_adversary_load(void)
{
	static struct vb_once once = VB_ONCE_INIT;

	return vb_once_load(&once, load);
}
