/* SPDX-License-Identifier: BSD-2-Clause */
/* What applications do: all of it is drawn when the world is planned. */
#include <string.h>

#include "sim.h"

enum { PROBES = 3 }; /* while a connection is held */

void app_fill(const struct attempt *attempt, unsigned salt, uint8_t *data, size_t length)
{
	struct rng rng = { attempt->pattern.state + salt };

	data[0] = (uint8_t)attempt->id;
	for (size_t i = 1; i < length; i++)
		data[i] = (uint8_t)rng_next(&rng);
}

/* --- plan --- */

static enum wish draw_wish(struct rng *rng)
{
	uint32_t x = rng_below(rng, 20);

	return x < 14 ? WISH_YES : x < 17 ? WISH_REJECT : x < 19 ? WISH_DESTROY : WISH_IGNORE;
}

/* Mostly at once, sometimes after seconds, rarely after a minute. */
static uint64_t draw_ns(struct rng *rng)
{
	static const uint64_t most_ns[] = { 1 * MS, 20 * MS, 500 * MS, 8000 * MS, 90000 * MS };
	uint32_t x = rng_below(rng, 20);
	unsigned kind = x < 8 ? 0 : x < 13 ? 1 : x < 17 ? 2 : x < 19 ? 3 : 4;

	return rng_next(rng) % most_ns[kind];
}

static void plan_words(struct attempt *attempt, struct rng *rng)
{
	attempt->connect = (struct vb_cm_connect_params){
		.qp_type = rng_below(rng, 4) ? IBV_QPT_RC : IBV_QPT_UC,
		.ca_guid = rng_next(rng),
		.srq = rng_below(rng, 2),
		.flow_control = rng_below(rng, 2),
		.responder_resources = (uint8_t)rng_next(rng),
		.initiator_depth = (uint8_t)rng_next(rng),
		.retry_count = (uint8_t)rng_below(rng, 8),
		.rnr_retry_count = (uint8_t)rng_below(rng, 8),
		.mtu = (enum ibv_mtu)(1 + rng_below(rng, 5)),
		.private_data_length = (uint8_t)(1 + rng_below(rng, 56)),
	};
	attempt->accept = (struct vb_cm_accept_params){
		.ca_guid = rng_next(rng),
		.srq = rng_below(rng, 2),
		.responder_resources = (uint8_t)rng_next(rng),
		.initiator_depth = (uint8_t)rng_next(rng),
		.rnr_retry_count = (uint8_t)rng_below(rng, 8),
		.private_data_length = (uint8_t)(1 + rng_below(rng, 196)),
	};
}

void app_plan(struct attempt *attempt, struct world *world)
{
	struct rng *rng = &world->rng;

	attempt->client = &world->processes[rng_below(rng, world->process_count)];
	attempt->server = &world->processes[rng_below(rng, world->process_count)];
	attempt->sidr = !rng_below(rng, 6);
	attempt->ipv6 = rng_below(rng, 2);
	attempt->loopback = attempt->client->host == attempt->server->host && rng_below(rng, 2);
	attempt->nobody = !rng_below(rng, 16);
	attempt->passive_wish = draw_wish(rng);
	attempt->active_wish = draw_wish(rng);
	attempt->begin_ns = world->now_ns + draw_ns(rng);
	attempt->think_ns = draw_ns(rng);
	attempt->take_ns = attempt->think_ns ? rng_next(rng) % attempt->think_ns : 0;
	attempt->ready_ns = draw_ns(rng);
	attempt->early_destroy_ns = draw_ns(rng);
	attempt->destroys_early = !rng_below(rng, 8);
	attempt->destroys_accepted = !rng_below(rng, 8);
	attempt->data = !rng_below(rng, 3);
	for (int i = 0; i < 2; i++) {
		attempt->hold_ns[i] = draw_ns(rng);
		attempt->disconnects[i] = rng_below(rng, 2);
		attempt->destroys[i] = !rng_below(rng, 3);
	}
	if (!rng_below(rng, 3)) /* both at once */
		attempt->hold_ns[1] = attempt->hold_ns[0];
	attempt->pattern = (struct rng){ rng_next(rng) };
	plan_words(attempt, rng);
	attempt->active = (struct end){ .attempt = attempt };
	world_add(world, attempt->begin_ns, EVENT_ACTION, ACTION_CONNECT, &attempt->active);
}

/* --- act --- */

static void later(struct end *end, uint64_t ns, enum action action)
{
	struct world *world = end->process->world;

	world_add(world, world->now_ns + ns, EVENT_ACTION, action, end);
}

static struct vb_cm_route route_of(const struct attempt *attempt)
{
	struct vb_cm_route route = {
		.local = host_gid(attempt->client->host, attempt->ipv6),
		.remote = host_gid(attempt->server->host, attempt->ipv6),
	};

	if (attempt->loopback)
		route.remote = (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
	if (attempt->loopback)
		route.local = host_gid(attempt->client->host, false);
	return route;
}

static uint64_t service_of(const struct attempt *attempt)
{
	unsigned port = PORT + (attempt->nobody ? 100 : attempt->server->index);

	return vb_cm_service_id(attempt->sidr ? RDMA_PS_UDP : RDMA_PS_TCP, (uint16_t)port);
}

static bool leaves_its_qp(const struct attempt *attempt, const struct process *client)
{
	return attempt->client == client && attempt->client_qpn && !attempt->bequeathed &&
	       !attempt->active.dead && attempt->active.generation == client->generation &&
	       (attempt->active.destroyed || attempt->active.phase == PHASE_OVER);
}

/* An application may connect a QP once more as soon as it has let go of the identifier. */
static uint32_t client_qpn(struct attempt *attempt)
{
	struct process *client = attempt->client;
	struct world *world = client->world;

	for (unsigned i = 0; i < world->attempt_count && world->inherits; i++)
		if (leaves_its_qp(&world->attempts[i], client)) {
			world->attempts[i].bequeathed = attempt->inherited = true;
			return world->attempts[i].client_qpn;
		}
	return client->slot << 12 | client->next_qpn++;
}

static int request(struct attempt *attempt, uint64_t now_ns)
{
	struct vb_cm_route route = route_of(attempt);
	struct vb_cm_ip ip = { .ipv6 = attempt->ipv6 && !attempt->loopback,
			       .src_port = 1,
			       .src = route.local,
			       .dst = route.remote };
	struct vb_cm_sidr_params sidr = { .route = route,
					  .service_id = service_of(attempt),
					  .ip = &ip };
	uint8_t data[256];

	app_fill(attempt, 0, data, sizeof(data));
	if (attempt->sidr) {
		sidr.private_data = data;
		sidr.private_data_length = VB_CM_SIDR_REQ_USER_SIZE;
		return vb_cm_sidr_request(&attempt->active.endpoint, &sidr, now_ns);
	}
	attempt->client_qpn = client_qpn(attempt);
	attempt->connect.route = route;
	attempt->connect.service_id = sidr.service_id;
	attempt->connect.qpn = attempt->client_qpn;
	attempt->connect.ip = &ip;
	attempt->connect.private_data = data;
	return vb_cm_connect(&attempt->active.endpoint, &attempt->connect, now_ns);
}

static void act_connect(struct end *end)
{
	struct attempt *attempt = end->attempt;
	struct process *process = attempt->client;

	if (!process->alive)
		return;
	end->process = process;
	end->generation = process->generation;
	end->phase = PHASE_CONNECTING;
	vb_cm_endpoint_init(&process->cm, &end->endpoint);
	if (request(attempt, process->world->now_ns))
		world_fail(process->world, "connect fails");
	attempt->client_psn = end->endpoint.rq_psn;
	process->world->stats.attempts++;
	if (attempt->destroys_early)
		later(end, attempt->early_destroy_ns, ACTION_DESTROY);
}

static void act_answer_sidr(struct end *end, uint64_t now_ns)
{
	struct vb_cm_sidr_reply_params params = { .qpn = 7, .qkey = 0x01234567 };
	uint8_t data[VB_CM_SIDR_REP_DATA_SIZE];

	app_fill(end->attempt, 1, data, sizeof(data));
	params.private_data = data;
	params.private_data_length = sizeof(data);
	if (end->attempt->passive_wish != WISH_YES)
		params = (struct vb_cm_sidr_reply_params){ .status = VB_CM_SIDR_REJECT };
	if (vb_cm_sidr_reply(&end->endpoint, &params, now_ns))
		world_fail(end->process->world, "sidr_reply fails");
	end->phase = PHASE_OVER;
	later(end, 0, ACTION_DESTROY);
}

static void act_accept(struct end *end, uint64_t now_ns)
{
	struct attempt *attempt = end->attempt;
	uint8_t data[256];

	app_fill(attempt, 1, data, sizeof(data));
	attempt->server_qpn = end->process->slot << 12 | end->process->next_qpn++;
	attempt->accept.qpn = attempt->server_qpn;
	end->qpn = attempt->server_qpn;
	end->comm_id = end->endpoint.local_id;
	attempt->accept.private_data = data;
	end->phase = PHASE_ACCEPTED;
	if (vb_cm_accept(&end->endpoint, &attempt->accept, now_ns))
		world_fail(end->process->world, "accept fails");
	if (attempt->destroys_accepted)
		later(end, attempt->early_destroy_ns, ACTION_DESTROY);
}

static void act_reject(struct end *end, uint64_t now_ns)
{
	uint8_t data[VB_CM_REJ_DATA_SIZE];

	app_fill(end->attempt, end->passive ? 2 : 3, data, sizeof(data));
	if (vb_cm_reject(&end->endpoint, VB_CM_REJ_CONSUMER, NULL, 0, data, sizeof(data), now_ns))
		world_fail(end->process->world, "reject fails");
	end->phase = PHASE_REJECTED;
	end->attempt->rejected_ns = now_ns;
	later(end, end->attempt->hold_ns[end->passive], ACTION_DESTROY);
}

static void act_decide(struct end *end, uint64_t now_ns)
{
	enum wish wish = end->attempt->passive_wish;

	if (end->phase != PHASE_CONNECTING || wish == WISH_IGNORE)
		return;
	if (wish == WISH_DESTROY)
		app_destroy(end);
	else if (end->attempt->sidr)
		act_answer_sidr(end, now_ns);
	else if (wish == WISH_REJECT)
		act_reject(end, now_ns);
	else
		act_accept(end, now_ns);
}

static void hold(struct end *end)
{
	struct attempt *attempt = end->attempt;
	unsigned side = end->passive;

	end->ever_established = true;
	for (unsigned i = 0; attempt->id % 2 && i < PROBES; i++)
		later(end, attempt->hold_ns[side] / PROBES * (i + 1), ACTION_PROBE);
	if (attempt->disconnects[side])
		later(end, attempt->hold_ns[side], ACTION_DISCONNECT);
	else if (attempt->destroys[side])
		later(end, attempt->hold_ns[side], ACTION_DESTROY);
}

static void act_ready(struct end *end, uint64_t now_ns)
{
	enum wish wish = end->attempt->active_wish;
	int rc;

	if (wish == WISH_IGNORE)
		wish = WISH_YES;
	if (wish == WISH_DESTROY) {
		app_destroy(end);
		return;
	}
	if (wish == WISH_REJECT && end->phase == PHASE_READYING) {
		act_reject(end, now_ns);
		return;
	}
	rc = vb_cm_establish(&end->endpoint, now_ns);
	if (rc == 0 && end->phase == PHASE_READYING) {
		end->phase = PHASE_ESTABLISHED;
		end->attempt->established_ns = now_ns;
		hold(end);
		if (end->attempt->data)
			later(end, 1 * MS, ACTION_DATA);
	} else if (rc == 0 && end->phase == PHASE_GONE) {
		end->ever_established = true;
	} else if (rc == 0 || end->phase != PHASE_OVER) {
		world_fail(end->process->world, "establish: %d in phase %d", rc, end->phase);
	}
}

/* Data from the active side arrives at the QP that it is connected to, if that still exists. */
static void act_data(struct end *end, uint64_t now_ns)
{
	struct attempt *attempt = end->attempt;

	if (end->phase != PHASE_ESTABLISHED || !attempt->server->alive)
		return;
	for (unsigned i = 0; i < attempt->passive_count; i++) {
		const struct end *passive = attempt->passives[i];

		if (!passive->dead && !passive->destroyed &&
		    passive->endpoint.remote_id == end->endpoint.local_id &&
		    passive->comm_id == end->endpoint.remote_id)
			vb_cm_data_arrived(&attempt->server->cm, passive->qpn, now_ns);
	}
}

/* Harmless to a connection that both sides have. */
static void act_probe(struct end *end)
{
	struct vb_cm_message probe;

	if (end->phase == PHASE_ESTABLISHED && vb_cm_probe(&end->endpoint, &probe))
		network_send(end->process->world, &end->endpoint.route, &probe);
}

static void act_disconnect(struct end *end, uint64_t now_ns)
{
	if (!end->asked_to_disconnect)
		end->asked_ns = now_ns;
	end->asked_to_disconnect = true;
	if (end->phase != PHASE_ESTABLISHED && end->phase != PHASE_DISCONNECTED)
		return;
	end->answered_ns = now_ns;
	if (vb_cm_disconnect(&end->endpoint, now_ns))
		world_fail(end->process->world, "disconnect fails in phase %d", end->phase);
}

/* Its memory must not be looked at any more. */
void app_destroy(struct end *end)
{
	struct world *world = end->process->world;

	world_say(world, "%s of %u is destroyed (%s)", end->passive ? "passive" : "active",
		  end->attempt->id, vb_cm_state_name(end->endpoint.state));
	if (end->phase == PHASE_ACCEPTED)
		end->gave_up = true;
	end->answered_ns = world->now_ns;
	vb_cm_destroy(&end->endpoint, world->now_ns);
	memset(&end->endpoint, 0xdd, sizeof(end->endpoint));
	end->destroyed = true;
}

void app_act(struct end *end, enum action action)
{
	uint64_t now_ns;

	if (action == ACTION_CONNECT) {
		act_connect(end);
		return;
	}
	if (end->dead || end->destroyed)
		return;
	now_ns = end->process->world->now_ns;
	switch (action) {
	case ACTION_TAKE:
		vb_cm_taken(&end->endpoint);
		break;
	case ACTION_DECIDE:
		act_decide(end, now_ns);
		break;
	case ACTION_READY:
		act_ready(end, now_ns);
		break;
	case ACTION_DATA:
		act_data(end, now_ns);
		break;
	case ACTION_PROBE:
		act_probe(end);
		break;
	case ACTION_DISCONNECT:
		act_disconnect(end, now_ns);
		break;
	case ACTION_DESTROY:
		app_destroy(end);
		break;
	case ACTION_CONNECT:
		break;
	}
}

/* --- hear --- */

static void adopt(struct end *end, const struct vb_cm_event *event)
{
	struct world *world = end->process->world;
	unsigned id = event->private_data[0];
	struct attempt *attempt = &world->attempts[id];

	if (id >= world->attempt_count || attempt->passive_count == PASSIVES_MAX) {
		world_fail(world, "a request of nobody, or too many");
		return;
	}
	end->attempt = attempt;
	attempt->passives[attempt->passive_count++] = end;
	end->phase = PHASE_CONNECTING;
}

void app_event(struct end *end, const struct vb_cm_event *event)
{
	uint32_t some_ns = rng_below(&end->process->world->rng, 1000 * MS);

	if (!end->attempt)
		adopt(end, event);
	if (!end->attempt)
		return;
	oracle_event(end, event);
	switch (event->type) {
	case VB_CM_EVENT_REQ_RECEIVED:
	case VB_CM_EVENT_SIDR_REQ_RECEIVED:
		later(end, end->attempt->take_ns, ACTION_TAKE);
		later(end, end->attempt->think_ns, ACTION_DECIDE);
		break;
	case VB_CM_EVENT_REP_RECEIVED:
		later(end, end->attempt->ready_ns, ACTION_READY);
		break;
	case VB_CM_EVENT_ESTABLISHED:
		hold(end);
		break;
	case VB_CM_EVENT_DISCONNECTED:
		/* Some never answer. */
		if (end->phase != PHASE_GONE && some_ns & 3)
			later(end, some_ns, some_ns & 1 ? ACTION_DESTROY : ACTION_DISCONNECT);
		break;
	case VB_CM_EVENT_REJECTED:
	case VB_CM_EVENT_UNREACHABLE:
	case VB_CM_EVENT_TIMEWAIT_EXIT:
	case VB_CM_EVENT_SIDR_REP_RECEIVED:
		if (some_ns & 1)
			later(end, some_ns, ACTION_DESTROY);
		break;
	case VB_CM_EVENT_LAP_RECEIVED: /* of InfiniBand: not in these worlds */
	case VB_CM_EVENTS:
		break;
	}
}
