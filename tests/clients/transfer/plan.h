/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is done, and where. Operations come in rounds. A round touches every byte of its regions at
 * most once, so that at its end the two sides can check the regions from end to end: what belongs
 * to an operation must be right, everything else must be canaries.
 *
 *   initiator's region   [c][op 0: piece 1 | c | piece 0][c][op 1 ...][c]        SGEs, back to
 * front target's region      [c][op 0][c][op 1][c][receive of op 2: piece 1 | c | piece 0][c]
 *
 * Both sides make the same plan from the seed.
 */
#ifndef TRANSFER_PLAN_H
#define TRANSFER_PLAN_H

#include <stddef.h>

#include "terms.h"

enum { ROUND_OPS_MAX = 256, PIECES_MAX = 4, PIECE_GAP = 16, INLINE_MAX = 64, GRH_SIZE = 40 };

/* A list of SGEs: bytes [0, length) cut into pieces that lie back to front. */
struct spread {
	size_t offset; /* in its region */
	uint32_t length, pieces;
};

struct op {
	enum op_kind kind;
	uint32_t index; /* counts the operations of this lane and direction */
	uint32_t length;
	uint64_t key; /* of its bytes */
	bool signaled, solicited, fence, is_inline;
	struct spread local;   /* initiator: source, or where a READ or the old value goes */
	size_t target;         /* WRITE and READ: in the target's region */
	struct spread receive; /* RC: the receive that a message consumes */
	bool shared;           /* an atomic on the word of all lanes */
	uint64_t compare_add, swap, expect; /* atomics; expect: the old value */
};

/* Goes on from round to round. */
struct plan {
	const struct terms *terms;
	uint64_t seed;               /* of this lane and direction */
	uint32_t next;               /* index of the next operation */
	uint64_t add_word, cas_word; /* what the lane's own words will hold */
	uint64_t shared_sum;         /* what this lane adds to the shared word */
	uint32_t count;              /* of the current round */
	struct op op[ROUND_OPS_MAX];
};

void plan_open(struct plan *plan, const struct terms *terms, uint32_t lane, bool from_client);

/* False: no operations are left. */
bool plan_round(struct plan *plan);

/* Piece i of a spread: its offset in the region, and in the message; its length. */
struct piece {
	size_t at, from;
	uint32_t length;
};
struct piece spread_piece(const struct spread *spread, uint32_t i);
size_t spread_size(const struct spread *spread);

/* Datagrams and UC messages find any receive: all are alike, in slots behind the region. */
uint32_t slot_size(const struct terms *terms);
uint32_t slot_count(const struct terms *terms);

#endif
