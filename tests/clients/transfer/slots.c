/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of UC and UD, of which any may be missing: each receive takes whatever comes next. A
 * message is recognised by its immediate or by its bytes, and then all of it must be there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "bytes.h"
#include "lane.h"

static uint8_t *slot_at(const struct lane *lane, uint32_t slot)
{
	return lane->slots + (size_t)slot * slot_size(lane->terms);
}

/* What is behind the receive, at the end of a slot, belongs to nobody. */
enum { MARGIN = 32 };

/* A UC message that lost a packet may have left bytes in the receive that the next one uses. */
static bool may_be_stained(const struct lane *lane)
{
	return lane->terms->qp_type == IBV_QPT_UC && lane->terms->lossy;
}

static void slot_post(struct lane *lane, uint32_t slot, uint8_t canary)
{
	uint32_t size = slot_size(lane->terms);
	struct ibv_sge sge = { (uintptr_t)slot_at(lane, slot), size - MARGIN,
			       lane->target_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id_make(lane, true, slot),
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;
	int err;

	memset(slot_at(lane, slot), canary, size);
	err = ibv_post_recv(lane->qp, &wr, &bad);
	CHECK(!err, "QP %u: ibv_post_recv: %s", lane->number, strerror(err));
	lane->slot_posted[slot] = 1;
}

/* Slots that were not used keep their receive; nobody may have touched them, so they are made new.
 */
void slots_prepare(struct lane *lane, uint8_t canary)
{
	for (uint32_t slot = 0; slot < slot_count(lane->terms); slot++)
		if (lane->slot_posted[slot])
			memset(slot_at(lane, slot), canary, slot_size(lane->terms));
		else
			slot_post(lane, slot, canary);
	memset(lane->arrived, 0, sizeof(lane->arrived));
	lane->newest = 0;
}

static bool is_it(const struct op *op, const struct ibv_wc *wc, const uint8_t *bytes, size_t length)
{
	if (!kind_is_message(op->kind))
		return false;
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		return op->kind != OP_SEND && ntohl(wc->imm_data) == op->index;
	return op->kind == OP_SEND && op->length == length &&
	       bytes_right(bytes, 0, length, op->key) == length;
}

/* The operation of this round that it is; count: none. */
static uint32_t recognise(const struct lane *lane, const struct ibv_wc *wc, const uint8_t *bytes,
			  size_t length)
{
	uint32_t count = lane->in->count;

	/* Nearly always the one behind the last one, or a few further. */
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = (lane->newest + i) % count;

		if (is_it(&lane->in->op[at], wc, bytes, length))
			return at;
	}
	return count;
}

/*
 * A network that repeats or reorders packets does so with datagrams, and with UC messages of one
 * packet: the responder begins anew at any First or Only, whatever its PSN.
 */
static void order_check(struct lane *lane, uint32_t at)
{
	const struct op *op = &lane->in->op[at];
	bool may_wander = lane->terms->lossy;
	bool repeated = lane->arrived[at], overtaken = at + 1 < lane->newest;

	CHECK(may_wander || !repeated, "QP %u message %u arrived twice", lane->number, op->index);
	CHECK(may_wander || !overtaken, "QP %u message %u arrived behind message %u", lane->number,
	      op->index, lane->in->op[lane->newest - 1].index);
	lane->tally.repeated += repeated;
	lane->tally.overtaken += !repeated && overtaken;
	lane->received += !repeated;
	lane->arrived[at] = 1;
	if (at + 1 > lane->newest)
		lane->newest = at + 1;
}

static void bytes_check(const struct lane *lane, const struct op *op, uint32_t slot,
			const uint8_t *bytes, size_t length, uint8_t canary)
{
	size_t right = op->kind == OP_WRITE_IMM ? 0 : length;
	const uint8_t *end = slot_at(lane, slot) + slot_size(lane->terms);
	size_t rest = may_be_stained(lane) ? MARGIN : (size_t)(end - bytes) - right;

	CHECK(length == op->length, "QP %u message %u arrived with %zu bytes, not %u", lane->number,
	      op->index, length, op->length);
	CHECK(bytes_right(bytes, 0, right, op->key) == right,
	      "QP %u message %u (%u bytes): byte %zu is wrong", lane->number, op->index, op->length,
	      bytes_right(bytes, 0, right, op->key));
	CHECK(canaries_right(end - rest, rest, canary) == rest,
	      "QP %u message %u: bytes behind its end changed", lane->number, op->index);
}

/* An IPv6 header, or an IPv4 one in the last 20 bytes. */
static void grh_check(const struct lane *lane, const struct ibv_wc *wc, const uint8_t *grh)
{
	bool is_ipv4 = !memcmp(lane->self.gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);

	CHECK(wc->wc_flags & IBV_WC_GRH, "QP %u: a datagram without GRH", lane->number);
	CHECK(wc->src_qp == lane->peer.qpn, "QP %u: a datagram of QP %#x, not %#x", lane->number,
	      wc->src_qp, lane->peer.qpn);
	if (is_ipv4)
		CHECK(grh[20] >> 4 == 4 && !memcmp(grh + 32, lane->peer.gid.raw + 12, 4) &&
			      !memcmp(grh + 36, lane->self.gid.raw + 12, 4),
		      "QP %u: the IPv4 header in the GRH is wrong", lane->number);
	else
		CHECK(grh[0] >> 4 == 6 && !memcmp(grh + 8, lane->peer.gid.raw, 16) &&
			      !memcmp(grh + 24, lane->self.gid.raw, 16),
		      "QP %u: the GRH is wrong", lane->number);
}

void slots_receive(struct lane *lane, const struct ibv_wc *wc, uint8_t canary)
{
	uint32_t slot = (uint32_t)wc->wr_id, skipped = 0, at;
	const uint8_t *bytes = slot_at(lane, slot);
	size_t length = wc->byte_len;

	CHECK(slot < slot_count(lane->terms) && lane->slot_posted[slot],
	      "QP %u: receive %u completed and was not posted", lane->number, slot);
	lane->slot_posted[slot] = 0;
	if (lane->terms->qp_type == IBV_QPT_UD) {
		CHECK(length >= GRH_SIZE, "QP %u: a datagram of %zu bytes", lane->number, length);
		grh_check(lane, wc, bytes);
		skipped = GRH_SIZE;
	}
	length -= skipped;
	at = recognise(lane, wc, bytes + skipped, length);
	CHECK(at < lane->in->count,
	      "QP %u: a message of %zu bytes (flags %#x, immediate %u) that nobody sent in this "
	      "round",
	      lane->number, length, wc->wc_flags, ntohl(wc->imm_data));
	order_check(lane, at);
	message_flags_check(lane, &lane->in->op[at], wc);
	bytes_check(lane, &lane->in->op[at], slot, bytes + skipped, length, canary);
	/* Repeated ones would use up the receives of those that are still to come. */
	slot_post(lane, slot, canary);
}

void slots_check(struct lane *lane, uint8_t canary)
{
	uint32_t size = slot_size(lane->terms);
	uint32_t clean = may_be_stained(lane) ? MARGIN : size;

	for (uint32_t slot = 0; slot < slot_count(lane->terms); slot++)
		CHECK(canaries_right(slot_at(lane, slot) + size - clean, clean, canary) == clean,
		      "QP %u: receive %u changed and did not complete", lane->number, slot);
	lane->tally.sent += lane->messages;
	lane->tally.arrived += lane->received;
	lane->tally.missing += lane->messages - lane->received;
}
