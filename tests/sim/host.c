/* SPDX-License-Identifier: BSD-2-Clause */
/* Hosts: cores with an address, made once, and what a service thread would do for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nic/lane.h"
#include "sim.h"

static uint8_t *arena;
static struct host hosts[HOSTS_MAX];
static unsigned lanes = 1;

static void address_of(unsigned host, bool ipv6, uint8_t *out)
{
	static const uint8_t v6[16] = { 0xfd, 0x76, 0x62 }, v4[4] = { 10, 0, 0, 0 };

	memcpy(out, ipv6 ? v6 : v4, ipv6 ? 16 : 4);
	out[ipv6 ? 15 : 3] = (uint8_t)(host + 1);
}

void host_way(const struct host *host, unsigned to, uint32_t entropy, struct vb_way *way)
{
	*way = (struct vb_way){ .socket = -1, .kind = VB_WAY_UDP, .hop_limit = 64 };
	way->flow.ipv6 = host->world->net.ipv6;
	address_of(host->index, way->flow.ipv6, way->flow.src);
	address_of(to, way->flow.ipv6, way->flow.dst);
	way->flow.src_port = (uint16_t)(0xc000 | (entropy & 0x3fff));
	way->flow.dst_port = VB_UDP_PORT_ROCE;
	vb_icrc_flow_init(&way->flow);
}

static void sink_send(void *arg, const struct vb_burst *bursts, unsigned count)
{
	struct host *host = arg;

	for (unsigned i = 0; i < count; i++) {
		const struct vb_burst *burst = &bursts[i];

		for (uint32_t at = 0; at < burst->length; at += burst->segment) {
			uint32_t rest = burst->length - at;

			network_send(host->world, host->index, burst->way, burst->bytes + at,
				     rest < burst->segment ? rest : burst->segment);
		}
	}
}

/* Any number is right; the same one for the same world. */
static unsigned sink_burst_max(void *arg, const struct vb_way *way)
{
	const struct host *host = arg;

	return 1 + (unsigned)((host->world->seed * 31 + way->flow.dst[3] * 7u) % 64);
}

static int sink_resolve(void *arg, const struct vb_av *av, struct vb_peer *peer, uint32_t entropy,
			struct vb_way *way)
{
	(void)peer;
	host_way(arg, av->dgid.raw[15], entropy, way);
	way->sgid = av->sgid;
	way->dgid = av->dgid;
	way->traffic_class = av->traffic_class;
	way->hop_limit = av->hop_limit;
	return 0;
}

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "sim: %s: %s\n", what, strerror(-err));
	exit(2);
}

static void host_make(struct host *host, unsigned index)
{
	struct vb_roce_sink sink = { host, sink_send, sink_burst_max, sink_resolve };
	struct vb_mr_spec spec = { (uintptr_t)arena, ARENA_BYTES, (uintptr_t)arena,
				   IBV_ACCESS_LOCAL_WRITE };

	host->index = index;
	for (unsigned i = 0; i < CORES_MAX; i++) {
		struct core *core = &host->cores[i];

		core->host = host;
		must(vb_roce_init(&core->roce, sim_nic(), &sink), "core");
		core->roce.lane = i;
		core->roce.thread = vb_thread_get();
	}
	must(vb_pd_alloc(sim_context(), &host->pd), "PD");
	must(vb_mr_register(host->pd, &spec, &host->arena_mr), "region");
}

/* New ones for each world: they remember who was polled last, and how many there were. */
void host_open(struct host *host)
{
	struct vb_cq_spec cq = { .cqe = 8192 };

	for (unsigned i = 0; i < CQS; i++)
		must(vb_cq_create(sim_context(), &cq, &host->cq[i]), "CQ");
}

void host_close(struct host *host)
{
	for (unsigned i = 0; i < CQS; i++)
		must(vb_cq_destroy(host->cq[i]), "CQ");
}

/* What a core has learnt in another world, where it was later than it is now. */
static void core_forget(struct core *core)
{
	struct vb_roce *roce = &core->roce;

	core->turn_ns = VB_NEVER_NS;
	core->holding = false;
	vb_share_init(&roce->share);
	roce->paid_ns = roce->acks_ns = roce->gather_ns = 0;
	roce->past = (struct vb_wired_counters){ 0 };
	memset(roce->drops, 0, sizeof(roce->drops));
	memset(roce->ways, 0, sizeof(roce->ways));
}

void host_forget(struct host *host)
{
	for (unsigned i = 0; i < CORES_MAX; i++)
		core_forget(&host->cores[i]);
}

void world_lanes(unsigned count)
{
	lanes = count < CORES_MAX ? count : CORES_MAX;
}

struct host *hosts_get(void)
{
	if (arena)
		return hosts;
	sim_objects_open();
	sim_nic()->lanes_max = lanes;
	arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(arena == MAP_FAILED ? -12 : 0, "memory");
	for (unsigned i = 0; i < HOSTS_MAX; i++)
		host_make(&hosts[i], i);
	return hosts;
}

static uint64_t burst_of(struct host *host, const struct transit *transit)
{
	struct world *world = host->world;

	if (world->burst_at != host || world->burst_class != transit->traffic_class ||
	    memcmp(&world->burst_flow, &transit->flow, sizeof(transit->flow)) != 0)
		world->burst++;
	world->burst_at = host;
	world->burst_class = transit->traffic_class;
	world->burst_flow = transit->flow;
	return world->burst;
}

/* As a port does it (port/input.c): by the number of the QP. */
static struct core *core_for(struct host *host, const struct transit *transit)
{
	struct vb_packet packet;
	int lane = VB_LANE_FIRST;

	if (!vb_packet_parse(transit->bytes, transit->length, &packet))
		lane = vb_lane_of_qpn(sim_nic(), packet.dest_qpn);
	return &host->cores[lane < 0 ? VB_LANE_FIRST : lane];
}

struct core *host_input(struct host *host, struct transit *const *transits, unsigned count,
			unsigned *taken)
{
	static uint8_t bytes[TOGETHER_MAX * VB_PACKET_MAX];
	const struct transit *first = transits[0];
	struct core *core = core_for(host, first);
	struct vb_arrival arrival = {
		.flow = &first->flow,
		.bytes = bytes,
		.length = first->length,
		.traffic_class = first->traffic_class,
		.hop_limit = 60,
		.burst = burst_of(host, first),
		.more = count - 1,
	};

	for (unsigned i = 0; i < count; i++)
		memcpy(bytes + (size_t)i * first->length, transits[i]->bytes, first->length);
	core->roce.now_ns = host->world->now_ns;
	*taken = vb_roce_input(&core->roce, &arrival);
	return core;
}

/* Some turns keep their ACKs for the next, which is then due soon. */
void core_turn(struct core *core)
{
	struct world *world = core->host->world;
	bool hold = !core->holding && rng_chance(&world->rng, 3000);
	unsigned rounds = 0;

	core->roce.now_ns = world->now_ns;
	core->holding = hold;
	core->turn_ns = hold ? world->now_ns + rng_below(&world->rng, 20000) : VB_NEVER_NS;
	if (vb_roce_at_rest(&core->roce, hold))
		return;
	while (vb_roce_turn(&core->roce, hold))
		if (++rounds > 10000) {
			world_fail(world, "host %u never comes to rest", core->host->index);
			return;
		}
}

static void attend_end(struct end *end)
{
	uint32_t bits = atomic_exchange(&end->qp->lent->attention, 0);
	enum vb_reason reason = bits & 0xff;
	struct vb_wired *wired = atomic_load(&end->qp->wired);

	if (!(bits & VB_QP_ATTN_FAIL) || !vb_qp_enter_error(end->qp))
		return;
	if (vb_reason_row(reason)->event && !(bits & VB_QP_ATTN_QUIET))
		vb_qp_raise(end->qp, vb_reason_row(reason)->event);
	oracle_killed(end, reason);
	if (wired)
		vb_roce_post(wired);
}

void sim_attend(struct world *world)
{
	struct vb_nic *nic = sim_nic();
	uint32_t bits = atomic_load(&nic->seg.lent->attention)
				? atomic_exchange(&nic->seg.lent->attention, 0)
				: 0;

	if (bits & VB_ATTN_SRQ)
		vb_rq_collect_all_returned(nic);
	if (!(bits & VB_ATTN_QP) && !atomic_load(&nic->flushes_pending))
		return;
	for (unsigned i = 0; i < VB_ATTENTION_WORDS; i++)
		if (atomic_load(&nic->seg.lent->qp_attention[i]))
			atomic_store(&nic->seg.lent->qp_attention[i], 0);
	for (unsigned i = 0; i < world->end_count; i++) {
		struct end *end = world->ends[i];

		if (end->closed || !end->qp)
			continue;
		if (bits & VB_ATTN_QP)
			attend_end(end);
		if (end->qp->flush_pending)
			vb_qp_flush_check(end->qp);
	}
}
