/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TRANSFER_COUNTERS_H
#define TRANSFER_COUNTERS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Remembers where the counters stand at the beginning. */
void counters_begin(struct ibv_context *ctx);

/* Prints those that moved since: why messages may be missing. */
void counters_explain_missing(struct ibv_context *ctx, FILE *file);

/*
 * How much this side has counted since that could each be a missing message: its port's losses on
 * the way out, and on the way in everything that came and was not taken. false: the library says
 * nothing of itself.
 */
struct counted {
	uint64_t lost_out;
	uint64_t dropped_in;
};
bool counters_counted(struct ibv_context *ctx, struct counted *counted);

#endif
