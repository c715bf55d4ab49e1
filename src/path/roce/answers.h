/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers of READs and ATOMICs that came before older ones: a bit for each PSN. The bytes are in
 * their place already. The WQE completes once the older answers are there as well.
 */
#ifndef VB_PATH_ROCE_ANSWERS_H
#define VB_PATH_ROCE_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

enum { VB_ANSWERS_AHEAD_MAX = 1 << 16 }; /* PSNs from una_psn to the newest early answer */

struct vb_answers {
	uint64_t *bits;   /* ring by PSN; NULL: no answer was ever early */
	uint32_t size;    /* bits, a power of two */
	uint32_t count;   /* bits that are set */
	uint32_t end_psn; /* with a count: one past the newest */
};

/* Notes an answer that is so many PSNs ahead of una_psn. False: there is no room. */
bool vb_answers_add(struct vb_answers *answers, uint32_t psn, uint32_t una_psn);
/* Takes the note of an answer back; false: there is none. */
bool vb_answers_take(struct vb_answers *answers, uint32_t psn);
bool vb_answers_has(const struct vb_answers *answers, uint32_t psn);
/* Forgets all of them, and gives the memory back. */
void vb_answers_clear(struct vb_answers *answers);

#endif
