/* SPDX-License-Identifier: BSD-2-Clause */
/* Applications: they post sends and receives at random times. */
#include <errno.h>
#include <string.h>

#include "sim.h"
#include "verbs/ops.h"
#include "verbs/qp_ex.h"

bool op_consumes(const struct op *op)
{
	return op->opcode == IBV_WR_SEND || op->opcode == IBV_WR_SEND_WITH_IMM ||
	       op->opcode == IBV_WR_SEND_WITH_INV || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_send(uint8_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV;
}

static bool is_atomic(uint8_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* 8 bytes at a multiple of 8. */
static bool is_word(uint8_t opcode)
{
	return is_atomic(opcode) || opcode == IBV_WR_ATOMIC_WRITE;
}

/* --- choosing --- */

/* In some worlds a part of the WRITEs is atomic. Not in those that seeds/past stand for. */
static bool writes_atomically(const struct end *end, unsigned index)
{
	return end->type == IBV_QPT_RC && end->world->seed % 5 == 2 && index % 2;
}

/* In some worlds, others again, a part of the READs is FLUSHes. */
static bool flushes(const struct end *end, unsigned index)
{
	return end->type == IBV_QPT_RC && end->world->seed % 11 == 4 && index % 2;
}

static uint8_t some_opcode(struct end *end)
{
	static const uint8_t opcodes[] = {
		IBV_WR_SEND,
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_BIND_MW,
		IBV_WR_SEND_WITH_INV,
	};

	return opcodes[rng_below(&end->rng, end->type == IBV_QPT_RC ? 13 : 6)];
}

static uint32_t some_length(struct end *end, uint32_t most)
{
	uint32_t kind = rng_below(&end->rng, 100), length;

	if (kind < 25)
		length = rng_below(&end->rng, 65);
	else if (kind < 65)
		length = rng_below(&end->rng, 4 * end->mtu + 1);
	else if (kind < 75) /* whole packets */
		length = rng_between(&end->rng, 1, 4) * end->mtu;
	else if (kind < 94)
		length = rng_below(&end->rng, 16384);
	else if (kind < 99)
		length = rng_below(&end->rng, 65537);
	else
		length = rng_below(&end->rng, 65536 * 4);
	return length < most ? length : most;
}

/* UC: few enough packets that a late one is known as such. */
static uint32_t uc_limit(const struct end *end)
{
	return 12 * end->mtu;
}

static void choose_length(struct end *end, struct op *op, uint32_t *length)
{
	const struct end *peer = end->peer;
	uint32_t most = is_send(op->opcode) ? peer->recvq->capacity : peer->region_size;

	if (end->type == IBV_QPT_UC && most > uc_limit(end))
		most = uc_limit(end);
	*length = is_word(op->opcode) ? 8 : some_length(end, most);
	if (op->opcode == IBV_WR_BIND_MW)
		*length = 0;
	if (is_word(op->opcode)) /* where WRITEs go as well */
		op->offset = rng_below(&end->rng, peer->region_size / 8) * 8;
	else if (!is_send(op->opcode))
		op->offset = rng_below(&end->rng, peer->region_size - *length + 1);
}

static enum ibv_wc_status status_of(enum flaw flaw)
{
	/* clang-format off */
	static const enum ibv_wc_status statuses[FLAW_COUNT] = {
		[FLAW_RKEY] = IBV_WC_REM_ACCESS_ERR,
		[FLAW_RANGE] = IBV_WC_REM_ACCESS_ERR,
		[FLAW_RIGHT] = IBV_WC_REM_ACCESS_ERR,
		[FLAW_QP_RIGHT] = IBV_WC_REM_INV_REQ_ERR,
		[FLAW_TOO_LONG] = IBV_WC_REM_INV_REQ_ERR,
		[FLAW_LKEY] = IBV_WC_LOC_PROT_ERR,
		[FLAW_ALIGN] = IBV_WC_REM_INV_REQ_ERR,
		[FLAW_SIZE] = IBV_WC_LOC_LEN_ERR,
		[FLAW_WINDOW] = IBV_WC_SUCCESS, /* it has arrived: its receive fails */
	};
	/* clang-format on */

	return statuses[flaw];
}

static bool flaw_fits(const struct end *end, const struct op *op, enum flaw flaw, uint32_t length)
{
	bool remote = !is_send(op->opcode) && op->opcode != IBV_WR_BIND_MW;

	switch (flaw) {
	case FLAW_RKEY:
	case FLAW_RANGE:
	case FLAW_RIGHT:
		return end->type == IBV_QPT_RC && remote && length;
	case FLAW_TOO_LONG:
		return end->type == IBV_QPT_RC && is_send(op->opcode);
	case FLAW_LKEY:
		return end->type == IBV_QPT_RC && length && op->opcode != IBV_WR_BIND_MW &&
		       op->opcode != IBV_WR_FLUSH;
	case FLAW_ALIGN:
	case FLAW_SIZE:
		return is_word(op->opcode);
	case FLAW_WINDOW:
		return op->opcode == IBV_WR_SEND_WITH_INV;
	case FLAW_NONE:
	case FLAW_QP_RIGHT:
	case FLAW_COUNT:
		break;
	}
	return false;
}

static unsigned right_needed(uint8_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_ATOMIC_WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_ACCESS_REMOTE_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_ACCESS_REMOTE_ATOMIC;
	case IBV_WR_FLUSH:
		return IBV_ACCESS_FLUSH_GLOBAL;
	}
	return 0;
}

static void choose_flaw(struct end *end, struct op *op, uint32_t *length)
{
	enum flaw flaw = (enum flaw)rng_between(&end->rng, 1, FLAW_COUNT - 1);

	if (end->world->flawed && rng_chance(&end->rng, 400) && flaw_fits(end, op, flaw, *length))
		op->flaw = flaw;
	/* What reads goes out even if its answer cannot be taken in: the target speaks first. */
	if (end->type == IBV_QPT_RC && right_needed(op->opcode) & ~end->peer->access &&
	    (op->flaw != FLAW_LKEY || op->opcode == IBV_WR_RDMA_READ || is_atomic(op->opcode)) &&
	    op->flaw != FLAW_SIZE)
		op->flaw = FLAW_QP_RIGHT;
	if (op->flaw == FLAW_TOO_LONG)
		*length = end->peer->recvq->capacity + rng_between(&end->rng, 1, 5000);
	if (op->flaw == FLAW_SIZE)
		*length = 16;
	if (op->flaw == FLAW_ALIGN)
		op->offset = op->offset ? op->offset - 4 : 4;
	op->expect = status_of(op->flaw);
}

/* The window that the peer has bound may be used, and taken back once. */
static void choose_window(struct end *end, struct op *op)
{
	struct end *peer = end->peer;

	if (op->opcode == IBV_WR_SEND_WITH_INV) {
		if (op->flaw == FLAW_WINDOW)
			op->imm = peer->mr_mute->ibv.rkey;
		else if (peer->window == WINDOW_BOUND)
			op->imm = peer->window_rkey, peer->window = WINDOW_GOING;
		else
			op->opcode = IBV_WR_SEND_WITH_IMM;
	} else if (!is_send(op->opcode) && op->opcode != IBV_WR_BIND_MW &&
		   op->opcode != IBV_WR_FLUSH && !op->flaw && peer->window == WINDOW_BOUND &&
		   rng_below(&end->rng, 2)) {
		op->rkey_window = peer->window_rkey;
	}
}

static bool can_bind(struct end *end)
{
	if (end->window != WINDOW_NONE || !end->mr)
		return false;
	return end->mw || !vb_mw_alloc(end->host->pd, IBV_MW_TYPE_2, &end->mw);
}

/* A fenced request may send on what a READ before it brings. */
static bool forwards(struct end *end, struct op *op, unsigned index)
{
	const struct op *before = index ? &end->ops[index - 1] : NULL;

	if (!before || before->opcode != IBV_WR_RDMA_READ || before->flaw || op->flaw ||
	    (op->opcode != IBV_WR_SEND && op->opcode != IBV_WR_RDMA_WRITE) ||
	    !rng_below(&end->rng, 2))
		return false;
	if (is_send(op->opcode) ? before->buffer.length > end->peer->recvq->capacity
				: before->buffer.length > end->peer->region_size)
		return false;
	op->buffer = before->buffer;
	op->fenced = true;
	op->offset = op->opcode == IBV_WR_SEND
			     ? 0
			     : rng_below(&end->rng, end->peer->region_size - op->buffer.length + 1);
	return true;
}

static bool choose(struct end *end, struct op *op, unsigned index)
{
	uint32_t length;

	*op = (struct op){ .opcode = some_opcode(end) };
	if (op->opcode == IBV_WR_BIND_MW && !can_bind(end))
		op->opcode = IBV_WR_SEND;
	if (op->opcode == IBV_WR_RDMA_WRITE && writes_atomically(end, index))
		op->opcode = IBV_WR_ATOMIC_WRITE;
	if (op->opcode == IBV_WR_RDMA_READ && flushes(end, index))
		op->opcode = IBV_WR_FLUSH;
	choose_length(end, op, &length);
	op->imm = (uint32_t)rng_next(&end->rng);
	choose_flaw(end, op, &length);
	choose_window(end, op);
	op->signaled = rng_chance(&end->rng, 6000) || index % 8 == 7 || index + 1 == end->planned;
	/* READs through the window must be over before it goes, as on every NIC. */
	op->fenced = rng_chance(&end->rng, 1500) || op->opcode == IBV_WR_SEND_WITH_INV;
	op->operand[0] = rng_below(&end->rng, 2) ? 0 : rng_next(&end->rng);
	op->operand[1] = rng_next(&end->rng);
	if (end->world->arena_used + length > ARENA_BYTES / 2)
		return false;
	if (forwards(end, op, index))
		return true;
	buffer_make(end->world, &end->rng, &op->buffer, length,
		    is_atomic(op->opcode) ? 1
		    : length              ? rng_between(&end->rng, 1, SGES_MAX)
					  : rng_below(&end->rng, 2),
		    end->host->arena_mr->ibv.lkey ^ (op->flaw == FLAW_LKEY ? 0x4000 : 0));
	if (op->opcode != IBV_WR_RDMA_READ && !is_atomic(op->opcode))
		buffer_fill(&op->buffer, &end->rng);
	op->inlined = length <= 128 && op->flaw != FLAW_LKEY && op->opcode != IBV_WR_RDMA_READ &&
		      !is_atomic(op->opcode) && op->opcode != IBV_WR_BIND_MW &&
		      op->opcode != IBV_WR_FLUSH && rng_below(&end->rng, 2);
	return true;
}

/* --- posting --- */

static void describe_bind(struct end *end, struct ibv_send_wr *wr)
{
	end->window = WINDOW_BINDING;
	end->window_rkey = ibv_inc_rkey(end->window_rkey ? end->window_rkey : end->mw->ibv.rkey);
	wr->bind_mw.mw = &end->mw->ibv;
	wr->bind_mw.rkey = end->window_rkey;
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = &end->mr->ibv,
		.addr = (uintptr_t)end->region,
		.length = end->region_size,
		.mw_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
}

static uint32_t rkey_of(const struct end *end, const struct op *op)
{
	if (!end->peer->mr) /* revoked: nothing has this key any more */
		return end->peer->mr_mute->ibv.rkey ^ 0x2000;
	if (op->flaw == FLAW_RKEY)
		return end->peer->mr->ibv.rkey ^ 0x2000;
	if (op->flaw == FLAW_RIGHT)
		return end->peer->mr_mute->ibv.rkey;
	return op->rkey_window ? op->rkey_window : end->peer->mr->ibv.rkey;
}

static void describe(struct end *end, struct op *op, unsigned index, struct ibv_send_wr *wr)
{
	uint64_t addr = (uintptr_t)end->peer->region + op->offset +
			(op->flaw == FLAW_RANGE ? end->peer->region_size : 0);

	*wr = (struct ibv_send_wr){
		.wr_id = (uint64_t)end->index << 32 | index,
		.sg_list = op->buffer.sge,
		.num_sge = (int)op->buffer.count,
		.opcode = (enum ibv_wr_opcode)op->opcode,
		.send_flags = (op->signaled ? IBV_SEND_SIGNALED : 0) |
			      (op->fenced ? IBV_SEND_FENCE : 0) |
			      (op->inlined ? IBV_SEND_INLINE : 0),
		.imm_data = op->imm, /* one union with invalidate_rkey */
	};
	if (op->opcode == IBV_WR_BIND_MW) {
		describe_bind(end, wr);
	} else if (is_atomic(op->opcode)) {
		wr->wr.atomic.remote_addr = addr;
		wr->wr.atomic.compare_add = op->operand[0];
		wr->wr.atomic.swap = op->operand[1];
		wr->wr.atomic.rkey = rkey_of(end, op);
	} else if (op->opcode == IBV_WR_FLUSH) { /* as ibv_wr_flush builds it */
		wr->wr.atomic.remote_addr = addr;
		wr->wr.atomic.compare_add = op->buffer.length;
		wr->wr.atomic.swap = IBV_FLUSH_GLOBAL;
		wr->wr.atomic.rkey = rkey_of(end, op);
	} else {
		wr->wr.rdma.remote_addr = addr;
		wr->wr.rdma.rkey = rkey_of(end, op);
	}
}

static bool post_one(struct end *end)
{
	struct op *op = &end->ops[end->posted];
	struct ibv_send_wr wr;
	struct vb_wired *wired = atomic_load(&end->qp->wired);
	int err;

	if (!choose(end, op, end->posted)) {
		end->planned = end->posted;
		return false;
	}
	describe(end, op, end->posted, &wr);
	err = -vb_post_whole(end->qp, &wr);
	if (err) {
		world_fail(end->world, "end %u: post of op %u: %s", end->index, end->posted,
			   strerror(err));
		return false;
	}
	end->posted++;
	end->world->stats.offered += op->buffer.length / end->mtu + 1;
	world_say(end->world, "end %u posts op %u opcode %u length %u flaw %u%s%s", end->index,
		  end->posted - 1, op->opcode, op->buffer.length, op->flaw,
		  op->fenced ? " fenced" : "", op->signaled ? " signaled" : "");
	if (wired)
		vb_roce_post(wired);
	return true;
}

static bool may_post(const struct end *end)
{
	enum ibv_qp_state state = end_state(end);

	return end->posted < end->planned && !vb_sq_full(&end->qp->sq) &&
	       (state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_ERR);
}

static void schedule(struct end *end)
{
	uint32_t pause_us =
		rng_chance(&end->rng, 9000) ? rng_below(&end->rng, 50) : rng_below(&end->rng, 3000);

	if (end->posted < end->planned)
		event_add(end->world, end->world->now_ns + pause_us * 1000ull + 1, EVENT_POST, end);
}

void load_post(struct end *end)
{
	unsigned count = rng_between(&end->rng, 1, 6);

	if (end->closed || !end->ready)
		return;
	end_core(end)->roce.now_ns = end->world->now_ns;
	if (end->type == IBV_QPT_UD) {
		datagram_post(end);
		oracle_poll(end->host); /* it is done already, and no packet need come */
	} else {
		while (count-- && may_post(end) && post_one(end))
			;
	}
	schedule(end);
}

void load_begin(struct end *end)
{
	schedule(end);
}

/* --- receives --- */

static int post_recv(struct recvq *recvq, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	return recvq->srq ? vb_ops_post_srq_recv(&recvq->srq->ibv, wr, &bad)
			  : vb_ops_post_recv(&recvq->end->qp->ibv, wr, &bad);
}

void load_receive(struct recvq *recvq)
{
	struct world *world = recvq->host->world;
	struct rng *rng = &world->rng;

	recvq->scheduled = false;
	while (recvq->outstanding < recvq->depth && world->recv_count < RECVS_MAX &&
	       !(recvq->end && recvq->end->closed)) {
		struct recv *recv = &world->recvs[world->recv_count];
		struct ibv_recv_wr wr = { .wr_id = world->recv_count | 1ull << 63 };

		*recv = (struct recv){ .recvq = recvq };
		/* Of a queue of one end, where it is known whom it hits. */
		recv->bad_lkey = world->flawed && recvq->end && recvq->end->type == IBV_QPT_RC &&
				 rng_chance(rng, 100);
		recvq->bad_posted |= recv->bad_lkey;
		buffer_make(world, rng, &recv->buffer, recvq->capacity,
			    rng_between(rng, 1, SGES_MAX),
			    recvq->host->arena_mr->ibv.lkey ^ (recv->bad_lkey ? 0x4000 : 0));
		wr.sg_list = recv->buffer.sge;
		wr.num_sge = (int)recv->buffer.count;
		if (post_recv(recvq, &wr)) {
			world_fail(world, "a receive cannot be posted");
			return;
		}
		world->recv_count++;
		recvq->outstanding++;
	}
}
