/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that say anything at any time, to an application that does anything at any time: random
 * messages with ids, QP numbers and transactions that exist, in every state. Endpoints are memory
 * of their own and freed when they are destroyed, so that the sanitizers see whoever remembers one.
 * Everything follows from the seed of a world.
 */
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cm/cm.h"
#include "wire/mad.h"

enum { WORLDS = 300, MOVES = 1500, ENDPOINTS_MAX = 24, HEARD = 32, SLOT = 5, PORTS = 3 };
#define MS 1000000ull

struct world {
	struct vb_cm cm;
	uint64_t seed, now_ns;
	struct vb_cm_endpoint *endpoints[ENDPOINTS_MAX];
	unsigned count;
	struct vb_cm_message heard[HEARD]; /* what peers have got lately */
	unsigned heard_count;
	unsigned events[VB_CM_EVENTS];
};

static unsigned events_seen[VB_CM_EVENTS]; /* in all worlds */

static uint64_t draw(struct world *world)
{
	world->seed = world->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (world->seed ^ world->seed >> 31) * 0x9e3779b97f4a7c15ull >> 16;
}

static unsigned below(struct world *world, unsigned limit)
{
	return (unsigned)(draw(world) % limit);
}

static union ibv_gid gid4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	return (union ibv_gid){ .raw = { [10] = 0xff, 0xff, a, b, c, d } };
}

/* --- the callbacks --- */

static void on_send(void *arg, const struct vb_cm_route *route, const struct vb_cm_message *message)
{
	struct world *world = arg;
	uint8_t bytes[VB_MAD_SIZE];

	(void)route;
	vb_cm_emit(message, bytes);
	assert_int_equal(
		vb_cm_parse(bytes, sizeof(bytes), &world->heard[world->heard_count++ % HEARD]),
		VB_CM_OK);
}

static void on_event(void *arg, struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event)
{
	struct world *world = arg;
	unsigned known = 0;

	for (unsigned i = 0; i < world->count; i++)
		known += world->endpoints[i] == endpoint;
	assert_int_equal(known, 1);
	world->events[event->type]++;
	events_seen[event->type]++;
}

static struct vb_cm_endpoint *add(struct world *world)
{
	struct vb_cm_endpoint *endpoint;

	if (world->count == ENDPOINTS_MAX)
		return NULL;
	endpoint = malloc(sizeof(*endpoint));
	assert_non_null(endpoint);
	return world->endpoints[world->count++] = endpoint;
}

static struct vb_cm_endpoint *on_incoming(void *arg, struct vb_cm_endpoint *listener)
{
	struct world *world = arg;

	assert_int_equal(listener->state, VB_CM_LISTEN);
	return below(world, 16) ? add(world) : NULL;
}

static bool is_local(void *arg, const union ibv_gid *gid)
{
	const union ibv_gid own = gid4(10, 0, 0, 1), loopback = gid4(127, 0, 0, 1);

	(void)arg;
	return !memcmp(gid, &own, 16) || !memcmp(gid, &loopback, 16);
}

static uint64_t on_random(void *arg)
{
	return draw(arg);
}

static const struct vb_cm_ops ops = {
	.send = on_send,
	.event = on_event,
	.incoming = on_incoming,
	.gid_is_local = is_local,
	.random = on_random,
};

/* --- numbers that mean something --- */

static struct vb_cm_endpoint *any(struct world *world)
{
	return world->count ? world->endpoints[below(world, world->count)] : NULL;
}

/* Two other hosts, and two users of this one. */
static struct vb_cm_route any_route(struct world *world)
{
	const unsigned peer = below(world, 4);
	struct vb_cm_route route = { .local = gid4(10, 0, 0, 1) };

	route.remote = gid4(10, 0, 0, peer < 2 ? (uint8_t)(2 + peer) : 1);
	route.user = peer < 2 ? 0 : 1000 + peer;
	return route;
}

static uint32_t any_id(struct world *world)
{
	const struct vb_cm_endpoint *endpoint = any(world);

	switch (below(world, 4)) {
	case 0:
		return endpoint ? endpoint->local_id : 0;
	case 1:
		return endpoint ? endpoint->remote_id : 1;
	case 2:
		return below(world, 8);
	default:
		return 0x77000000 + below(world, 8);
	}
}

static uint32_t any_qpn(struct world *world)
{
	const struct vb_cm_endpoint *endpoint = any(world);

	return below(world, 2) || !endpoint ? below(world, 6) : endpoint->local_qpn;
}

static uint64_t any_service(struct world *world)
{
	return vb_cm_service_id(below(world, 4) ? RDMA_PS_TCP : RDMA_PS_UDP,
				(uint16_t)(7000 + below(world, PORTS)));
}

/* --- what peers say --- */

static struct vb_cm_message noise(struct world *world)
{
	struct vb_cm_message message = { .attribute = VB_CM_REQ + below(world, VB_CM_ATTRIBUTES) };
	uint8_t bytes[VB_MAD_SIZE];

	vb_cm_emit(&message, bytes);
	/* Behind the header of a management datagram. */
	for (unsigned i = 0; i < 32; i++)
		bytes[24 + below(world, VB_MAD_SIZE - 24)] = (uint8_t)draw(world);
	if (vb_cm_parse(bytes, sizeof(bytes), &message) != VB_CM_OK)
		message = (struct vb_cm_message){ .attribute = VB_CM_DREQ };
	return message;
}

static struct vb_cm_message request(struct world *world, const struct vb_cm_route *route)
{
	struct vb_cm_message message = { .attribute = VB_CM_REQ };
	const struct vb_cm_ip ip = { .src = route->remote, .dst = route->local };

	message.req.local_comm_id = any_id(world);
	message.req.qpn = any_qpn(world);
	message.req.service_id = any_service(world);
	message.req.transport = below(world, 8) ? VB_CM_TRANSPORT_RC : VB_CM_TRANSPORT_UC;
	message.req.mtu = (uint8_t)(below(world, 16) ? IBV_MTU_1024 : draw(world) & 15);
	message.req.pkey = 0xffff;
	message.req.local_cm_timeout = (uint8_t)below(world, 32);
	message.req.max_cm_retries = (uint8_t)below(world, 16);
	message.req.primary.local_gid = route->remote;
	message.req.primary.remote_gid = route->local;
	vb_cm_ip_emit(&ip, message.req.private_data);
	return message;
}

static struct vb_cm_message question(struct world *world, const struct vb_cm_route *route)
{
	struct vb_cm_message message = { .attribute = VB_CM_SIDR_REQ };
	const struct vb_cm_ip ip = { .src = route->remote, .dst = route->local };

	message.sidr_req.request_id = any_id(world);
	message.sidr_req.service_id = any_service(world);
	message.sidr_req.pkey = 0xffff;
	vb_cm_ip_emit(&ip, message.sidr_req.private_data);
	return message;
}

static void set_ids(struct vb_cm_message *message, uint32_t local, uint32_t remote)
{
	/* At the same place in all of them but those of SIDR. */
	if (message->attribute == VB_CM_SIDR_REP) {
		message->sidr_rep.request_id = remote;
	} else {
		message->rtu.local_comm_id = local;
		message->rtu.remote_comm_id = remote;
	}
}

static struct vb_cm_message answer(struct world *world, const struct vb_cm_endpoint *endpoint)
{
	static const enum vb_cm_attribute all[] = {
		VB_CM_MRA,  VB_CM_REJ,      VB_CM_REP, VB_CM_RTU, VB_CM_DREQ,
		VB_CM_DREP, VB_CM_SIDR_REP, VB_CM_LAP, VB_CM_APR,
	};
	struct vb_cm_message message = { .attribute = all[below(world, 9)] };
	const uint32_t peer = endpoint->remote_id ? endpoint->remote_id : any_id(world);

	message.transaction_id = below(world, 4) ? endpoint->transaction_id : endpoint->probe_id;
	set_ids(&message, below(world, 8) ? peer : any_id(world), endpoint->local_id);
	if (message.attribute == VB_CM_MRA)
		message.mra.answers = (uint8_t)below(world, 3);
	if (message.attribute == VB_CM_MRA)
		message.mra.service_timeout = (uint8_t)below(world, 32);
	if (message.attribute == VB_CM_REJ)
		message.rej.reason = (uint16_t)below(world, 34);
	if (message.attribute == VB_CM_REP)
		message.rep.qpn = any_qpn(world);
	if (message.attribute == VB_CM_DREQ)
		message.dreq.remote_qpn = below(world, 8) ? endpoint->local_qpn : any_qpn(world);
	return message;
}

/* Who gave up before it heard of us names its own id and its device. */
static struct vb_cm_message timeout(struct world *world, const struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_message message = { .attribute = VB_CM_REJ };

	message.rej.local_comm_id = endpoint->remote_id;
	message.rej.reason = VB_CM_REJ_TIMEOUT;
	message.transaction_id = below(world, 4) ? endpoint->transaction_id : 0;
	message.rej.info_length = (uint8_t)(below(world, 4) ? 8 : 0);
	return message;
}

static void say(struct world *world)
{
	const struct vb_cm_endpoint *endpoint = any(world);
	struct vb_cm_route route = any_route(world);
	const unsigned kind = below(world, 12);
	struct vb_cm_message message;

	if (endpoint && kind > 3 && below(world, 8))
		route = endpoint->route;
	if (kind == 0)
		message = noise(world);
	else if (kind == 1 || !endpoint)
		message = below(world, 4) ? request(world, &route) : question(world, &route);
	else if (kind == 2)
		message = world->heard[below(world, HEARD)]; /* our own words */
	else if (kind == 3)
		message = timeout(world, endpoint);
	else
		message = answer(world, endpoint);
	if (!message.attribute)
		return;
	vb_cm_input(&world->cm, &route, &message, world->now_ns);
	if (below(world, 3) == 0)
		vb_cm_input(&world->cm, &route, &message, world->now_ns); /* twice */
}

/* --- what the application does --- */

static void begin_listening(struct world *world)
{
	const struct vb_cm_listen_params params = {
		.service_id = any_service(world),
		.family = VB_CM_IPV4,
		.backlog = below(world, 5),
		.qp_type = below(world, 2) ? 0 : IBV_QPT_RC,
	};
	struct vb_cm_endpoint *endpoint = add(world);

	if (!endpoint)
		return;
	vb_cm_endpoint_init(&world->cm, endpoint);
	(void)vb_cm_listen(endpoint, &params);
}

static void begin_connecting(struct world *world)
{
	const struct vb_cm_route route = any_route(world);
	const struct vb_cm_ip ip = { .src = route.local, .dst = route.remote };
	const struct vb_cm_connect_params req = {
		.route = { .local = route.local, .remote = route.remote },
		.service_id = any_service(world),
		.qpn = any_qpn(world),
		.qp_type = IBV_QPT_RC,
		.mtu = IBV_MTU_1024,
		.ip = &ip,
	};
	const struct vb_cm_sidr_params question_params = {
		.route = req.route,
		.service_id = req.service_id,
		.ip = &ip,
	};
	struct vb_cm_endpoint *endpoint = add(world);

	if (!endpoint)
		return;
	vb_cm_endpoint_init(&world->cm, endpoint);
	if (below(world, 6))
		assert_int_equal(vb_cm_connect(endpoint, &req, world->now_ns), 0);
	else
		assert_int_equal(vb_cm_sidr_request(endpoint, &question_params, world->now_ns), 0);
}

static void destroy(struct world *world, unsigned index)
{
	struct vb_cm_endpoint *endpoint = world->endpoints[index];

	world->endpoints[index] = world->endpoints[--world->count];
	if (below(world, 8))
		vb_cm_destroy(endpoint, world->now_ns);
	else
		vb_cm_forget(endpoint);
	free(endpoint);
}

static void use(struct world *world, struct vb_cm_endpoint *endpoint)
{
	const struct vb_cm_accept_params rep = { .qpn = any_qpn(world) };
	const struct vb_cm_sidr_reply_params sidr_rep = { .status = VB_CM_SIDR_SUCCESS };
	struct vb_cm_message probe;

	switch (below(world, 8)) {
	case 0:
		vb_cm_taken(endpoint);
		break;
	case 1:
		(void)vb_cm_accept(endpoint, &rep, world->now_ns);
		break;
	case 2:
		(void)vb_cm_establish(endpoint, world->now_ns);
		break;
	case 3:
		(void)vb_cm_disconnect(endpoint, world->now_ns);
		break;
	case 4:
		(void)vb_cm_notify(endpoint, world->now_ns);
		break;
	case 5:
		(void)vb_cm_sidr_reply(endpoint, &sidr_rep, world->now_ns);
		break;
	case 6:
		(void)vb_cm_probe(endpoint, &probe);
		break;
	case 7:
		if (!below(world, 3))
			(void)vb_cm_reject(endpoint, VB_CM_REJ_CONSUMER, NULL, 0, NULL, 0,
					   world->now_ns);
		break;
	}
}

static void pass_time(struct world *world)
{
	world->now_ns += below(world, 10) ? below(world, 100) * MS : below(world, 30000) * MS;
	vb_cm_tick(&world->cm, world->now_ns);
}

/* Processes and hosts that peers are on end. */
static void end_peers(struct world *world)
{
	const union ibv_gid host = gid4(10, 0, 0, (uint8_t)(1 + below(world, 3)));

	if (below(world, 2))
		vb_cm_host_died(&world->cm, &host, world->now_ns);
	else
		vb_cm_slot_died(&world->cm, any_id(world) >> 20, world->now_ns);
	vb_cm_data_arrived(&world->cm, any_qpn(world), world->now_ns);
}

static void move(struct world *world)
{
	const unsigned kind = below(world, 64);

	if (kind < 3)
		begin_listening(world);
	else if (kind < 10)
		begin_connecting(world);
	else if (kind < 14 && world->count)
		destroy(world, below(world, world->count));
	else if (kind < 24 && world->count)
		use(world, any(world));
	else if (kind < 30)
		pass_time(world);
	else if (kind == 30)
		end_peers(world);
	else
		say(world);
}

/* After the end of all endpoints, and time, nothing is left. */
static void end(struct world *world)
{
	while (world->count)
		destroy(world, 0);
	while (vb_cm_next_ns(&world->cm) != VB_NEVER_NS) {
		world->now_ns = vb_cm_next_ns(&world->cm);
		vb_cm_tick(&world->cm, world->now_ns);
	}
	assert_int_equal(world->cm.endpoint_count, 0);
	assert_int_equal(world->cm.orphan_count, 0);
	assert_int_equal(world->cm.by_local_id.count + world->cm.by_remote_id.count, 0);
	assert_int_equal(world->cm.by_local_qpn.count + world->cm.by_remote_qpn.count, 0);
	assert_int_equal(world->cm.by_service.count, 0);
	vb_cm_fini(&world->cm);
}

static void anybody_may_say_anything(void **state)
{
	for (uint64_t seed = 1; seed <= WORLDS; seed++) {
		struct world world = { .seed = seed, .now_ns = 1000 * MS };

		assert_int_equal(vb_cm_init(&world.cm, SLOT, &ops, &world), 0);
		for (int i = 0; i < MOVES; i++)
			move(&world);
		end(&world);
	}
	/* The worlds get everywhere: else the above says little. */
	for (unsigned i = 0; i < VB_CM_EVENTS; i++)
		if (i != VB_CM_EVENT_LAP_RECEIVED) /* there are no InfiniBand ports */
			assert_true(events_seen[i] > WORLDS / 10);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anybody_may_say_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
