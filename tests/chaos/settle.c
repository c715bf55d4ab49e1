/* SPDX-License-Identifier: BSD-2-Clause */
/* After the death: what the survivor must find, kind by kind. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "party.h"

enum { AT_ONCE_US = 2000000, DEADLINE_US = 15000000 }; /* retries alone take 2.1 s */

/* A message may arrive between RTR and RTS, which is worth an event of its own. */
static void take_lane_event(struct flow *flow, struct lane *lane, enum ibv_event_type type)
{
	if (type == IBV_EVENT_COMM_EST)
		return;
	CHECK(type == IBV_EVENT_QP_LAST_WQE_REACHED && flow->rx->srq, "async event: %s",
	      ibv_event_type_str(type));
	CHECK(!lane->last_wqe, "QP_LAST_WQE_REACHED twice");
	lane->last_wqe = true;
}

static void take_async_events(struct flow *flow)
{
	struct pollfd fd = { .fd = flow->rig->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	while (poll(&fd, 1, 0) > 0) {
		struct lane *lane = NULL;

		CHECK(!ibv_get_async_event(flow->rig->ctx, &event), "ibv_get_async_event: %s",
		      strerror(errno));
		for (unsigned i = 0; i < flow->shape.lanes; i++) {
			if (event.element.qp == flow->lane[i].tx.qp)
				lane = &flow->lane[i];
		}
		CHECK(lane, "async event of something else: %s",
		      ibv_event_type_str(event.event_type));
		take_lane_event(flow, lane, event.event_type);
		ibv_ack_async_event(&event);
	}
}

/* A QP on an SRQ says by an event that it takes no more receives; one with its own flushes them. */
static bool is_settled(const struct flow *flow, bool connected)
{
	for (unsigned i = 0; i < flow->shape.lanes; i++) {
		if (flow->lane[i].tx.done < flow->lane[i].tx.posted)
			return false;
		if (flow->rx->srq && connected && !flow->lane[i].last_wqe)
			return false;
	}
	return flow->shape.ud || flow->rx->srq || !flow->rx->busy;
}

static void run_until_settled(struct party *party, struct flow *flow, bool connected)
{
	uint64_t start = clock_us();

	while (!is_settled(flow, connected)) {
		if (!flow_poll(flow))
			flow_idle(flow, flow->rig->ctx->async_fd, 100);
		take_async_events(flow);
		if (clock_us() - start < DEADLINE_US)
			continue;
		const struct tx *tx = &flow->lane[0].tx;
		FAIL("no end %d s after the death: lane 0 %llu posted %llu done, %u receives open, "
		     "last_wqe %d",
		     DEADLINE_US / 1000000, (unsigned long long)tx->posted,
		     (unsigned long long)tx->done, flow->rx->busy, flow->lane[0].last_wqe);
	}
	while (flow_poll(flow))
		;
	take_async_events(flow);
	party_step(party, "settled");
}

static void check_counts(const struct flow *flow, const struct tally *victim)
{
	uint64_t posted = atomic_load(&victim->messages_posted);
	uint64_t done = atomic_load(&victim->messages_done);

	CHECK(flow->messages_in <= posted, "%llu messages arrived, %llu were sent",
	      (unsigned long long)flow->messages_in, (unsigned long long)posted);
	/* A reliable send that completed has arrived, whatever happened to its sender afterwards.
	 */
	CHECK(flow->shape.ud || flow->messages_in >= done,
	      "%llu messages arrived, but %llu sends had completed with success",
	      (unsigned long long)flow->messages_in, (unsigned long long)done);
}

static void check_region(const struct flow *flow, const struct tally *victim)
{
	uint64_t posted = atomic_load(&victim->adds_posted);
	uint64_t done = atomic_load(&victim->adds_done);
	uint64_t found;

	if (!flow->region)
		return;
	flow_region_check(flow);
	memcpy(&found, flow->region + flow->map.counter, 8);
	CHECK(found >= done && found <= posted, "counter %llu after %llu of %llu FETCH_AND_ADD",
	      (unsigned long long)found, (unsigned long long)done, (unsigned long long)posted);
}

static void settle_rc(struct flow *flow, const struct plan *plan, bool connected)
{
	if (!connected || plan->finish_by_error)
		flow_error(flow);
	for (unsigned i = 0; i < flow->shape.lanes; i++)
		tx_post_marker(&flow->lane[i].tx);
}

static void check_failures(const struct flow *flow)
{
	for (unsigned i = 0; i < flow->shape.lanes; i++)
		CHECK(flow->lane[i].tx.failure, "a send to the dead succeeded (lane %u)", i);
}

/* Every lane had reached the other side before it died. */
static bool was_flowing(const struct flow *flow)
{
	for (unsigned i = 0; i < flow->shape.lanes; i++) {
		if (!flow->lane[i].next_in && !flow->lane[i].tx.succeeded)
			return false;
	}
	return true;
}

unsigned flow_settle(struct party *party, struct flow *flow, const struct plan *plan,
		     bool connected, struct note *note)
{
	const struct tally *victim = &party->board->tally[plan->victim];
	bool flowing = was_flowing(flow);
	uint64_t start = clock_us();

	party_step(party, "settling");
	flow->repost = false;
	if (!flow->shape.ud)
		settle_rc(flow, plan, connected);
	else if (connected)
		tx_post_marker(&flow->lane[0].tx);
	run_until_settled(party, flow, connected);
	note->flowing = flowing;
	note->settle_us = clock_us() - start;
	CHECK(!flowing || note->settle_us < AT_ONCE_US, "%llu ms until the peer's death showed",
	      (unsigned long long)note->settle_us / 1000);
	if (!flow->shape.ud)
		check_failures(flow);
	check_counts(flow, victim);
	check_region(flow, victim);
	return flow->shape.ud || flow->rx->srq ? flow->rx->busy : 0;
}
