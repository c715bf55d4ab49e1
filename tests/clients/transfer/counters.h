/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TRANSFER_COUNTERS_H
#define TRANSFER_COUNTERS_H

#include <infiniband/verbs.h>
#include <stdio.h>

/* Remembers where the counters stand at the beginning. */
void counters_begin(struct ibv_context *ctx);

/* Prints those that moved since: why messages may be missing. */
void counters_explain_missing(struct ibv_context *ctx, FILE *file);

#endif
