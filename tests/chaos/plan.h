/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens in one round of chaos_kill: it follows from the seed and the round alone. */
#ifndef CHAOS_PLAN_H
#define CHAOS_PLAN_H

#include "flow.h"

enum role { ROLE_HOST, ROLE_GUEST, ROLES };
enum kind { KIND_RC, KIND_SRQ, KIND_ONESIDED, KIND_UD, KINDS };
enum moment { MOMENT_SPAWN, MOMENT_CONNECTED, MOMENT_FLOWING, MOMENTS };

struct plan {
	uint64_t seed;
	unsigned round;
	enum kind kind;
	enum role victim;
	enum moment moment; /* the kill comes delay_us after this */
	unsigned delay_us;
	bool sends[ROLES];
	bool events[ROLES];
	unsigned lanes, depth;
	uint32_t size_max;
	bool fresh_guest;     /* else the one that has talked to the host before */
	bool finish_by_error; /* the survivor moves its QPs to ERR instead of waiting for a failure
			       */
	char text[160];
};

enum { SRQ_DEPTH = 48, SRQ_SIZE = 4096, UD_DEPTH = 32, UD_SIZE = 1024 };
enum step { STEP_TRAFFIC, STEP_PROBE, STEP_REST };

/* Only rounds of the kind with this name from now on; false if there is none. */
bool plan_only(const char *name);
struct plan plan_make(uint64_t seed, unsigned round);
uint32_t plan_tag(unsigned round, enum step step, enum role role);
struct flow_shape plan_shape(const struct plan *plan, enum role role, struct tally *tally);
const char *kind_name(enum kind kind);

#endif
