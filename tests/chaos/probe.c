/* SPDX-License-Identifier: BSD-2-Clause */
/* After a death: a new party and the survivor talk at once, and nothing posted was lost. */
#include "party.h"

enum { PROBE_MESSAGES = 8, PROBE_DEADLINE_US = 5000000 };

typedef bool (*finished)(const struct flow *flow, uint64_t expected);

static bool got_and_sent(const struct flow *flow, uint64_t expected)
{
	return flow->messages_in == expected && flow_sent_all(flow);
}

static void run_until(struct party *party, struct flow *flow, finished condition, uint64_t expected,
		      const char *what)
{
	uint64_t start = clock_us();

	party_step(party, what);
	while (!condition(flow, expected)) {
		if (!flow_pump(flow))
			flow_idle(flow, -1, 1000);
		CHECK(clock_us() - start < PROBE_DEADLINE_US,
		      "%s: %llu of %llu messages, %llu sent %llu done, %u receives open", what,
		      (unsigned long long)flow->messages_in, (unsigned long long)expected,
		      (unsigned long long)flow->lane[0].tx.posted,
		      (unsigned long long)flow->lane[0].tx.done, flow->rx->busy);
	}
}

/* Both are through before either closes: on a wire the last acknowledgement must still get out. */
static void part(struct party *party, struct flow *flow, unsigned round, enum step step)
{
	struct hello bye;

	party_step(party, "waiting for bye");
	party_say(party, NULL, round, step);
	CHECK(party_hear(party, round, step, &bye), "the other party died in a probe");
	while (flow_poll(flow))
		;
}

static void meet(struct party *party, struct flow *flow, unsigned round, enum step step)
{
	struct hello hello;

	party_step(party, "waiting for hello of the probe");
	party_say(party, flow, round, step);
	CHECK(party_hear(party, round, step, &hello), "the other party died in a probe");
	flow_connect(flow, &hello);
}

static struct flow_shape shape_for(struct party *party, const struct order *order, enum step step)
{
	enum role other = party->role == ROLE_HOST ? ROLE_GUEST : ROLE_HOST;

	return (struct flow_shape){ .lanes = 1,
				    .depth = 16,
				    .size_max = 16384,
				    .events = order->round % 4 == party->role,
				    .tag_out = plan_tag(order->round, step, party->role),
				    .tag_in = plan_tag(order->round, step, other),
				    .seed = party->seed };
}

static void probe_pair(struct party *party, const struct order *order)
{
	static struct flow flow;
	struct flow_shape shape = shape_for(party, order, STEP_PROBE);

	shape.send_limit = PROBE_MESSAGES;
	flow_open(&flow, &party->rig, &shape, NULL);
	rx_fill(flow.rx);
	meet(party, &flow, order->round, STEP_PROBE);
	run_until(party, &flow, got_and_sent, PROBE_MESSAGES, "probing a new pair");
	part(party, &flow, order->round, STEP_PROBE);
	flow_close(&flow);
}

/* The survivor's receives were posted for the dead one: the new one consumes exactly these. */
static void probe_srq_rest(struct party *party, const struct order *order)
{
	static struct flow flow;
	struct flow_shape shape = shape_for(party, order, STEP_REST);

	shape.size_max = SRQ_SIZE;
	shape.send_limit = order->fresh ? order->rest : 0;
	flow_open(&flow, &party->rig, &shape, order->fresh ? NULL : party_srq(party));
	meet(party, &flow, order->round, STEP_REST);
	run_until(party, &flow, got_and_sent, order->fresh ? 0 : order->rest,
		  "using up the receives left in the SRQ");
	CHECK(!flow.rx->busy, "%u receives of the SRQ are lost", flow.rx->busy);
	part(party, &flow, order->round, STEP_REST);
	flow_close(&flow);
}

static void probe_ud_rest(struct party *party, const struct order *order, struct note *note)
{
	enum role other = party->role == ROLE_HOST ? ROLE_GUEST : ROLE_HOST;
	struct flow_shape shape = shape_for(party, order, STEP_REST);

	shape.ud = true;
	shape.depth = UD_DEPTH;
	shape.size_max = UD_SIZE;
	shape.send_limit = order->fresh ? order->rest : 0;
	struct flow *flow = party_ud(party, &shape);
	flow->repost = false;
	flow->tag_late = order->fresh ? 0 : plan_tag(order->round, STEP_TRAFFIC, other);
	meet(party, flow, order->round, STEP_REST);
	run_until(party, flow, got_and_sent, order->fresh ? 0 : order->rest,
		  "using up the receives left on the UD QP");
	CHECK(order->fresh || !flow->rx->busy, "%u UD receives are lost", flow->rx->busy);
	note->late = (unsigned)flow->late_in;
	part(party, flow, order->round, STEP_REST);
}

void party_probe(struct party *party, const struct order *order)
{
	struct note note = { .what = NOTE_PROBED, .round = order->round };

	rig_round(order->round);
	if (order->fresh)
		rig_name(party->role == ROLE_HOST ? "host" : "guest", "(new)");
	probe_pair(party, order);
	if (order->rest && order->rest_kind == KIND_SRQ)
		probe_srq_rest(party, order);
	if (order->rest && order->rest_kind == KIND_UD)
		probe_ud_rest(party, order, &note);
	note.holdings = holdings_now();
	party_note(party, &note);
}
