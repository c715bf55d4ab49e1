/* SPDX-License-Identifier: BSD-2-Clause */
#include "tx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "pattern.h"

enum { LIST_MAX = 4 };

static uint8_t *slot(const struct tx *tx, uint64_t index)
{
	return tx->ring + index % tx->depth * tx->stride;
}

static struct tx_wr *record(struct tx *tx, uint64_t index)
{
	return &tx->wr[index % tx->depth];
}

/* Two slots stay free: one for the marker, one so that no READ back outlives its scratch slot. */
static bool has_room(const struct tx *tx)
{
	return tx->posted < tx->limit && tx->posted - tx->done + 2 < tx->depth && !tx->failure &&
	       !tx->flushing;
}

static uint32_t random_size(struct tx *tx)
{
	return (uint32_t)(MESSAGE_MIN + rng_below(&tx->rng, tx->size_max - MESSAGE_MIN + 1));
}

static enum tx_op choose_op(struct tx *tx)
{
	static const enum tx_op ops[] = { TX_READ_STREAM, TX_WRITE, TX_WRITE,
					  TX_ADD,         TX_SWAP,  TX_WRITE_IMM };

	if (tx->mix == MIX_SEND)
		return TX_SEND;
	if (tx->posted && record(tx, tx->posted - 1)->op == TX_WRITE)
		return TX_READ_BACK;
	enum tx_op op = ops[rng_below(&tx->rng, sizeof(ops) / sizeof(*ops))];
	bool no_more = tx->messages_max && tx->messages >= tx->messages_max;

	return op == TX_WRITE_IMM && no_more ? TX_READ_STREAM : op;
}

/* A message that consumes a receive of the peer carries the count of those before it. */
static void make_message(struct tx *tx, struct tx_wr *wr, uint8_t *buffer)
{
	wr->seq = tx->messages++;
	wr->size = random_size(tx);
	message_fill(buffer, wr->size, tx->tag, wr->seq);
	if (tx->tally)
		atomic_fetch_add(&tx->tally->messages_posted, 1);
}

static void build_send(struct tx *tx, struct tx_wr *wr, struct ibv_send_wr *out)
{
	make_message(tx, wr, slot(tx, tx->posted));
	out->opcode = wr->seq & 1 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	out->imm_data = htonl(wr->seq);
	if (tx->ah) {
		out->wr.ud.ah = tx->ah;
		out->wr.ud.remote_qpn = tx->remote_qpn;
		out->wr.ud.remote_qkey = RIG_QKEY;
	}
}

static void build_write_imm(struct tx *tx, struct tx_wr *wr, struct ibv_send_wr *out)
{
	make_message(tx, wr, slot(tx, tx->posted));
	out->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	out->imm_data = htonl(wr->seq);
	out->wr.rdma.remote_addr =
		tx->remote_addr + tx->map.imm + wr->seq % (tx->depth + 1) * tx->map.stride;
	out->wr.rdma.rkey = tx->rkey;
}

static void build_rdma(struct tx *tx, struct tx_wr *wr, struct ibv_send_wr *out)
{
	uint64_t index = tx->posted;
	size_t offset = tx->map.scratch + index % tx->depth * tx->map.stride;

	out->opcode = wr->op == TX_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	if (wr->op == TX_WRITE) {
		wr->size = random_size(tx);
		message_fill(slot(tx, index), wr->size, tx->tag, (uint32_t)index);
	} else if (wr->op == TX_READ_BACK) {
		wr->size = record(tx, index - 1)->size;
		offset = tx->map.scratch + (index - 1) % tx->depth * tx->map.stride;
	} else {
		wr->size = random_size(tx);
		if (wr->size > STREAM_SIZE)
			wr->size = STREAM_SIZE;
		wr->offset = rng_below(&tx->rng, (STREAM_SIZE - wr->size) / 8 + 1) * 8;
		offset = wr->offset;
	}
	out->wr.rdma.remote_addr = tx->remote_addr + offset;
	out->wr.rdma.rkey = tx->rkey;
}

static void build_atomic(struct tx *tx, struct tx_wr *wr, struct ibv_send_wr *out)
{
	bool add = wr->op == TX_ADD;

	wr->size = 8;
	out->opcode = add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
	out->wr.atomic.remote_addr = tx->remote_addr + (add ? tx->map.counter : tx->map.swap);
	out->wr.atomic.rkey = tx->rkey;
	wr->expect = add ? tx->adds++ : tx->swaps;
	out->wr.atomic.compare_add = add ? 1 : tx->swaps;
	if (!add && rng_chance(&tx->rng, 3))
		out->wr.atomic.compare_add += 1000; /* must not swap */
	else if (!add)
		out->wr.atomic.swap = ++tx->swaps;
	if (add && tx->tally)
		atomic_fetch_add(&tx->tally->adds_posted, 1);
}

static void build_op(struct tx *tx, struct tx_wr *wr, struct ibv_send_wr *out)
{
	switch (wr->op) {
	case TX_SEND:
		build_send(tx, wr, out);
		break;
	case TX_WRITE_IMM:
		build_write_imm(tx, wr, out);
		break;
	case TX_WRITE:
	case TX_READ_BACK:
	case TX_READ_STREAM:
		build_rdma(tx, wr, out);
		break;
	case TX_ADD:
	case TX_SWAP:
		build_atomic(tx, wr, out);
		break;
	}
}

/* Unsignalled work must not fill the queue: half of it at most. */
static bool choose_signaled(struct tx *tx)
{
	return tx->posted + 1 == tx->limit || tx->posted + 1 - tx->signaled >= tx->depth / 2 ||
	       !rng_chance(&tx->rng, 4);
}

static bool may_inline(const struct tx_wr *wr)
{
	return wr->size <= INLINE_SIZE &&
	       (wr->op == TX_SEND || wr->op == TX_WRITE || wr->op == TX_WRITE_IMM);
}

static void build(struct tx *tx, enum tx_op op, bool signaled, struct ibv_send_wr *out,
		  struct ibv_sge *sge)
{
	struct tx_wr *wr = record(tx, tx->posted);

	*wr = (struct tx_wr){ .op = op, .signaled = signaled };
	*out = (struct ibv_send_wr){ .wr_id = TX_WR_ID(tx->lane, tx->posted),
				     .sg_list = sge,
				     .num_sge = 1 };
	build_op(tx, wr, out);
	*sge = (struct ibv_sge){ (uintptr_t)slot(tx, tx->posted), wr->size, tx->lkey };
	if (signaled)
		out->send_flags |= IBV_SEND_SIGNALED;
	if (may_inline(wr) && rng_chance(&tx->rng, 2))
		out->send_flags |= IBV_SEND_INLINE;
	tx->posted++;
	if (signaled)
		tx->signaled = tx->posted;
}

bool tx_post(struct tx *tx)
{
	struct ibv_send_wr list[LIST_MAX], *bad = NULL;
	struct ibv_sge sge[LIST_MAX];
	unsigned wanted = 1 + (unsigned)rng_below(&tx->rng, LIST_MAX), count = 0;

	while (count < wanted && has_room(tx)) {
		bool signaled = choose_signaled(tx);

		build(tx, choose_op(tx), signaled, &list[count], &sge[count]);
		if (count)
			list[count - 1].next = &list[count];
		count++;
	}
	if (!count)
		return false;
	int err = ibv_post_send(tx->qp, list, &bad);
	CHECK(!err, "ibv_post_send: %s (lane %u, %llu posted, %llu done, bad wr_id %#llx)",
	      strerror(err), tx->lane, (unsigned long long)tx->posted, (unsigned long long)tx->done,
	      bad ? (unsigned long long)bad->wr_id : 0);
	return true;
}

void tx_post_marker(struct tx *tx)
{
	struct ibv_send_wr wr, *bad = NULL;
	struct ibv_sge sge;

	build(tx, TX_SEND, true, &wr, &sge);
	int err = ibv_post_send(tx->qp, &wr, &bad);
	CHECK(!err, "ibv_post_send after the peer's death: %s", strerror(err));
}

static void check_read(struct tx *tx, uint64_t index, const struct tx_wr *wr)
{
	const char *fault;
	uint32_t seq = 0;

	if (wr->op == TX_READ_STREAM) {
		CHECK(stream_right(slot(tx, index), wr->offset, wr->size, tx->stream_key),
		      "READ of %u bytes at %zu returned wrong bytes", wr->size, wr->offset);
		return;
	}
	fault = message_fault(slot(tx, index), wr->size, tx->tag, &seq);
	CHECK(!fault, "READ of what was just written: %s", fault);
	CHECK(seq == (uint32_t)(index - 1), "READ back found WRITE %u instead of %u", seq,
	      (uint32_t)(index - 1));
}

static void check_atomic(struct tx *tx, uint64_t index, const struct tx_wr *wr)
{
	uint64_t found;

	memcpy(&found, slot(tx, index), 8);
	CHECK(found == wr->expect, "%s found %llu instead of %llu",
	      wr->op == TX_ADD ? "FETCH_AND_ADD" : "CMP_AND_SWP", (unsigned long long)found,
	      (unsigned long long)wr->expect);
	if (wr->op == TX_ADD && tx->tally)
		atomic_fetch_add(&tx->tally->adds_done, 1);
}

/* This WR succeeded: what it brought must be right. */
static void retire(struct tx *tx, uint64_t index)
{
	const struct tx_wr *wr = record(tx, index);

	switch (wr->op) {
	case TX_READ_STREAM:
	case TX_READ_BACK:
		check_read(tx, index, wr);
		break;
	case TX_ADD:
	case TX_SWAP:
		check_atomic(tx, index, wr);
		break;
	case TX_SEND:
	case TX_WRITE_IMM:
		if (tx->tally)
			atomic_fetch_add(&tx->tally->messages_done, 1);
		break;
	case TX_WRITE:
		break;
	}
}

static void complete_failed(struct tx *tx, const struct ibv_wc *wc, uint64_t index)
{
	if (tx->failure) {
		CHECK(index == tx->done, "after a failure WR %llu completed, not %llu",
		      (unsigned long long)index, (unsigned long long)tx->done);
		CHECK(wc->status == IBV_WC_WR_FLUSH_ERR, "%s behind a failed WR",
		      ibv_wc_status_str(wc->status));
		return;
	}
	CHECK(wc->status == IBV_WC_RETRY_EXC_ERR ||
		      (wc->status == IBV_WC_WR_FLUSH_ERR && tx->flushing),
	      "a send WR failed with %s", ibv_wc_status_str(wc->status));
	tx->failure = wc->status;
}

void tx_complete(struct tx *tx, const struct ibv_wc *wc)
{
	uint64_t index = TX_INDEX(wc->wr_id);

	CHECK(index >= tx->done && index < tx->posted,
	      "send completion %llu (%s) twice or out of order: %llu done, %llu posted",
	      (unsigned long long)index, ibv_wc_status_str(wc->status),
	      (unsigned long long)tx->done, (unsigned long long)tx->posted);
	CHECK(wc->qp_num == tx->qp->qp_num, "completion names QP %#x, not %#x", wc->qp_num,
	      tx->qp->qp_num);
	if (wc->status) {
		complete_failed(tx, wc, index);
	} else {
		CHECK(!tx->failure, "a send succeeded behind a failed one");
		CHECK(record(tx, index)->signaled, "an unsignalled WR completed with success");
	}
	for (uint64_t i = tx->done; i < index; i++) {
		CHECK(!record(tx, i)->signaled, "no completion for signalled send %llu",
		      (unsigned long long)i);
		retire(tx, i);
	}
	if (!wc->status) {
		retire(tx, index);
		tx->succeeded++;
	}
	tx->done = index + 1;
}
