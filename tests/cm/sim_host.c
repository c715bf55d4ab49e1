/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes of a host share its QP 1: who gets a message, and what happens if nobody does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* --- a process --- */

static void on_send(void *arg, const struct vb_cm_route *route, const struct vb_cm_message *message)
{
	struct process *process = arg;

	network_send(process->world, route, message);
}

static void on_event(void *arg, struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event)
{
	struct end *end = vb_container(endpoint, struct end, endpoint);

	app_event(end, event);
}

static struct vb_cm_endpoint *on_incoming(void *arg, struct vb_cm_endpoint *listener)
{
	struct process *process = arg;
	struct end *end = calloc(1, sizeof(*end));

	end->process = process;
	end->passive = true;
	end->generation = process->generation;
	end->next = process->world->ends;
	process->world->ends = end;
	return &end->endpoint;
}

static bool on_gid_is_local(void *arg, const union ibv_gid *gid)
{
	struct process *process = arg;
	union ibv_gid own = host_gid(process->host, false);

	return host_of(process->world, gid, &own) == (int)process->host;
}

static uint64_t on_random(void *arg)
{
	struct process *process = arg;

	return rng_next(&process->world->rng);
}

static const struct vb_cm_ops ops = {
	.send = on_send,
	.event = on_event,
	.incoming = on_incoming,
	.gid_is_local = on_gid_is_local,
	.random = on_random,
};

static void open_listener(struct process *process, struct end *end, uint16_t space)
{
	struct vb_cm_listen_params params = {
		.service_id = vb_cm_service_id(space, (uint16_t)(PORT + process->index)),
		.family = VB_CM_DUAL,
		.backlog = process->backlog,
	};

	*end = (struct end){ .process = process };
	vb_cm_endpoint_init(&process->cm, &end->endpoint);
	if (vb_cm_listen(&end->endpoint, &params))
		world_fail(process->world, "cannot listen");
}

void process_start(struct process *process)
{
	process->alive = true;
	process->generation++;
	process->next_qpn = FIRST_QPN; /* a process in the same slot begins with the same QPs */
	vb_cm_init(&process->cm, process->slot, &ops, process);
	open_listener(process, &process->listener, RDMA_PS_TCP);
	open_listener(process, &process->sidr_listener, RDMA_PS_UDP);
}

static void bury(struct end *end, struct process *process)
{
	if (end->process == process && end->generation == process->generation &&
	    end->phase != PHASE_NONE)
		end->dead = true;
}

/* Without a word, as kill -9 does it. */
void process_crash(struct process *process)
{
	struct world *world = process->world;

	world_say(world, "process %u dies", process->index);
	world->stats.crashes++;
	for (unsigned i = 0; i < world->attempt_count; i++) {
		struct attempt *attempt = &world->attempts[i];

		bury(&attempt->active, process);
		for (unsigned k = 0; k < attempt->passive_count; k++)
			bury(attempt->passives[k], process);
	}
	process->alive = false;
	vb_cm_fini(&process->cm);
	for (unsigned i = 0; i < world->process_count; i++) {
		struct process *other = &world->processes[i];

		if (other->alive && other->host == process->host)
			vb_cm_slot_died(&other->cm, process->slot, world->now_ns);
	}
}

/* --- routing --- */

static struct process *by_service(struct world *world, int host, uint64_t service_id)
{
	unsigned index = vb_cm_service_port(service_id) - PORT;
	struct process *process;

	if (index >= world->process_count)
		return NULL;
	process = &world->processes[index];
	return process->alive && (int)process->host == host ? process : NULL;
}

static struct process *by_slot(struct world *world, int host, uint32_t id)
{
	for (unsigned i = 0; i < world->process_count; i++) {
		struct process *process = &world->processes[i];

		if (process->alive && (int)process->host == host && process->slot == id >> 20)
			return process;
	}
	return NULL;
}

/* A REJ by someone who never heard of the receiver's id could be for any of them. */
static void input_all(struct world *world, int host, const struct transit *transit,
		      const struct vb_cm_message *message)
{
	for (unsigned i = 0; i < world->process_count && world->broadcasts; i++) {
		struct process *process = &world->processes[i];

		if (process->alive && (int)process->host == host)
			vb_cm_input(&process->cm, &transit->route, message, world->now_ns);
	}
}

void host_input(struct world *world, const struct transit *transit)
{
	int host = host_of(world, &transit->route.local, &transit->route.remote);
	struct vb_cm_message message, answer;
	struct process *process;

	if (vb_cm_parse(transit->bytes, sizeof(transit->bytes), &message)) {
		world_fail(world, "a message does not parse");
		return;
	}
	if (message.attribute == VB_CM_REQ) {
		process = by_service(world, host, message.req.service_id);
	} else if (message.attribute == VB_CM_SIDR_REQ) {
		process = by_service(world, host, message.sidr_req.service_id);
	} else if (!vb_cm_receiver_id(&message)) {
		input_all(world, host, transit, &message);
		return;
	} else {
		process = by_slot(world, host, vb_cm_receiver_id(&message));
	}
	if (process)
		vb_cm_input(&process->cm, &transit->route, &message, world->now_ns);
	else if (vb_cm_stray(&message, &answer))
		network_send(world, &transit->route, &answer);
}
