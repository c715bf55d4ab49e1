/* SPDX-License-Identifier: BSD-2-Clause */
/* Pairs of small programs: one breaks a rule, the other is near it and right. */
#ifndef CHECK_CASES_H
#define CHECK_CASES_H

#include "rig.h"

struct pair {
	const char *name; /* the rule, and what distinguishes the pair from others of it */
	void (*wrong)(struct rig *rig);
	void (*right)(struct rig *rig);
};

#define PAIR(name, functions) name, wrong_##functions, right_##functions

/* Each ends with a pair without a name. */
extern const struct pair buffer_pairs[], memory_pairs[], queue_pairs[], attribute_pairs[],
	section_pairs[];

/* Parts of both sides, which are not what the pair is about. */
int post_send(struct rig *rig, uint64_t wr_id, size_t length, unsigned flags);
int post_send_from(struct rig *rig, uint64_t wr_id, char *at, size_t length, unsigned flags);
int post_recv(struct rig *rig, uint64_t wr_id, char *at, size_t length);

#endif
