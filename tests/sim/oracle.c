/* SPDX-License-Identifier: BSD-2-Clause */
/* What applications see must be what was promised: order, once, status, bytes. */
#include <string.h>

#include "sim.h"

static uint8_t scratch[1 << 19], scratch_other[1 << 19];

/* --- send completions --- */

/* Somebody at the other end does not answer any more, or never will. */
static bool peer_lost(const struct end *end)
{
	const struct end *peer = end->peer;

	return peer->closed || peer->killed || peer->failed || !peer->ready;
}

static bool failure_allowed(const struct end *end, const struct op *op, enum ibv_wc_status status)
{
	if (op->flaw && status == op->expect)
		return true;
	/* The peer's own mistake, or its change of mind. */
	if (status == IBV_WC_REM_OP_ERR)
		return op_consumes(op) && end->peer->recvq->bad_posted;
	if (status == IBV_WC_REM_ACCESS_ERR && end->peer->revoked)
		return op->buffer.length && op->opcode != IBV_WR_SEND &&
		       op->opcode != IBV_WR_SEND_WITH_IMM;
	if (status == IBV_WC_WR_FLUSH_ERR)
		return end->killed;
	if (end->type != IBV_QPT_RC)
		return false;
	/* A READ whose answer was lost and whose memory is gone is not answered again. */
	if (status == IBV_WC_RETRY_EXC_ERR)
		return end->world->harsh || peer_lost(end) ||
		       (end->peer->revoked && op->opcode == IBV_WR_RDMA_READ);
	if (status == IBV_WC_RNR_RETRY_EXC_ERR)
		return op_consumes(op) && end->rnr_retry != 7;
	return false;
}

void oracle_tell_peer(struct end *end)
{
	struct end *peer = end->peer;

	/* Without a timeout it would wait for ever. */
	if (peer && !peer->timeout && peer->type == IBV_QPT_RC)
		event_add_action(end->world, end->world->now_ns + 10000000, ACTION_ERROR, peer);
}

static void first_failure(struct end *end, unsigned index, enum ibv_wc_status status)
{
	struct op *op = &end->ops[index];

	if (!failure_allowed(end, op, status))
		world_fail(end->world, "end %u: op %u (opcode %u, flaw %u) failed with %d",
			   end->index, index, op->opcode, op->flaw, status);
	if (end_state(end) != IBV_QPS_ERR)
		world_fail(end->world, "end %u: op %u failed with %d, but the state is %d",
			   end->index, index, status, end_state(end));
	end->failed = true;
	end->world->stats.failed_qps++;
	end->world->stats.statuses[status % 32]++;
	oracle_tell_peer(end);
}

static void check_data(struct end *end, unsigned index)
{
	struct op *op = &end->ops[index];

	if (op->opcode == IBV_WR_RDMA_READ) {
		buffer_read(&op->buffer, scratch, op->buffer.length);
		if (!model_read_fits(end, index, scratch))
			world_fail(end->world, "end %u: READ op %u brought wrong bytes", end->index,
				   index);
		buffer_settle(&op->buffer);
	} else if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		buffer_read(&op->buffer, scratch, 8);
		if (memcmp(scratch, &op->original, 8))
			world_fail(end->world, "end %u: ATOMIC op %u brought %llx instead of %llx",
				   end->index, index, *(unsigned long long *)(void *)scratch,
				   (unsigned long long)op->original);
		buffer_settle(&op->buffer);
	}
}

static void succeeded(struct end *end, unsigned index)
{
	struct op *op = &end->ops[index];

	op->done = true;
	op->status = IBV_WC_SUCCESS;
	end->world->stats.ops++;
	end->world->stats.useful += op->buffer.length / end->mtu + 1;
	if (op->flaw && op->expect != IBV_WC_SUCCESS) {
		world_fail(end->world, "end %u: op %u (opcode %u) succeeded in spite of flaw %u",
			   end->index, index, op->opcode, op->flaw);
		return;
	}
	if (op->opcode == IBV_WR_BIND_MW)
		end->window = WINDOW_BOUND;
	if (end->type != IBV_QPT_RC)
		return;
	if (end->peer->applied <= index)
		model_apply(end->peer, index + 1);
	check_data(end, index);
}

static void sent(struct end *end, const struct ibv_wc *wc)
{
	unsigned index = (uint32_t)wc->wr_id;

	world_say(end->world, "end %u: op %u completes with %d", end->index, index, wc->status);
	if (index < end->done || index >= end->posted) {
		world_fail(end->world, "end %u: op %u completed twice or never was", end->index,
			   index);
		return;
	}
	if (!end->failed) {
		for (; end->done < index && !end->world->failure[0]; end->done++) {
			if (end->ops[end->done].signaled)
				world_fail(end->world, "end %u: op %u was passed over", end->index,
					   end->done);
			succeeded(end, end->done);
		}
	}
	if (wc->status == IBV_WC_SUCCESS && (end->failed || !end->ops[index].signaled))
		world_fail(end->world, "end %u: op %u must not be reported", end->index, index);
	if (end->failed && (index != end->done || wc->status != IBV_WC_WR_FLUSH_ERR))
		world_fail(end->world, "end %u: op %u has status %d behind a failure", end->index,
			   index, wc->status);
	end->done = index + 1;
	if (wc->status == IBV_WC_SUCCESS) {
		succeeded(end, index);
		return;
	}
	end->ops[index].done = true;
	end->ops[index].status = wc->status;
	if (!end->failed)
		first_failure(end, index, wc->status);
}

/* --- receive completions --- */

static unsigned next_message(const struct end *peer, unsigned from)
{
	while (from < peer->posted && !op_consumes(&peer->ops[from]))
		from++;
	return from;
}

static unsigned flags_of(const struct op *op)
{
	return op->opcode == IBV_WR_SEND            ? 0
	       : op->opcode == IBV_WR_SEND_WITH_INV ? IBV_WC_WITH_INV
						    : IBV_WC_WITH_IMM;
}

static bool bytes_fit(const struct op *op, const struct recv *recv)
{
	buffer_read(&op->buffer, scratch, op->buffer.length);
	buffer_read(&recv->buffer, scratch_other, op->buffer.length);
	return !memcmp(scratch, scratch_other, op->buffer.length);
}

/* Why a receive cannot be that of the message; NULL: it can. */
static const char *misfit(const struct op *op, const struct ibv_wc *wc, const struct recv *recv)
{
	bool write = op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (wc->opcode != (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		return "opcode";
	if (wc->byte_len != op->buffer.length)
		return "length";
	if (wc->wc_flags != flags_of(op))
		return "flags";
	if (wc->wc_flags && wc->imm_data != op->imm)
		return "immediate or key";
	return write || bytes_fit(op, recv) ? NULL : "bytes";
}

static void received_reliable(struct end *end, const struct ibv_wc *wc, struct recv *recv)
{
	unsigned index = next_message(end->peer, end->next_message);
	const char *why;

	if (index == end->peer->posted) {
		world_fail(end->world, "end %u received a message that nobody sent", end->index);
		return;
	}
	why = misfit(&end->peer->ops[index], wc, recv);
	if (why)
		world_fail(end->world, "end %u: its message %u is not op %u of end %u: %s",
			   end->index, end->messages, index, end->peer->index, why);
	end->next_message = index + 1;
	if (end->applied <= index)
		model_apply(end, index + 1);
	if (end->peer->ops[index].opcode == IBV_WR_SEND_WITH_INV)
		end->window = WINDOW_NONE;
}

/* Messages may be missing, not mixed or in another order. */
static void received_unreliable(struct end *end, const struct ibv_wc *wc, struct recv *recv)
{
	const struct end *peer = end->peer;
	unsigned index = next_message(peer, end->next_message);

	while (index < peer->posted && misfit(&peer->ops[index], wc, recv))
		index = next_message(peer, index + 1);
	if (index == peer->posted) {
		world_fail(end->world, "end %u received what is no later message of end %u",
			   end->index, peer->index);
		return;
	}
	end->next_message = index + 1;
	if (peer->ops[index].opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		model_check(end, peer->ops[index].offset, peer->ops[index].buffer.length);
}

static bool recv_failure_allowed(const struct end *end, const struct recv *recv,
				 enum ibv_wc_status status)
{
	unsigned index = next_message(end->peer, end->next_message);
	const struct op *op = &end->peer->ops[index];

	if (index == end->peer->posted)
		return false;
	switch (status) {
	case IBV_WC_LOC_LEN_ERR:
		return op->flaw == FLAW_TOO_LONG;
	case IBV_WC_LOC_ACCESS_ERR:
		return op->flaw == FLAW_RKEY || op->flaw == FLAW_RANGE || op->flaw == FLAW_RIGHT ||
		       end->revoked;
	case IBV_WC_REM_INV_REQ_ERR:
		return op->flaw == FLAW_WINDOW;
	case IBV_WC_LOC_PROT_ERR:
		return recv->bad_lkey;
	default:
		return false;
	}
}

static void recv_ended_badly(struct end *end, const struct ibv_wc *wc, const struct recv *recv)
{
	if (end->type != IBV_QPT_UD && wc->status != IBV_WC_WR_FLUSH_ERR &&
	    (end->recv_failed || !recv_failure_allowed(end, recv, wc->status)))
		world_fail(end->world, "end %u: a receive ended with %d", end->index, wc->status);
	if (end_state(end) != IBV_QPS_ERR)
		world_fail(end->world, "end %u: a receive ended with %d in state %d", end->index,
			   wc->status, end_state(end));
	if (wc->status == IBV_WC_REM_INV_REQ_ERR) /* its message has arrived */
		end->next_message = next_message(end->peer, end->next_message) + 1;
	end->recv_failed = true;
}

static struct end *end_of(struct world *world, uint32_t qpn)
{
	for (unsigned i = 0; i < world->end_count; i++)
		if (!world->ends[i]->closed && world->ends[i]->qp &&
		    world->ends[i]->qp->ibv.qp_num == qpn)
			return world->ends[i];
	return NULL;
}

static void consumed(struct world *world, struct recv *recv)
{
	struct recvq *recvq = recv->recvq;

	recv->done = true;
	recvq->outstanding--;
	if (recvq->scheduled || (recvq->end && end_state(recvq->end) == IBV_QPS_ERR))
		return;
	recvq->scheduled = true;
	event_add(world,
		  world->now_ns +
			  (recvq->lazy_us ? rng_below(&world->rng, recvq->lazy_us) * 1000ull : 0),
		  EVENT_RECV, recvq);
}

static void received(struct host *host, const struct ibv_wc *wc)
{
	struct world *world = host->world;
	struct recv *recv = &world->recvs[(uint32_t)wc->wr_id];
	struct end *end = end_of(world, wc->qp_num);

	if (!end || recv->done || recv->recvq != end->recvq) {
		world_fail(world, "a receive completed twice, or at the wrong QP");
		return;
	}
	world_say(world, "end %u: receive %u completes with %d, %u B", end->index,
		  (uint32_t)wc->wr_id, wc->status, wc->byte_len);
	consumed(world, recv);
	if (wc->status != IBV_WC_SUCCESS) {
		recv_ended_badly(end, wc, recv);
		return;
	}
	if (end->recv_failed ||
	    (recv->bad_lkey && wc->byte_len && wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM))
		world_fail(world, "end %u received behind a failure or with a bad lkey",
			   end->index);
	if (end->type == IBV_QPT_RC)
		received_reliable(end, wc, recv);
	else if (end->type == IBV_QPT_UC)
		received_unreliable(end, wc, recv);
	else
		datagram_received(end, wc, recv);
	end->messages++;
	buffer_settle(&recv->buffer);
}

void oracle_poll(struct host *host)
{
	struct ibv_wc wc[16];
	int got;

	for (unsigned i = 0; i < CQS; i++) {
		while ((got = vb_cq_poll(host->cq[i], 16, wc)) > 0)
			for (int k = 0; k < got && !host->world->failure[0]; k++) {
				if (wc[k].wr_id >> 63)
					received(host, &wc[k]);
				else
					sent(host->world->ends[wc[k].wr_id >> 32], &wc[k]);
			}
	}
}

/* --- the end --- */

void oracle_killed(struct end *end, enum vb_reason reason)
{
	struct end *peer = end->peer;
	const struct op *culprit = NULL;

	world_say(end->world, "end %u fails at its responder: reason %d", end->index, reason);
	end->killed = true;
	for (unsigned i = end->applied; peer && i < peer->posted && !culprit; i++)
		if (peer->ops[i].flaw && vb_reason_row(reason)->status == peer->ops[i].expect)
			culprit = &peer->ops[i];
	if (!culprit && !(reason == VB_WHY_RECV_KEY && end->recvq->bad_posted) &&
	    !(reason == VB_WHY_RKEY_UNKNOWN && end->revoked))
		world_fail(end->world, "end %u failed for reason %d without cause", end->index,
			   reason);
	oracle_tell_peer(end);
}

/* What the queues of a QP say about themselves. */
void oracle_queues(struct world *world)
{
	for (unsigned i = 0; i < world->end_count; i++) {
		const struct end *end = world->ends[i];
		const struct vb_sq *sq = end->qp ? &end->qp->sq : NULL;

		if (sq && !end->closed && (int32_t)(sq->tail - sq->next) < 0)
			world_fail(world, "end %u: more was completed than posted", i);
	}
}

static bool end_done(const struct end *end)
{
	if (end->closed)
		return true;
	if (!end->ready)
		return end_state(end) == IBV_QPS_ERR;
	return end->posted == end->planned &&
	       (end->done == end->posted || atomic_load(&end->qp->sq.done) == end->qp->sq.tail);
}

bool oracle_done(struct world *world)
{
	for (unsigned i = 0; i < world->end_count; i++)
		if (!end_done(world->ends[i]))
			return false;
	return true;
}

static void check_buffers(struct end *end)
{
	for (unsigned i = 0; i < end->posted; i++)
		if (!buffer_intact(&end->ops[i].buffer))
			world_fail(end->world,
				   "end %u: memory of op %u was written to late or beyond",
				   end->index, i);
}

static void check_region(struct end *end)
{
	bool failed = end->peer->failed || end->peer->closed || end->peer->killed;

	if (end->type == IBV_QPT_RC && !failed) {
		model_apply(end, end->peer->posted);
		if (next_message(end->peer, end->next_message) != end->peer->posted)
			world_fail(end->world, "end %u: messages from op %u on were never received",
				   end->index, end->next_message);
	}
	model_check(end, 0, end->region_size);
}

void oracle_close(struct end *end)
{
	end->hash = bytes_hash(end->region, end->region_size, 0);
}

/*
 * Nobody floods the network: what is sent is in proportion to what there is to be sent, and to what
 * the network does to it. Behind an RNR NAK a window of packets goes out again.
 */
static void check_effort(struct world *world)
{
	uint64_t most = (world->harsh ? 30 : 12) * world->stats.offered + 200ull * world->end_count;

	for (unsigned i = 0; i < world->end_count; i++) {
		const struct end *end = world->ends[i];
		const struct vb_wired *wired = end->closed ? NULL : atomic_load(&end->qp->wired);

		most += wired ? 64 * wired->counters.rnr_naks : 0;
	}
	if (world->net.sent > most)
		world_fail(world, "%llu packets were sent for %llu useful ones",
			   (unsigned long long)world->net.sent,
			   (unsigned long long)world->stats.offered);
}

void oracle_final(struct world *world)
{
	check_effort(world);
	for (unsigned i = 0; i < world->end_count && !world->failure[0]; i++) {
		struct end *end = world->ends[i];

		check_buffers(end);
		if (end->type == IBV_QPT_UD)
			continue;
		check_region(end);
		if (end->closed && end->hash != bytes_hash(end->region, end->region_size, 0))
			world_fail(world, "end %u: its region was written to after RESET", i);
	}
	for (unsigned i = 0; i < world->recv_count && !world->failure[0]; i++)
		if (!buffer_intact(&world->recvs[i].buffer))
			world_fail(world, "memory of receive %u was written to late or beyond", i);
}
