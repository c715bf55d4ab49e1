/* SPDX-License-Identifier: BSD-2-Clause */
/* UD: messages of one packet, to anybody, which come once, not at all, or as often as the network
 * repeats them. */
#include <string.h>

#include "sim.h"
#include "verbs/ops.h"

enum { GRH = 40, UDP = 17 };

static struct end *some_target(struct end *end)
{
	struct world *world = end->world;

	for (;;) {
		struct end *target = world->ends[rng_below(&end->rng, world->end_count)];

		if (target->type == IBV_QPT_UD)
			return target;
	}
}

static struct vb_ah *ah_to(struct end *end, unsigned host)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	attr.grh.dgid.raw[15] = (uint8_t)host;
	attr.grh.sgid_index = (uint8_t)end->host->index;
	attr.grh.hop_limit = 64;
	if (!end->ah[host] && vb_ah_create(end->host->pd, &attr, &end->ah[host]))
		world_fail(end->world, "AH");
	return end->ah[host];
}

static uint32_t id_of(const struct end *end, unsigned index)
{
	return end->index << 16 | index;
}

static void choose(struct end *end, struct op *op, unsigned index)
{
	uint32_t length = rng_chance(&end->rng, 5000) ? rng_below(&end->rng, 100)
						      : rng_below(&end->rng, 4097);
	uint32_t id = id_of(end, index);

	*op = (struct op){ .opcode = IBV_WR_SEND_WITH_IMM, .imm = id };
	op->target = some_target(end)->index;
	op->wrong_qkey = rng_chance(&end->rng, 500);
	op->signaled = rng_chance(&end->rng, 5000) || index % 8 == 7 || index + 1 == end->planned;
	buffer_make(end->world, &end->rng, &op->buffer, length, 1, end->host->arena_mr->ibv.lkey);
	buffer_fill(&op->buffer, &end->rng);
	if (length >= 4 && rng_below(&end->rng, 2)) {
		op->opcode = IBV_WR_SEND;
		memcpy((void *)(uintptr_t)op->buffer.sge[0].addr, &id, 4);
	}
}

static void transmit(struct end *end)
{
	struct vb_notice notice = { 0 };
	uint64_t wait_ns = 0;

	while (!wait_ns && end->qp->sq.next != end->qp->sq.tail)
		wait_ns = vb_roce_datagram(&end_core(end)->roce, end->qp, NULL, &notice);
	if (notice.due)
		vb_cq_notify(end->qp->send_cq, end->qp->sends.bit, notice.error);
	vb_tx_flush(&end_core(end)->roce.tx);
	if (wait_ns)
		event_add(end->world, wait_ns, EVENT_DATAGRAMS, end);
}

void datagram_go_on(struct end *end)
{
	if (end->closed)
		return;
	end_core(end)->roce.now_ns = end->world->now_ns;
	transmit(end);
	oracle_poll(end->host);
}

void datagram_post(struct end *end)
{
	struct op *op = &end->ops[end->posted];
	const struct end *target;
	struct ibv_send_wr wr, *bad;

	if (end->posted == end->planned || vb_sq_full(&end->qp->sq))
		return;
	choose(end, op, end->posted);
	target = end->world->ends[op->target];
	wr = (struct ibv_send_wr){
		.wr_id = (uint64_t)end->index << 32 | end->posted,
		.sg_list = op->buffer.sge,
		.num_sge = 1,
		.opcode = (enum ibv_wr_opcode)op->opcode,
		.send_flags = op->signaled ? IBV_SEND_SIGNALED : 0,
		.imm_data = op->imm,
	};
	wr.wr.ud.ah = &ah_to(end, target->host->index)->ibv;
	wr.wr.ud.remote_qpn = target->qp->ibv.qp_num;
	wr.wr.ud.remote_qkey = target->qkey ^ (op->wrong_qkey ? 0x10 : 0);
	if (vb_ops_post_send(&end->qp->ibv, &wr, &bad)) {
		world_fail(end->world, "end %u: a datagram cannot be posted", end->index);
		return;
	}
	end->posted++;
	end->world->stats.offered++;
	transmit(end);
}

static struct op *find(struct end *end, const struct ibv_wc *wc, struct recv *recv,
		       struct end **sender)
{
	uint8_t bytes[GRH + 4] = { 0 };
	uint32_t id = wc->imm_data;

	buffer_read(&recv->buffer, bytes, wc->byte_len < GRH + 4 ? wc->byte_len : GRH + 4);
	if (!(wc->wc_flags & IBV_WC_WITH_IMM))
		memcpy(&id, bytes + GRH, 4);
	if (id >> 16 >= end->world->end_count)
		return NULL;
	*sender = end->world->ends[id >> 16];
	if ((*sender)->type != IBV_QPT_UD || (id & 0xffff) >= (*sender)->posted)
		return NULL;
	return &(*sender)->ops[id & 0xffff];
}

static const char *misfit(const struct end *end, const struct op *op, const struct end *sender,
			  const struct ibv_wc *wc, const struct recv *recv)
{
	static uint8_t got[8192], want[8192];
	bool imm = op->opcode == IBV_WR_SEND_WITH_IMM;

	if (op->target != end->index || op->wrong_qkey)
		return "target or Q_Key";
	if (wc->byte_len != GRH + op->buffer.length)
		return "length";
	if (wc->wc_flags != (IBV_WC_GRH | (imm ? IBV_WC_WITH_IMM : 0u)))
		return "flags";
	if (wc->src_qp != sender->qp->ibv.qp_num)
		return "source QP";
	buffer_read(&recv->buffer, got, wc->byte_len);
	buffer_read(&op->buffer, want, op->buffer.length);
	if (memcmp(got + GRH, want, op->buffer.length))
		return "bytes";
	if (got[end->world->net.ipv6 ? 6 : 29] != UDP ||
	    got[end->world->net.ipv6 ? 23 : 35] != sender->host->index + 1 ||
	    got[39] != end->host->index + 1)
		return "GRH";
	return NULL;
}

void datagram_received(struct end *end, const struct ibv_wc *wc, struct recv *recv)
{
	struct end *sender = NULL;
	struct op *op = find(end, wc, recv, &sender);
	const char *why = op ? misfit(end, op, sender, wc, recv) : "nobody sent it";

	if (why)
		world_fail(end->world, "end %u: wrong datagram: %s", end->index, why);
	else if (op->received++ && !end->world->net.repeat)
		world_fail(end->world, "end %u: a datagram came twice", end->index);
}
