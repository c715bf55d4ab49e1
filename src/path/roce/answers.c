/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/roce/answers.h"

#include <stdlib.h>

#include "wire/packet.h"

enum { SIZE_MIN = 256, WORD = 64 };

static uint64_t *word_of(const struct vb_answers *answers, uint32_t psn)
{
	return &answers->bits[(psn & (answers->size - 1)) / WORD];
}

bool vb_answers_has(const struct vb_answers *answers, uint32_t psn)
{
	return answers->count && *word_of(answers, psn) >> psn % WORD & 1;
}

static void bit_set(struct vb_answers *answers, uint32_t psn)
{
	*word_of(answers, psn) |= 1ull << psn % WORD;
}

/* Makes the ring long enough for all PSNs from una_psn to psn. */
static bool ring_reach(struct vb_answers *answers, uint32_t psn, uint32_t una_psn)
{
	const uint32_t ahead = (uint32_t)vb_psn_diff(psn, una_psn);
	struct vb_answers longer = *answers;

	if (ahead >= VB_ANSWERS_AHEAD_MAX)
		return false;
	if (!longer.size)
		longer.size = SIZE_MIN;
	while (longer.size <= ahead)
		longer.size *= 2;
	if (longer.size == answers->size)
		return true;
	longer.bits = calloc(longer.size / WORD, sizeof(*longer.bits));
	if (!longer.bits)
		return false;
	for (uint32_t i = 0; i < answers->size; i++)
		if (vb_answers_has(answers, vb_psn_add(una_psn, i)))
			bit_set(&longer, vb_psn_add(una_psn, i));
	free(answers->bits);
	*answers = longer;
	return true;
}

bool vb_answers_add(struct vb_answers *answers, uint32_t psn, uint32_t una_psn)
{
	const uint32_t end_psn = vb_psn_add(psn, 1);

	if (!ring_reach(answers, psn, una_psn))
		return false;
	if (!answers->count++ || vb_psn_diff(end_psn, answers->end_psn) > 0)
		answers->end_psn = end_psn;
	bit_set(answers, psn);
	return true;
}

bool vb_answers_take(struct vb_answers *answers, uint32_t psn)
{
	if (!vb_answers_has(answers, psn))
		return false;
	*word_of(answers, psn) &= ~(1ull << psn % WORD);
	answers->count--;
	return true;
}

void vb_answers_clear(struct vb_answers *answers)
{
	free(answers->bits);
	*answers = (struct vb_answers){ 0 };
}
