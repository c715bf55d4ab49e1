/* SPDX-License-Identifier: BSD-2-Clause */
/* What every chaos program stands on: a device, a clock, seeded randomness, and a way to fail. */
#ifndef CHAOS_RIG_H
#define CHAOS_RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct rig {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	union ibv_gid gid; /* index 1: the IPv4 address */
	enum ibv_mtu mtu;
};

enum { RIG_PORT = 1, RIG_GID_INDEX = 1, RIG_QKEY = 0x11110a5 };

/* The first Ethernet device, opened, with a PD. Fails the program when there is none. */
void rig_open(struct rig *rig);
void rig_close(struct rig *rig);
/* A fresh RC QP to RTS, connected to another one of this host; it may be the target of anything. */
void rig_connect(const struct rig *rig, struct ibv_qp *qp, uint32_t dest_qpn);

/* Who speaks in a failure: the role of this process and the round it is in. */
void rig_name(const char *role, const char *detail);
void rig_round(unsigned round);

/*
 * Says what broke and ends the process with status 1. With CHAOS_PAUSE in the environment the
 * process waits for a debugger instead, so that the state of the failure can be looked at.
 */
void rig_fail(const char *file, int line, const char *format, ...)
	__attribute__((noreturn, format(printf, 3, 4)));

#define FAIL(...) rig_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition, ...)              \
	do {                               \
		if (!(condition))          \
			FAIL(__VA_ARGS__); \
	} while (0)

uint64_t clock_us(void);

/* splitmix64: one word of state, the same everywhere, so that a seed replays a run. */
struct rng {
	uint64_t state;
};
uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t bound);
bool rng_chance(struct rng *rng, unsigned one_in);
/* A stream of its own for each (seed, part): replaying one round needs none of those before it. */
struct rng rng_fork(uint64_t seed, uint64_t part);

/* TAP, numbered by itself; tap_end prints the plan and gives the exit status. */
void tap(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tap_end(void);

#endif
