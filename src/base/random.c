/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/random.h"

#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"

uint64_t vb_random64(void)
{
	uint64_t value;

	if (getrandom(&value, sizeof(value), 0) == (ssize_t)sizeof(value))
		return value;
	/* The call fails under a filter (seccomp): this number is unique, if not secret. */
	return vb_now_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid() << 32 ^ (uintptr_t)&value;
}

/* Newton's iteration doubles the number of right bits each time; 3 are right at the start. */
static uint32_t inverse24(uint32_t odd)
{
	uint32_t inverse = odd;

	for (int i = 0; i < 4; i++)
		inverse *= 2 - odd * inverse;
	return inverse & VB_MASK24;
}

void vb_permutation_init(struct vb_permutation *p, uint64_t seed)
{
	uint64_t other = seed * 0x9e3779b97f4a7c15u ^ seed >> 29;

	p->mask_in = seed & VB_MASK24;
	p->mask_out = (seed >> 24) & VB_MASK24;
	p->factor[0] = (other & VB_MASK24) | 1;
	p->factor[1] = ((other >> 24) & VB_MASK24) | 1;
	for (int i = 0; i < 2; i++)
		p->inverse[i] = inverse24(p->factor[i]);
}
