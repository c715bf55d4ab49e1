/* SPDX-License-Identifier: BSD-2-Clause */
/* One QP, its memory, and how far it is. */
#ifndef TRANSFER_LANE_H
#define TRANSFER_LANE_H

#include "plan.h"
#include "rig.h"

enum { WORD_ADD, WORD_CAS, WORD_SHARED, WORD_COUNT = 8, QKEY = 0x1fe7ab1e };

/* What the peer must know of a lane. */
struct lane_info {
	union ibv_gid gid;
	uint64_t addr; /* of the words; the region follows */
	uint32_t qpn, psn, rkey;
};

/* What a side saw of the other's UC and UD messages. */
struct tally {
	uint64_t sent, arrived, missing;
	uint64_t repeated, overtaken;            /* by the network */
	uint64_t writes_partial, writes_missing; /* UC WRITE without immediate */
};

struct home {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* NULL: polling only */
	struct ibv_cq *cq;                /* of all lanes, sends and receives */
	union ibv_gid gid;
	int gid_index;
	uint32_t mtu_bytes, rd_atomic, dest_rd_atomic;
};

struct lane {
	const struct terms *terms;
	uint32_t number;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	uint32_t inline_max;
	struct lane_info self, peer, peer_first; /* peer_first: lane 0, which has the shared word */

	struct plan *out; /* what we do; NULL: nothing */
	uint8_t *local;   /* owned */
	struct ibv_mr *local_mr;
	uint32_t posted, completed; /* operations of this round */

	struct plan *in; /* what the peer does; NULL: nothing */
	uint64_t *words; /* owned; then the region, then the slots */
	uint8_t *region, *slots;
	struct ibv_mr *target_mr;
	uint32_t messages;               /* of this round, for RC in this order: */
	uint32_t message[ROUND_OPS_MAX]; /* the operation that it is */
	uint32_t received;               /* of this round */
	uint32_t receives_posted;        /* RC: of this round; else: slots that are posted */
	uint8_t arrived[ROUND_OPS_MAX];  /* UC, UD: how often */
	uint8_t slot_posted[ROUND_OPS_MAX];
	uint32_t newest; /* UC, UD: the last operation that arrived, + 1 */
	struct tally tally;
};

void home_open(struct home *home, const char *device, int gid_index);
/* Once the terms are known. */
void home_prepare(struct home *home, const struct terms *terms, bool events);
void home_close(struct home *home);

void lane_open(struct lane *lane, struct home *home, const struct terms *terms, uint32_t number,
	       bool is_client);
void lane_connect(struct lane *lane, const struct home *home);
void lane_close(struct lane *lane);

/* wr_id: which lane, which side of it, which operation or receive. */
static inline uint64_t wr_id_make(const struct lane *lane, bool receive, uint32_t index)
{
	return (uint64_t)lane->number << 40 | (uint64_t)receive << 39 | index;
}

static inline uint8_t canary_of(const struct terms *terms, uint32_t round)
{
	return (uint8_t)(0xc5 + terms->seed * 7 + round * 29);
}

/* What we do: initiator.c. */
void initiator_prepare(struct lane *lane, uint8_t canary);
void initiator_post(struct lane *lane);
void initiator_complete(struct lane *lane, const struct ibv_wc *wc);
bool initiator_done(const struct lane *lane);
void initiator_check(const struct lane *lane, uint8_t canary);

/* What is done to us: target.c for all, slots.c for UC and UD. */
void target_prepare(struct lane *lane, uint8_t canary);
void target_receive(struct lane *lane, const struct ibv_wc *wc, uint8_t canary);
bool target_done(const struct lane *lane);
void target_check(struct lane *lane, uint8_t canary);
void target_words_check(const struct lane *lane);

void slots_prepare(struct lane *lane, uint8_t canary);
void slots_receive(struct lane *lane, const struct ibv_wc *wc, uint8_t canary);
void slots_check(struct lane *lane, uint8_t canary);
void message_flags_check(const struct lane *lane, const struct op *op, const struct ibv_wc *wc);

#endif
