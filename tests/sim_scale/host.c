/* SPDX-License-Identifier: BSD-2-Clause */
/* Hosts: a protocol core each, QPs, and programs that write one message after the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sim/objects.h"
#include "scale.h"
#include "verbs/ops.h"
#include "verbs/qp_ex.h"

enum {
	MESSAGE = 64 << 10,
	DEPTH = 8,          /* messages that a program has posted */
	TURN_NS = 500,      /* from a packet to the turn that follows ... */
	TURN_MORE_NS = 500, /* ... and up to this much more */
	BURST_MOST = 64,
	TIMEOUT = 14, /* 67 ms */
	RETRIES = 7,
};

static struct vb_pd *pd;
static struct vb_mr *mr;
static uint8_t memory[MESSAGE];
static struct world *current; /* sinks have no other way to the world */

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "sim-scale: %s: %s\n", what, strerror(-err));
	exit(2);
}

static void address_of(unsigned host, uint8_t out[4])
{
	out[0] = 10;
	out[1] = 0;
	out[2] = (uint8_t)(host >> 8);
	out[3] = (uint8_t)host;
}

static void sink_send(void *arg, const struct vb_burst *bursts, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		for (uint32_t at = 0; at < bursts[i].length; at += bursts[i].segment) {
			const uint32_t rest = bursts[i].length - at;

			fabric_send(current, arg, bursts[i].way, bursts[i].bytes + at,
				    rest < bursts[i].segment ? rest : bursts[i].segment);
		}
}

static unsigned sink_burst_max(void *arg, const struct vb_way *way)
{
	(void)arg, (void)way;
	return BURST_MOST;
}

static int sink_resolve(void *arg, const struct vb_av *av, struct vb_peer *peer, uint32_t entropy,
			struct vb_way *way)
{
	(void)arg, (void)av, (void)peer, (void)entropy, (void)way;
	return -EHOSTUNREACH; /* connected QPs have their ways, and there are no others */
}

/* One PD and one region serve all: the payload is not carried. */
static void memory_open(void)
{
	struct vb_mr_spec spec = { (uintptr_t)memory, MESSAGE, (uintptr_t)memory,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

	if (pd)
		return;
	sim_objects_open();
	must(vb_pd_alloc(sim_context(), &pd), "PD");
	must(vb_mr_register(pd, &spec, &mr), "region");
}

static struct link link_of(const struct network_plan *plan)
{
	return (struct link){ .ps_per_b = 8000000 / plan->rate_mbps, .delay_ns = plan->delay_ns };
}

void hosts_open(struct world *world, unsigned count)
{
	struct vb_cq_spec cq = { .cqe = 8192 };

	memory_open();
	current = world;
	world->hosts = calloc(count, sizeof(*world->hosts));
	must(world->hosts ? 0 : -ENOMEM, "hosts");
	world->host_count = count;
	for (unsigned i = 0; i < count; i++) {
		struct host *host = &world->hosts[i];
		const struct vb_roce_sink sink = { host, sink_send, sink_burst_max, sink_resolve };

		host->index = i;
		host->turn_ns = VB_NEVER_NS;
		host->up = host->down = link_of(&world->plan);
		must(vb_roce_init(&host->roce, sim_nic(), &sink), "core");
		host->roce.thread = vb_thread_get();
		must(vb_cq_create(sim_context(), &cq, &host->cq), "CQ");
	}
}

/* --- QPs --- */

static struct end *end_new(struct world *world, unsigned host)
{
	struct end *end = calloc(1, sizeof(*end));
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	must(end ? 0 : -ENOMEM, "end");
	if (world->end_count == world->end_room) {
		world->end_room = world->end_room ? 2 * world->end_room : 64;
		world->ends = realloc(world->ends, world->end_room * sizeof(*world->ends));
		must(world->ends ? 0 : -ENOMEM, "ends");
	}
	world->ends[world->end_count++] = end;
	end->host = &world->hosts[host];
	init.send_cq = init.recv_cq = &end->host->cq->ibv;
	must(vb_qp_create(pd, &init, &end->qp), "QP");
	return end;
}

static void end_to_rtr(const struct end *end, uint32_t mtu)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	must(vb_qp_modify(end->qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)(__builtin_ctz(mtu) - 7),
		.dest_qp_num = end->peer->qp->ibv.qp_num,
		.ah_attr = { .is_global = 1, .port_num = 1 },
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
	};
	must(vb_qp_modify(end->qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "RTR");
}

static void end_adopt(const struct end *end)
{
	struct vb_way way = { .socket = -1, .kind = VB_WAY_UDP, .hop_limit = 64 };

	address_of(end->host->index, way.flow.src);
	address_of(end->peer->host->index, way.flow.dst);
	way.flow.src_port = (uint16_t)(0xc000 | (end->qp->ibv.qp_num & 0x3fff));
	way.flow.dst_port = VB_UDP_PORT_ROCE;
	vb_icrc_flow_init(&way.flow);
	must(vb_qp_token_try(end->qp) ? 0 : -EBUSY, "token");
	must(vb_roce_adopt(&end->host->roce, end->qp, &way), "adopt");
}

static void end_to_rts(const struct end *end)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	must(vb_qp_modify(end->qp, &attr,
			  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

struct end *end_connect(struct world *world, unsigned from, unsigned to, unsigned class)
{
	struct end *end = end_new(world, from), *peer = end_new(world, to);

	end->peer = peer;
	peer->peer = end;
	end_to_rtr(end, world->plan.mtu);
	end_to_rtr(peer, world->plan.mtu);
	end_adopt(end);
	end_adopt(peer);
	end_to_rts(end);
	end_to_rts(peer);
	end->sends = true;
	end->class = class;
	return end;
}

void end_answers(struct end *end, unsigned class)
{
	end->peer->sends = true;
	end->peer->class = class;
}

struct vb_wired *end_wired(const struct end *end)
{
	return atomic_load(&end->qp->wired);
}

uint32_t end_taken_psn(const struct end *end)
{
	return end_wired(end->peer)->resp.expected_psn;
}

static void end_destroy(struct end *end)
{
	vb_roce_drop(end_wired(end));
	vb_qp_close(end->qp, IBV_QPS_RESET);
	vb_qp_withdraw(end->qp);
	vb_qp_destroy(end->qp);
	free(end);
}

void hosts_close(struct world *world)
{
	for (unsigned i = 0; i < world->end_count; i++)
		end_destroy(world->ends[i]);
	fabric_drop_all(world);
	for (unsigned i = 0; i < world->host_count; i++) {
		vb_roce_fini(&world->hosts[i].roce);
		must(vb_cq_destroy(world->hosts[i].cq), "CQ");
	}
	free(world->ends);
	free(world->hosts);
}

/* --- programs --- */

static void program_post(struct end *end)
{
	struct ibv_sge sge = { (uintptr_t)memory, MESSAGE, mr->ibv.lkey };
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)end,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = (uintptr_t)memory, .rkey = mr->ibv.rkey },
	};

	must(vb_post_whole(end->qp, &wr), "post");
	vb_roce_post(end_wired(end));
}

static void program_poll(struct world *world, struct host *host)
{
	struct ibv_wc wc[16];
	int got;

	while ((got = vb_cq_poll(host->cq, 16, wc)) > 0)
		for (int i = 0; i < got; i++) {
			struct end *end = (struct end *)(uintptr_t)wc[i].wr_id;

			if (wc[i].status == IBV_WC_SUCCESS)
				program_post(end);
			else if (wc[i].status == IBV_WC_RETRY_EXC_ERR)
				world->figures.retry_exceeded++;
			end->failed |= wc[i].status != IBV_WC_SUCCESS;
		}
}

static void turn_soon(struct world *world, struct host *host, uint64_t at_ns)
{
	if (at_ns >= host->turn_ns)
		return;
	host->turn_ns = at_ns;
	agenda_add(&world->agenda, at_ns, EVENT_TURN, 0, host);
}

static void turn_after(struct world *world, struct host *host)
{
	turn_soon(world, host, world->now_ns + TURN_NS + rng_below(&world->rng, TURN_MORE_NS));
}

void host_arrived(struct world *world, struct host *host, const struct vb_arrival *arrival)
{
	host->roce.now_ns = world->now_ns;
	vb_roce_input(&host->roce, arrival);
	turn_after(world, host);
}

void host_turn(struct world *world, struct host *host, uint64_t at_ns)
{
	uint64_t next_ns;

	if (at_ns != host->turn_ns)
		return; /* an earlier one took its place */
	host->turn_ns = VB_NEVER_NS;
	host->roce.now_ns = world->now_ns;
	while (vb_roce_turn(&host->roce, false))
		;
	program_poll(world, host);
	next_ns = vb_roce_next_ns(&host->roce);
	if (!next_ns)
		turn_after(world, host);
	else if (next_ns != VB_NEVER_NS)
		turn_soon(world, host, next_ns > world->now_ns ? next_ns : world->now_ns + 1);
}

void ends_begin(struct world *world)
{
	for (unsigned i = 0; i < world->end_count; i++) {
		struct end *end = world->ends[i];

		end->host->roce.now_ns = world->now_ns;
		for (unsigned n = 0; end->sends && n < DEPTH; n++)
			program_post(end);
	}
	for (unsigned i = 0; i < world->host_count; i++)
		turn_after(world, &world->hosts[i]);
}
