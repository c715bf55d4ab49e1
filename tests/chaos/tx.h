/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending side of one QP: what was posted, in order, and what may still happen to it.
 * Every completion is held against this record: signalled work completes exactly once and in post
 * order, unsignalled work only if it failed, and after the first failure everything is flushed.
 */
#ifndef CHAOS_TX_H
#define CHAOS_TX_H

#include <stdatomic.h>

#include "region.h"
#include "rig.h"

enum { DEPTH_MAX = 64, INLINE_SIZE = 64 };

enum mix {
	MIX_SEND,     /* SEND, every second one with immediate */
	MIX_ONESIDED, /* WRITE and READ back, READ, both atomics, WRITE_WITH_IMM */
};

enum tx_op { TX_SEND, TX_READ_STREAM, TX_WRITE, TX_READ_BACK, TX_ADD, TX_SWAP, TX_WRITE_IMM };

struct tx_wr {
	enum tx_op op;
	bool signaled;
	uint32_t seq, size;
	size_t offset;   /* READ_STREAM */
	uint64_t expect; /* what an atomic must have found */
};

/* What a sender knew when it died: written by it alone, read by the survivor afterwards. */
struct tally {
	_Atomic uint64_t messages_posted, messages_done; /* each consumes a receive */
	_Atomic uint64_t adds_posted, adds_done;
};

struct tx {
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* UD only */
	uint32_t remote_qpn;
	unsigned lane, depth;
	enum mix mix;
	uint8_t *ring; /* depth slots of stride bytes */
	size_t stride;
	uint32_t lkey, size_max;
	uint32_t tag, stream_key;
	struct region_map map;
	uint64_t remote_addr;
	uint32_t rkey;
	struct rng rng;
	struct tally *tally; /* may be NULL */

	struct tx_wr wr[DEPTH_MAX]; /* by index % depth */
	uint64_t posted, done, signaled, limit;
	uint64_t succeeded; /* of done: those with a completion that says so */
	uint32_t messages;
	uint32_t messages_max; /* one-sided: from here on nothing that needs a receive; 0: no end */
	uint64_t adds, swaps;
	enum ibv_wc_status failure; /* of the first WR that failed */
	bool flushing; /* the owner moved the QP to ERR: flush needs no failure before */
};

/* Posts up to a few WRs in one list while there is room and the limit is not reached. */
bool tx_post(struct tx *tx);
/* One signalled SEND behind everything else: when it completes, all before it have. */
void tx_post_marker(struct tx *tx);
void tx_complete(struct tx *tx, const struct ibv_wc *wc);

#define TX_WR_ID(lane, index) ((uint64_t)(lane) << 48 | (index))
#define TX_INDEX(wr_id)       ((wr_id) % (1ull << 48))
#define TX_LANE(wr_id)        ((unsigned)((wr_id) >> 48 & 0xff))

#endif
