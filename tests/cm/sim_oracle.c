/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an application may be told in which phase, and what must hold when nothing moves any more:
 * both sides are connected or neither is, unless one of them died or gave up without being heard.
 */
#include <string.h>

#include "sim.h"

#define LATE_NS (10000 * MS)
/* How long an answer may take by the REQs of these worlds: 4.096 us * 2^20. */
#define RESPONSE_NS (4096ull << 20)

static const char *side(const struct end *end)
{
	return end->passive ? "passive" : "active";
}

/* --- each event --- */

/* What a phase becomes by an event; a missing entry is an event that must not come. */
static const enum phase next_phase[PHASE_OVER + 1][VB_CM_EVENTS] = {
	[PHASE_CONNECTING] = {
		[VB_CM_EVENT_REQ_RECEIVED] = PHASE_CONNECTING,
		[VB_CM_EVENT_SIDR_REQ_RECEIVED] = PHASE_CONNECTING,
		[VB_CM_EVENT_REP_RECEIVED] = PHASE_READYING,
		[VB_CM_EVENT_SIDR_REP_RECEIVED] = PHASE_OVER,
		[VB_CM_EVENT_REJECTED] = PHASE_OVER,
		[VB_CM_EVENT_UNREACHABLE] = PHASE_OVER,
	},
	[PHASE_READYING] = {
		[VB_CM_EVENT_REJECTED] = PHASE_OVER,
		[VB_CM_EVENT_DISCONNECTED] = PHASE_GONE,
	},
	[PHASE_ACCEPTED] = {
		[VB_CM_EVENT_ESTABLISHED] = PHASE_ESTABLISHED,
		[VB_CM_EVENT_REJECTED] = PHASE_OVER,
		[VB_CM_EVENT_UNREACHABLE] = PHASE_OVER,
	},
	[PHASE_ESTABLISHED] = {
		[VB_CM_EVENT_DISCONNECTED] = PHASE_DISCONNECTED,
	},
	[PHASE_DISCONNECTED] = {
		[VB_CM_EVENT_TIMEWAIT_EXIT] = PHASE_OVER,
	},
	[PHASE_GONE] = {
		[VB_CM_EVENT_TIMEWAIT_EXIT] = PHASE_GONE,
	},
};

static void check_data(struct end *end, const struct vb_cm_event *event, unsigned salt,
		       size_t length, size_t field)
{
	uint8_t expected[256];

	app_fill(end->attempt, salt, expected, sizeof(expected));
	memset(expected + length, 0, sizeof(expected) - length);
	if (event->private_data_size != field || memcmp(event->private_data, expected, field))
		world_fail(end->process->world, "%s of %u: %s has other private data", side(end),
			   end->attempt->id, vb_cm_event_name(event->type));
}

static void check_req(struct end *end, const struct vb_cm_event *event)
{
	const struct attempt *attempt = end->attempt;
	const struct vb_cm_connect_params *said = &attempt->connect;
	const struct vb_cm_peer *heard = &event->peer;

	if (heard->qpn != attempt->client_qpn || heard->qp_type != said->qp_type ||
	    heard->sq_psn != attempt->client_psn || heard->ca_guid != said->ca_guid ||
	    heard->responder_resources != said->initiator_depth ||
	    heard->initiator_depth != said->responder_resources ||
	    heard->retry_count != said->retry_count || heard->mtu != said->mtu ||
	    heard->rnr_retry_count != said->rnr_retry_count || heard->srq != said->srq ||
	    heard->flow_control != said->flow_control || !event->has_ip)
		world_fail(end->process->world, "the REQ of %u arrives changed", attempt->id);
	check_data(end, event, 0, said->private_data_length, VB_CM_REQ_USER_SIZE);
}

/* The QP of whoever accepted: a process that died since may have done so, too. */
static uint32_t qpn_of(const struct attempt *attempt, uint32_t comm_id)
{
	for (unsigned i = 0; i < attempt->passive_count; i++)
		if (attempt->passives[i]->comm_id == comm_id)
			return attempt->passives[i]->qpn;
	return 0;
}

static void check_rep(struct end *end, const struct vb_cm_event *event)
{
	const struct attempt *attempt = end->attempt;
	const struct vb_cm_accept_params *said = &attempt->accept;
	const struct vb_cm_peer *heard = &event->peer;

	if (heard->qpn != qpn_of(attempt, end->endpoint.remote_id) ||
	    heard->ca_guid != said->ca_guid ||
	    heard->responder_resources != said->initiator_depth ||
	    heard->initiator_depth != said->responder_resources ||
	    heard->rnr_retry_count != said->rnr_retry_count || heard->srq != said->srq)
		world_fail(end->process->world, "the REP of %u arrives changed", attempt->id);
	check_data(end, event, 1, said->private_data_length, VB_CM_REP_DATA_SIZE);
}

static bool is_finished(const struct end *end)
{
	return end->dead || end->destroyed || end->phase == PHASE_OVER ||
	       end->phase == PHASE_REJECTED;
}

/* The QP of the peer counts as free from the DREQ on, whoever says it. */
static bool is_ending(const struct end *end)
{
	return end->phase == PHASE_DISCONNECTED ||
	       (end->phase == PHASE_ESTABLISHED && end->asked_to_disconnect);
}

/*
 * A copy of an earlier try, which had another id. A process that began anew since does not know
 * that its predecessor has refused it.
 */
static bool is_earlier_try(const struct end *old, const struct end *end)
{
	return is_ending(old) && old->endpoint.remote_id != end->endpoint.remote_id;
}

/* The application sees a request once, as long as it is busy with it. */
static void check_first(struct end *end)
{
	const struct attempt *attempt = end->attempt;

	for (unsigned i = 0; i + 1 < attempt->passive_count; i++)
		if (!is_finished(attempt->passives[i]) &&
		    !is_earlier_try(attempt->passives[i], end))
			world_fail(end->process->world, "the request %u arrives twice",
				   attempt->id);
}

static void check_rejected(struct end *end, const struct vb_cm_event *event)
{
	struct world *world = end->process->world;

	if (end->phase == PHASE_CONNECTING)
		end->reason = event->reason;
	world->stats.rejected++;
	world->stats.stale += event->reason == VB_CM_REJ_STALE;
	if (end->phase == PHASE_ACCEPTED)
		end->gave_up = true;
	if (event->reason != VB_CM_REJ_CONSUMER || !event->private_data || !event->private_data[1])
		return; /* not said by an application, or without a word */
	check_data(end, event, end->passive ? 3 : 2, VB_CM_REJ_DATA_SIZE, VB_CM_REJ_DATA_SIZE);
}

static struct end *peer_of(struct end *end)
{
	struct attempt *attempt = end->attempt;

	if (end->passive)
		return &attempt->active;
	return attempt->passive_count ? attempt->passives[attempt->passive_count - 1] : NULL;
}

/* When the peer's DREP leaves at the latest: with its application's answer, or without one. */
static uint64_t answer_ns(const struct end *end, const struct end *peer)
{
	const uint64_t asked_ns = end->asked_ns;

	if (!peer || peer->dead)
		return asked_ns;
	if (!peer->answered_ns)
		return asked_ns + RESPONSE_NS;
	return peer->answered_ns > asked_ns ? peer->answered_ns : asked_ns;
}

/*
 * Where nothing is lost, a DREQ is answered as fast as the network and the application go, and the
 * peer's application has heard that the connection is over by then.
 */
static void check_prompt(struct end *end)
{
	struct world *world = end->process->world;
	uint64_t round_ns = 2 * (world->delay_ns + world->jitter_ns);
	const struct end *peer = peer_of(end);

	if (!world_is_perfect(world) || !end->asked_to_disconnect)
		return;
	if (world->now_ns > answer_ns(end, peer) + round_ns)
		world_fail(world, "%s of %u waits for its disconnect", side(end), end->attempt->id);
	if (peer && !peer->destroyed && !peer->dead && peer->phase == PHASE_ESTABLISHED &&
	    !peer->asked_to_disconnect)
		world_fail(world, "%s of %u is disconnected, and its peer was not told", side(end),
			   end->attempt->id);
}

/* Where hardly anything is lost, nobody sits out the time that somebody once asked for. */
static void check_soon(struct end *end, uint64_t said_ns)
{
	struct world *world = end->process->world;

	if (world->loss <= 100 && !world->partition_count && !world->crashes && said_ns &&
	    world->now_ns > said_ns + LATE_NS)
		world_fail(world, "%s of %u hears very late what its peer said", side(end),
			   end->attempt->id);
}

static void check_content(struct end *end, const struct vb_cm_event *event)
{
	struct world *world = end->process->world;

	switch (event->type) {
	case VB_CM_EVENT_REQ_RECEIVED:
		check_first(end);
		check_req(end, event);
		break;
	case VB_CM_EVENT_SIDR_REQ_RECEIVED:
		check_first(end);
		check_data(end, event, 0, VB_CM_SIDR_REQ_USER_SIZE, VB_CM_SIDR_REQ_USER_SIZE);
		break;
	case VB_CM_EVENT_REP_RECEIVED:
		check_rep(end, event);
		break;
	case VB_CM_EVENT_SIDR_REP_RECEIVED:
		world->stats.sidr_answered += !event->sidr_status;
		if (!event->sidr_status)
			check_data(end, event, 1, VB_CM_SIDR_REP_DATA_SIZE,
				   VB_CM_SIDR_REP_DATA_SIZE);
		break;
	case VB_CM_EVENT_REJECTED:
		check_soon(end, end->attempt->rejected_ns);
		check_rejected(end, event);
		break;
	case VB_CM_EVENT_UNREACHABLE:
		end->gave_up |= end->phase == PHASE_ACCEPTED;
		world->stats.unreachable++;
		break;
	case VB_CM_EVENT_ESTABLISHED:
		check_soon(end, end->attempt->established_ns);
		world->stats.established++;
		break;
	case VB_CM_EVENT_DISCONNECTED:
		world->stats.disconnected++;
		check_prompt(end);
		break;
	case VB_CM_EVENT_TIMEWAIT_EXIT:
	case VB_CM_EVENT_LAP_RECEIVED: /* of InfiniBand: not in these worlds */
	case VB_CM_EVENTS:
		break;
	}
}

void oracle_event(struct end *end, const struct vb_cm_event *event)
{
	struct world *world = end->process->world;
	enum phase next = next_phase[end->phase][event->type];

	world_say(world, "       %s of %u hears: %s", side(end), end->attempt->id,
		  vb_cm_event_name(event->type));
	if (end->destroyed || end->dead)
		world_fail(world, "%s of %u hears \"%s\" after its end", side(end),
			   end->attempt->id, vb_cm_event_name(event->type));
	if (next == PHASE_NONE)
		world_fail(world, "%s of %u hears \"%s\" in phase %d", side(end), end->attempt->id,
			   vb_cm_event_name(event->type), end->phase);
	check_content(end, event);
	end->phase = next;
}

/* --- the end --- */

static bool is_connected(const struct end *end)
{
	return !end->dead && !end->destroyed && end->phase == PHASE_ESTABLISHED;
}

/* It may have failed to tell its peer. */
static bool is_excused(const struct end *end)
{
	return end->dead || end->gave_up || end->generation != end->process->generation;
}

/* Fifteen repetitions are more than such a network can swallow. */
static bool is_mild(const struct world *world)
{
	return world->loss <= 1000;
}

static bool is_friendly(const struct world *world)
{
	return is_mild(world) && !world->partition_count && !world->crashes;
}

bool oracle_is_widowed(struct end *end)
{
	struct end *peer = peer_of(end);

	return is_connected(end) && (!peer || !is_connected(peer) ||
				     peer->endpoint.local_id != end->endpoint.remote_id ||
				     peer->endpoint.remote_id != end->endpoint.local_id);
}

void oracle_widow(struct end *end)
{
	struct world *world = end->process->world;
	struct end *peer = peer_of(end);

	world->stats.widowed++;
	if ((is_mild(world) && (!peer || !is_excused(peer))) || is_friendly(world))
		world_fail(world, "%s of %u is connected, its peer is not", side(end),
			   end->attempt->id);
}

/* By now it has asked. */
static void check_connected(struct end *end)
{
	if (oracle_is_widowed(end))
		world_fail(end->process->world, "%s of %u stays connected to nobody", side(end),
			   end->attempt->id);
}

static void check_quiet(struct end *end)
{
	if (end->dead || end->destroyed || end->phase == PHASE_NONE)
		return;
	if (end->phase == PHASE_CONNECTING && end->passive &&
	    end->attempt->passive_wish == WISH_IGNORE)
		return;
	if (end->phase == PHASE_CONNECTING || end->phase == PHASE_READYING ||
	    end->phase == PHASE_ACCEPTED || is_ending(end))
		world_fail(end->process->world, "%s of %u hangs in phase %d, %s", side(end),
			   end->attempt->id, end->phase, vb_cm_state_name(end->endpoint.state));
}

/* Then all wishes come true. */
static void check_wishes(struct world *world, struct attempt *attempt)
{
	bool wanted = !attempt->sidr && !attempt->nobody && !attempt->destroys_early &&
		      !attempt->destroys_accepted && attempt->passive_wish == WISH_YES &&
		      (attempt->active_wish == WISH_YES || attempt->active_wish == WISH_IGNORE);

	/* Nobody can tell which of two requests with one QP is the older one. */
	if (attempt->inherited || attempt->bequeathed)
		return;
	if (attempt->active.reason == VB_CM_REJ_STALE && !world->loss && !world->partition_count)
		world_fail(world, "%u is stale, and nobody says why", attempt->id);
	if (!is_friendly(world) || attempt->server->backlog)
		return;
	if (wanted && (!attempt->active.ever_established || !attempt->passive_count ||
		       !attempt->passives[0]->ever_established))
		world_fail(world, "%u is not connected, and nothing is in the way", attempt->id);
	if (attempt->passive_count > 1 && world_is_perfect(world))
		world_fail(world, "%u arrives more than once", attempt->id);
}

static void check_attempt(struct world *world, struct attempt *attempt)
{
	check_connected(&attempt->active);
	check_quiet(&attempt->active);
	for (unsigned i = 0; i < attempt->passive_count; i++) {
		struct end *passive = attempt->passives[i];

		check_connected(passive);
		check_quiet(passive);
		if (passive->ever_established && !attempt->active.ever_established &&
		    !attempt->active.dead && !attempt->active.destroyed &&
		    attempt->active.phase != PHASE_GONE)
			world_fail(world, "%u is established on the passive side alone",
				   attempt->id);
	}
	check_wishes(world, attempt);
}

void oracle_final(struct world *world)
{
	for (unsigned i = 0; i < world->attempt_count; i++)
		if (world->attempts[i].active.process)
			check_attempt(world, &world->attempts[i]);
}

/* Everything was destroyed, and time has passed. */
void oracle_leaks(struct world *world)
{
	for (unsigned i = 0; i < world->process_count; i++) {
		const struct vb_cm *cm = &world->processes[i].cm;

		if (world->processes[i].listener.endpoint.half_open ||
		    world->processes[i].sidr_listener.endpoint.half_open)
			world_fail(world, "process %u counts requests that are gone", i);

		if (world->processes[i].alive &&
		    (cm->endpoint_count || cm->orphan_count || cm->by_local_id.count ||
		     cm->by_remote_id.count || cm->by_local_qpn.count || cm->by_remote_qpn.count ||
		     cm->by_service.count || cm->timers.count))
			world_fail(world, "process %u leaks", i);
	}
	for (unsigned i = 0; i < world->attempt_count; i++) {
		const uint8_t *bytes = (const uint8_t *)&world->attempts[i].active.endpoint;

		if (!world->attempts[i].active.destroyed)
			continue;
		for (size_t k = 0; k < sizeof(struct vb_cm_endpoint); k++)
			if (bytes[k] != 0xdd)
				world_fail(world, "memory of %u was written after destroy", i);
	}
}
