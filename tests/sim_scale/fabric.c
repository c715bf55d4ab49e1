/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links and the switch between them. A queue is not kept as a list: the time until which its link
 * is busy tells its length, and the time at which a packet that joins it arrives.
 */
#include <stdlib.h>
#include <string.h>

#include "scale.h"

enum {
	HEADERS_MOST = 64,     /* what is kept of a packet */
	FRAME = 38,            /* Ethernet: preamble, header, FCS, gap */
	IP_UDP = 28,           /* IPv4 */
	WRITE_MIDDLE = 12 + 4, /* BTH, ICRC */
	ECT = 2,
	CE = 3,
};

struct transit {
	struct transit *next; /* free ones */
	const struct vb_icrc_flow *flow;
	struct host *to;
	uint32_t length;
	uint8_t traffic_class;
	uint8_t headers[HEADERS_MOST];
};

static struct transit *spare;

static struct transit *transit_get(void)
{
	struct transit *transit = spare;

	if (!transit) {
		transit = malloc(sizeof(*transit));
		if (!transit)
			abort();
		return transit;
	}
	spare = transit->next;
	return transit;
}

static void transit_put(struct transit *transit)
{
	transit->next = spare;
	spare = transit;
}

void fabric_fini(void)
{
	while (spare) {
		struct transit *next = spare->next;

		free(spare);
		spare = next;
	}
}

double fabric_efficiency(const struct network_plan *plan)
{
	return (double)plan->mtu / (plan->mtu + FRAME + IP_UDP + WRITE_MIDDLE);
}

static uint64_t waiting_ps(const struct world *world, const struct link *link)
{
	const uint64_t now_ps = world->now_ns * 1000;

	return link->busy_ps > now_ps ? link->busy_ps - now_ps : 0;
}

double fabric_queue_bytes(const struct world *world, const struct link *link)
{
	return (double)waiting_ps(world, link) / link->ps_per_b;
}

/* Joins the queue of the link; returns when the packet is at the other end. */
static uint64_t link_take(const struct world *world, struct link *link, uint32_t length)
{
	link->busy_ps = world->now_ns * 1000 + waiting_ps(world, link) +
			(uint64_t)(length + FRAME + IP_UDP) * link->ps_per_b;
	return link->busy_ps / 1000 + link->delay_ns;
}

static bool link_loses(struct world *world, const struct link *link)
{
	return link->dark || (link->loss_ppm && rng_below(&world->rng, 1000000) < link->loss_ppm);
}

static uint64_t link_lateness_ns(struct world *world, const struct link *link)
{
	if (!link->late_ppm || rng_below(&world->rng, 1000000) >= link->late_ppm)
		return 0;
	return rng_below(&world->rng, link->late_ns);
}

static void lose(struct world *world, struct transit *transit)
{
	world->lost += world->counting;
	transit_put(transit);
}

/* The queue of a host's own link does not end: the host waits for it. */
void fabric_send(struct world *world, struct host *from, const struct vb_way *way,
		 const uint8_t *bytes, uint32_t length)
{
	struct transit *transit = transit_get();
	const uint64_t at_ns = link_take(world, &from->up, length);

	world->sent += world->counting;
	transit->flow = &way->flow;
	transit->to = &world->hosts[way->flow.dst[2] << 8 | way->flow.dst[3]];
	transit->length = length;
	transit->traffic_class = ECT;
	memcpy(transit->headers, bytes, length < HEADERS_MOST ? length : HEADERS_MOST);
	if (link_loses(world, &from->up))
		lose(world, transit);
	else
		agenda_add(&world->agenda, at_ns, EVENT_SWITCH, 0, transit);
}

/* The chance rises from 0 at mark_from to mark_ppm at mark_all, and is 1 from there on. */
static bool is_marked(struct world *world, double queue)
{
	const struct network_plan *plan = &world->plan;
	double chance;

	if (queue <= plan->mark_from)
		return false;
	if (queue >= plan->mark_all)
		return true;
	chance = plan->mark_ppm * (queue - plan->mark_from) / (plan->mark_all - plan->mark_from);
	return rng_below(&world->rng, 1000000) < (uint32_t)chance;
}

void fabric_switch(struct world *world, struct transit *transit)
{
	struct link *link = &transit->to->down;
	const double queue = fabric_queue_bytes(world, link);

	if (queue + transit->length > world->plan.buffer || link_loses(world, link)) {
		lose(world, transit);
		return;
	}
	if (is_marked(world, queue)) {
		transit->traffic_class = CE;
		world->marks += world->counting;
	}
	if (link->watched && world->counting && queue > world->queue_max)
		world->queue_max = queue;
	agenda_add(&world->agenda,
		   link_take(world, link, transit->length) + link_lateness_ns(world, link),
		   EVENT_ARRIVE, 0, transit);
}

void fabric_input(struct world *world, struct transit *transit)
{
	static uint8_t bytes[VB_PACKET_MAX];
	const struct vb_arrival arrival = {
		.flow = transit->flow,
		.bytes = bytes,
		.length = transit->length,
		.traffic_class = transit->traffic_class,
		.hop_limit = 63,
	};

	memcpy(bytes, transit->headers,
	       transit->length < HEADERS_MOST ? transit->length : HEADERS_MOST);
	host_arrived(world, transit->to, &arrival);
	transit_put(transit);
}

/* A slow host has a buffer in front of its CPU, which drops what does not fit and marks nothing. */
void fabric_arrive(struct world *world, struct transit *transit)
{
	struct host *host = transit->to;
	const uint64_t now_ps = world->now_ns * 1000;

	if (!host->ps_per_b) {
		fabric_input(world, transit);
		return;
	}
	if (host->input_ps < now_ps)
		host->input_ps = now_ps;
	if (host->input_ps - now_ps > (uint64_t)world->plan.input_room * host->ps_per_b) {
		lose(world, transit);
		return;
	}
	host->input_ps += (uint64_t)(transit->length + FRAME + IP_UDP) * host->ps_per_b;
	agenda_add(&world->agenda, host->input_ps / 1000, EVENT_INPUT, 0, transit);
}

void fabric_drop_all(struct world *world)
{
	while (world->agenda.count) {
		const struct event event = agenda_pop(&world->agenda);

		if (event.kind == EVENT_SWITCH || event.kind == EVENT_ARRIVE ||
		    event.kind == EVENT_INPUT)
			transit_put(event.subject);
	}
	agenda_fini(&world->agenda);
}
