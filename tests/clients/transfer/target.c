/* SPDX-License-Identifier: BSD-2-Clause */
/* The side that things are done to: what was placed, received and added. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "lane.h"

static bool is_reliable(const struct lane *lane)
{
	return lane->terms->qp_type == IBV_QPT_RC;
}

static void receive_post(struct lane *lane, uint32_t index)
{
	const struct op *op = &lane->in->op[lane->message[index]];
	struct ibv_sge sge[PIECES_MAX];
	struct ibv_recv_wr wr = { .wr_id = wr_id_make(lane, true, index),
				  .sg_list = sge,
				  .num_sge = (int)op->receive.pieces },
			   *bad;
	int err;

	for (uint32_t i = 0; i < op->receive.pieces; i++) {
		struct piece piece = spread_piece(&op->receive, i);

		sge[i] = (struct ibv_sge){ (uintptr_t)lane->region + piece.at, piece.length,
					   lane->target_mr->lkey };
	}
	err = ibv_post_recv(lane->qp, &wr, &bad);
	CHECK(!err, "QP %u: ibv_post_recv: %s", lane->number, strerror(err));
}

/* Fewer than the round needs, so that the sender meets an empty queue now and then. */
static void receives_refill(struct lane *lane)
{
	while (lane->receives_posted < lane->messages &&
	       lane->receives_posted - lane->received < lane->terms->recv_depth)
		receive_post(lane, lane->receives_posted++);
}

void target_prepare(struct lane *lane, uint8_t canary)
{
	memset(lane->region, canary, lane->terms->region_size);
	lane->messages = lane->received = 0;
	for (uint32_t i = 0; i < lane->in->count; i++) {
		const struct op *op = &lane->in->op[i];

		if (op->kind == OP_READ)
			bytes_fill(lane->region + op->target, 0, op->length, op->key);
		if (kind_is_message(op->kind))
			lane->message[lane->messages++] = i;
	}
	if (!is_reliable(lane)) {
		slots_prepare(lane, canary);
		return;
	}
	lane->receives_posted = 0;
	receives_refill(lane);
}

void message_flags_check(const struct lane *lane, const struct op *op, const struct ibv_wc *wc)
{
	bool with_imm = op->kind != OP_SEND;
	enum ibv_wc_opcode opcode =
		op->kind == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;

	CHECK(wc->opcode == opcode, "QP %u message %u arrived as opcode %d, not %d", lane->number,
	      op->index, wc->opcode, opcode);
	CHECK(!!(wc->wc_flags & IBV_WC_WITH_IMM) == with_imm,
	      "QP %u message %u: flags %#x, immediate %sexpected", lane->number, op->index,
	      wc->wc_flags, with_imm ? "" : "not ");
	CHECK(!with_imm || ntohl(wc->imm_data) == op->index,
	      "QP %u message %u arrived with immediate %u", lane->number, op->index,
	      ntohl(wc->imm_data));
}

void target_receive(struct lane *lane, const struct ibv_wc *wc, uint8_t canary)
{
	uint32_t index = (uint32_t)wc->wr_id;

	CHECK(wc->status == IBV_WC_SUCCESS, "QP %u receive %u: %s", lane->number, index,
	      ibv_wc_status_str(wc->status));
	if (!is_reliable(lane)) {
		slots_receive(lane, wc, canary);
		return;
	}
	CHECK(lane->received < lane->messages, "QP %u: a message more than was sent", lane->number);
	CHECK(index == lane->received, "QP %u: receive %u completed, expected %u", lane->number,
	      index, lane->received);
	const struct op *op = &lane->in->op[lane->message[index]];

	message_flags_check(lane, op, wc);
	CHECK(wc->byte_len == op->length, "QP %u message %u arrived with %u bytes, not %u",
	      lane->number, op->index, wc->byte_len, op->length);
	lane->received++;
	receives_refill(lane);
}

bool target_done(const struct lane *lane)
{
	return !lane->in || lane->received >= lane->messages;
}

/* A message fills its receive from the front; what it does not reach stays as it was. */
static void receive_check(const struct lane *lane, const struct op *op, uint8_t canary)
{
	size_t length = kind_is_send(op->kind) ? op->length : 0;

	for (uint32_t i = op->receive.pieces; i-- > 0;) {
		struct piece piece = spread_piece(&op->receive, i);
		const uint8_t *at = lane->region + piece.at;
		size_t used = piece.from >= length                 ? 0
			      : length - piece.from < piece.length ? length - piece.from
								   : piece.length;
		size_t rest = piece.length - used + (i ? PIECE_GAP : 0);
		size_t right = bytes_right(at, piece.from, used, op->key);

		CHECK(right == used, "QP %u message %u (%u bytes): byte %zu is wrong", lane->number,
		      op->index, op->length, piece.from + right);
		CHECK(canaries_right(at + used, rest, canary) == rest,
		      "QP %u message %u: bytes behind its end changed", lane->number, op->index);
	}
}

/* A UC WRITE that lost a packet is there up to the packet before: not whole, but not torn. */
static void broken_write_check(struct lane *lane, const struct op *op, size_t right, uint8_t canary)
{
	size_t kept = right - right % lane->terms->mtu_bytes;

	CHECK(!is_reliable(lane) && lane->terms->lossy,
	      "QP %u operation %u (kind %d, %u bytes): byte %zu is wrong at the target",
	      lane->number, op->index, op->kind, op->length, right);
	CHECK(canaries_right(lane->region + op->target + kept, op->length - kept, canary) ==
		      op->length - kept,
	      "QP %u operation %u: a broken WRITE left more than whole packets (byte %zu)",
	      lane->number, op->index, right);
	CHECK(op->kind == OP_WRITE || !lane->arrived[op - lane->in->op],
	      "QP %u operation %u: the immediate of a broken WRITE arrived", lane->number,
	      op->index);
	if (kept)
		lane->tally.writes_partial++;
	else
		lane->tally.writes_missing++;
}

/* A UC sender is done when its packets have left: where none gets lost, they are on their way. */
static size_t bytes_placed(const struct lane *lane, const struct op *op)
{
	bool coming = !is_reliable(lane) && !lane->terms->lossy;
	size_t right = 0;

	for (unsigned tries = 0; tries < 5000; tries++) {
		right = bytes_right(lane->region + op->target, 0, op->length, op->key);
		if (right == op->length || !coming)
			break;
		usleep(1000);
	}
	return right;
}

static void placed_check(struct lane *lane, const struct op *op, uint8_t canary)
{
	size_t right = bytes_placed(lane, op);

	if (right != op->length)
		broken_write_check(lane, op, right, canary);
}

static size_t nobody_check(const struct lane *lane, size_t end, size_t begin, uint8_t canary)
{
	size_t right = canaries_right(lane->region + end, begin - end, canary);

	CHECK(right == begin - end,
	      "QP %u: byte %zu of the target's region changed and belongs to nobody", lane->number,
	      end + right);
	return begin;
}

void target_check(struct lane *lane, uint8_t canary)
{
	size_t end = 0;

	for (uint32_t i = 0; i < lane->in->count; i++) {
		const struct op *op = &lane->in->op[i];

		if (kind_is_write(op->kind) || op->kind == OP_READ) {
			end = nobody_check(lane, end, op->target, canary) + op->length;
			placed_check(lane, op, canary);
		}
		if (is_reliable(lane) && kind_is_message(op->kind)) {
			end = nobody_check(lane, end, op->receive.offset, canary) +
			      spread_size(&op->receive);
			receive_check(lane, op, canary);
		}
	}
	nobody_check(lane, end, lane->terms->region_size, canary);
	if (!is_reliable(lane))
		slots_check(lane, canary);
}

/* Each atomic exactly once: the words hold what the plan says. */
void target_words_check(const struct lane *lane)
{
	CHECK(lane->words[WORD_ADD] == lane->in->add_word,
	      "QP %u: the added word holds %#llx, expected %#llx", lane->number,
	      (unsigned long long)lane->words[WORD_ADD], (unsigned long long)lane->in->add_word);
	CHECK(lane->words[WORD_CAS] == lane->in->cas_word,
	      "QP %u: the swapped word holds %#llx, expected %#llx", lane->number,
	      (unsigned long long)lane->words[WORD_CAS], (unsigned long long)lane->in->cas_word);
}
