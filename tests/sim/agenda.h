/* SPDX-License-Identifier: BSD-2-Clause */
/* What is going to happen in a world: a heap of events by time, and by age at one time. */
#ifndef VB_TESTS_SIM_AGENDA_H
#define VB_TESTS_SIM_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

struct event {
	uint64_t at_ns, order;
	unsigned kind, action; /* what they mean is the world's */
	void *subject;
};

struct agenda {
	struct event *heap; /* owned */
	unsigned count, room;
	uint64_t order; /* of the next one */
};

void agenda_add(struct agenda *agenda, uint64_t at_ns, unsigned kind, unsigned action,
		void *subject);
/* False: nothing is going to happen. */
bool agenda_next(const struct agenda *agenda, uint64_t *at_ns);
/* There must be one. */
struct event agenda_pop(struct agenda *agenda);
void agenda_fini(struct agenda *agenda);

#endif
