/* SPDX-License-Identifier: BSD-2-Clause */
/* The side that posts work requests: source bytes, completions in order, what READ brought. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bytes.h"
#include "lane.h"

enum { LIST_MAX = 8 };

static void source_fill(struct lane *lane, const struct op *op)
{
	for (uint32_t i = 0; i < op->local.pieces; i++) {
		struct piece piece = spread_piece(&op->local, i);

		bytes_fill(lane->local + piece.at, piece.from, piece.length, op->key);
	}
}

void initiator_prepare(struct lane *lane, uint8_t canary)
{
	memset(lane->local, canary, lane->terms->region_size);
	for (uint32_t i = 0; i < lane->out->count; i++) {
		const struct op *op = &lane->out->op[i];

		if (kind_is_send(op->kind) || kind_is_write(op->kind))
			source_fill(lane, op);
	}
	lane->posted = lane->completed = 0;
}

static enum ibv_wr_opcode opcode_of(enum op_kind kind)
{
	static const enum ibv_wr_opcode opcodes[] = {
		[OP_SEND] = IBV_WR_SEND,
		[OP_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
		[OP_WRITE] = IBV_WR_RDMA_WRITE,
		[OP_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[OP_READ] = IBV_WR_RDMA_READ,
		[OP_CAS] = IBV_WR_ATOMIC_CMP_AND_SWP,
		[OP_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	};

	return opcodes[kind];
}

static void address_atomic(const struct lane *lane, const struct op *op, struct ibv_send_wr *wr)
{
	const struct lane_info *target = op->shared ? &lane->peer_first : &lane->peer;
	unsigned word = op->shared ? WORD_SHARED : op->kind == OP_ADD ? WORD_ADD : WORD_CAS;

	wr->wr.atomic.remote_addr = target->addr + word * sizeof(uint64_t);
	wr->wr.atomic.rkey = target->rkey;
	wr->wr.atomic.compare_add = op->compare_add;
	wr->wr.atomic.swap = op->swap;
}

static void address(const struct lane *lane, const struct op *op, struct ibv_send_wr *wr)
{
	if (lane->terms->qp_type == IBV_QPT_UD) {
		wr->wr.ud.ah = lane->ah;
		wr->wr.ud.remote_qpn = lane->peer.qpn;
		wr->wr.ud.remote_qkey = QKEY;
	} else if (kind_is_atomic(op->kind)) {
		address_atomic(lane, op, wr);
	} else if (!kind_is_send(op->kind)) {
		wr->wr.rdma.remote_addr =
			lane->peer.addr + WORD_COUNT * sizeof(uint64_t) + op->target;
		wr->wr.rdma.rkey = lane->peer.rkey;
	}
}

static int sges_make(const struct lane *lane, const struct op *op, struct ibv_sge *sge)
{
	if (!op->length && op->index % 2)
		return 0; /* an empty message may have no list at all */
	for (uint32_t i = 0; i < op->local.pieces; i++) {
		struct piece piece = spread_piece(&op->local, i);

		sge[i] = (struct ibv_sge){ (uintptr_t)lane->local + piece.at, piece.length,
					   lane->local_mr->lkey };
	}
	return (int)op->local.pieces;
}

static void wr_make(const struct lane *lane, const struct op *op, uint32_t index,
		    struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	*wr = (struct ibv_send_wr){ .wr_id = wr_id_make(lane, false, index),
				    .sg_list = sge,
				    .num_sge = sges_make(lane, op, sge),
				    .opcode = opcode_of(op->kind),
				    .imm_data = htonl(op->index) };
	wr->send_flags = (op->signaled ? IBV_SEND_SIGNALED : 0) |
			 (op->solicited ? IBV_SEND_SOLICITED : 0) |
			 (op->fence ? IBV_SEND_FENCE : 0) |
			 (op->is_inline && op->length <= lane->inline_max ? IBV_SEND_INLINE : 0);
	address(lane, op, wr);
}

void initiator_post(struct lane *lane)
{
	struct ibv_send_wr wr[LIST_MAX], *bad;
	struct ibv_sge sge[LIST_MAX][PIECES_MAX];
	int err;

	while (lane->posted < lane->out->count &&
	       lane->posted - lane->completed < lane->terms->window) {
		uint32_t room = lane->terms->window - (lane->posted - lane->completed);
		uint32_t left = lane->out->count - lane->posted, n = 0;

		for (; n < LIST_MAX && n < room && n < left; n++) {
			uint32_t index = lane->posted + n;

			wr_make(lane, &lane->out->op[index], index, &wr[n], sge[n]);
			if (n)
				wr[n - 1].next = &wr[n];
		}
		err = ibv_post_send(lane->qp, wr, &bad);
		CHECK(!err, "QP %u: ibv_post_send of operation %u: %s", lane->number,
		      lane->out->op[lane->posted].index, strerror(err));
		lane->posted += n;
	}
}

static void opcode_check(const struct lane *lane, const struct op *op, const struct ibv_wc *wc)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[OP_SEND] = IBV_WC_SEND,        [OP_SEND_IMM] = IBV_WC_SEND,
		[OP_WRITE] = IBV_WC_RDMA_WRITE, [OP_WRITE_IMM] = IBV_WC_RDMA_WRITE,
		[OP_READ] = IBV_WC_RDMA_READ,   [OP_CAS] = IBV_WC_COMP_SWAP,
		[OP_ADD] = IBV_WC_FETCH_ADD,
	};

	CHECK(wc->opcode == opcodes[op->kind], "QP %u operation %u completed as opcode %d, not %d",
	      lane->number, op->index, wc->opcode, opcodes[op->kind]);
	CHECK(!(op->kind == OP_READ || kind_is_atomic(op->kind)) || wc->byte_len == op->length,
	      "QP %u operation %u completed with %u bytes, not %u", lane->number, op->index,
	      wc->byte_len, op->length);
}

void initiator_complete(struct lane *lane, const struct ibv_wc *wc)
{
	uint32_t index = (uint32_t)wc->wr_id, expected = lane->completed;
	const struct op *op = &lane->out->op[index];

	CHECK(index < lane->posted, "QP %u: completion of %u, which was not posted", lane->number,
	      index);
	CHECK(wc->status == IBV_WC_SUCCESS, "QP %u operation %u: %s (vendor error %#x)",
	      lane->number, op->index, ibv_wc_status_str(wc->status), wc->vendor_err);
	while (expected < lane->posted && !lane->out->op[expected].signaled)
		expected++;
	CHECK(index == expected, "QP %u: completion of operation %u, expected that of %u",
	      lane->number, op->index, lane->out->op[expected].index);
	opcode_check(lane, op, wc);
	lane->completed = index + 1;
}

bool initiator_done(const struct lane *lane)
{
	return !lane->out || lane->completed == lane->out->count;
}

/* Atomics on the shared word bring what others left there; the sum is checked at the end. */
static void old_value_check(const struct lane *lane, const struct op *op)
{
	uint64_t old;

	memcpy(&old, lane->local + op->local.offset, sizeof(old));
	CHECK(op->shared || old == op->expect,
	      "QP %u operation %u: the old value is %#llx, expected %#llx", lane->number, op->index,
	      (unsigned long long)old, (unsigned long long)op->expect);
}

static void bytes_check(const struct lane *lane, const struct op *op, uint8_t canary)
{
	for (uint32_t i = op->local.pieces; i-- > 0;) {
		struct piece piece = spread_piece(&op->local, i);
		const uint8_t *at = lane->local + piece.at;
		size_t right = bytes_right(at, piece.from, piece.length, op->key);

		CHECK(right == piece.length,
		      "QP %u operation %u (kind %d, %u bytes): byte %zu is wrong at the initiator",
		      lane->number, op->index, op->kind, op->length, piece.from + right);
		CHECK(!i || canaries_right(at + piece.length, PIECE_GAP, canary) == PIECE_GAP,
		      "QP %u operation %u: bytes between two SGEs changed", lane->number,
		      op->index);
	}
}

void initiator_check(const struct lane *lane, uint8_t canary)
{
	size_t end = 0, right;

	for (uint32_t i = 0; i <= lane->out->count; i++) {
		const struct op *op = &lane->out->op[i];
		bool last = i == lane->out->count;
		size_t begin = last ? lane->terms->region_size : op->local.offset;

		right = canaries_right(lane->local + end, begin - end, canary);
		CHECK(right == begin - end,
		      "QP %u: byte %zu of the initiator's region changed and belongs to nobody",
		      lane->number, end + right);
		if (last)
			return;
		if (kind_is_atomic(op->kind))
			old_value_check(lane, op);
		else
			bytes_check(lane, op, canary);
		end = begin + spread_size(&op->local);
	}
}
