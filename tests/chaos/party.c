/* SPDX-License-Identifier: BSD-2-Clause */
#include "party.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct rx *party_srq(struct party *party)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = SRQ_DEPTH, .max_sge = 1 } };

	if (!party->srq) {
		party->srq = ibv_create_srq(party->rig.pd, &attr);
		CHECK(party->srq, "ibv_create_srq: %s", strerror(errno));
		rx_open(&party->srq_rx, &party->rig, SRQ_DEPTH, SRQ_SIZE);
		party->srq_rx.srq = party->srq;
		party->srq_rx.shared = true;
	}
	return &party->srq_rx;
}

/* The QP is made once and keeps its receives; peers come and go. */
struct flow *party_ud(struct party *party, const struct flow_shape *shape)
{
	if (!party->ud_open)
		flow_open(&party->ud, &party->rig, shape, NULL);
	else
		flow_retune(&party->ud, shape);
	party->ud_open = true;
	return &party->ud;
}

/* Runs with every peer alive or dead as they may be; a failure has its own exit. */
static void run_traffic(struct party *party, struct flow *flow, unsigned round)
{
	bool flowing = false;
	unsigned empty = 0;

	while (!party->dead) {
		bool moved = flow_pump(flow);

		if (!flowing && (flow->messages_in || flow->lane[0].tx.succeeded)) {
			flowing = true;
			party_note(party, &(struct note){ .what = NOTE_FLOWING, .round = round });
		}
		if (flow->failed)
			CHECK(atomic_load(&party->board->doomed_round) == round + 1,
			      "a send failed before anybody died");
		if (!moved && flow->shape.events)
			flow_idle(flow, party->orders, 1000);
		if (!moved || ++empty % 64 == 0)
			party_look(party);
	}
}

static struct flow *open_traffic(struct party *party, const struct plan *plan, struct flow *own)
{
	struct flow_shape shape = plan_shape(plan, party->role, &party->board->tally[party->role]);
	struct flow *flow = own;

	if (plan->kind == KIND_UD)
		flow = party_ud(party, &shape);
	else
		flow_open(own, &party->rig, &shape,
			  plan->kind == KIND_SRQ ? party_srq(party) : NULL);
	flow->tag_late = 0;
	rx_fill(flow->rx);
	flow->repost = flow->may_fail = true;
	return flow;
}

void party_traffic(struct party *party, unsigned round)
{
	static struct flow own;
	static struct plan plan; /* a failure names it, whenever it comes */
	struct note note = { .what = NOTE_SETTLED, .round = round };
	struct hello hello;
	bool connected;

	plan = plan_make(party->seed, round);
	rig_round(round);
	rig_name(party->role == ROLE_HOST ? "host" : "guest", plan.text);
	party_step(party, "opening");
	struct flow *flow = open_traffic(party, &plan, &own);
	party_say(party, flow, round, STEP_TRAFFIC);
	party_step(party, "waiting for hello");
	connected = party_hear(party, round, STEP_TRAFFIC, &hello);
	if (connected) {
		party_step(party, "connecting");
		flow_connect(flow, &hello);
		party_note(party, &(struct note){ .what = NOTE_CONNECTED, .round = round });
		party_step(party, "in traffic");
		run_traffic(party, flow, round);
	}
	note.rest = flow_settle(party, flow, &plan, connected, &note);
	if (flow == &own)
		flow_close(flow);
	party_note(party, &note);
}

static void quit(struct party *party)
{
	if (party->ud_open)
		flow_close(&party->ud);
	if (party->srq) {
		int err = ibv_destroy_srq(party->srq);

		CHECK(!err, "ibv_destroy_srq: %s", strerror(err));
		rx_close(&party->srq_rx);
	}
	rig_close(&party->rig);
	_exit(0);
}

static void obey(struct party *party, const struct order *order)
{
	party->dead = false;
	switch (order->what) {
	case ORDER_TRAFFIC:
		party_traffic(party, order->round);
		break;
	case ORDER_PROBE:
		party_probe(party, order);
		break;
	case ORDER_DEAD: /* came after all was over */
		break;
	case ORDER_QUIT:
		if (order->round % 2)
			_exit(0); /* leaving everything to the kernel is as good */
		quit(party);
	}
}

void party_main(enum role role, int orders, int peer, struct board *board, uint64_t seed)
{
	static struct party party;
	struct order order;

	party = (struct party){
		.role = role, .orders = orders, .peer = peer, .board = board, .seed = seed
	};
	rig_name(role == ROLE_HOST ? "host" : "guest", "");
	party_step(&party, "opening the device");
	rig_open(&party.rig);
	for (;;) {
		party_step(&party, "idle");
		if (recv(orders, &order, sizeof(order), 0) != sizeof(order))
			_exit(2);
		obey(&party, &order);
	}
}
