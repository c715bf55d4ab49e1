/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "session.h"

enum { BATCH = 32, IDLE_MAX = 200, SLEEP_MS_MAX = 20 };

static void completion_take(struct session *session, const struct ibv_wc *wc)
{
	uint32_t number = (uint32_t)(wc->wr_id >> 40);
	bool receive = wc->wr_id >> 39 & 1;
	struct lane *lane = &session->lanes[number];

	CHECK(number < session->terms.lanes && wc->qp_num == lane->qp->qp_num,
	      "a completion of QP %#x with work request id %#llx, which is another one's",
	      wc->qp_num, (unsigned long long)wc->wr_id);
	if (receive) {
		target_receive(lane, wc, session->canary);
		session->arrival_us = clock_us();
	} else {
		initiator_complete(lane, wc);
		initiator_post(lane);
	}
}

static int completions_take(struct session *session)
{
	struct ibv_wc wc[BATCH];
	int count = ibv_poll_cq(session->home.cq, BATCH, wc);

	CHECK(count >= 0, "ibv_poll_cq: %s", strerror(-count));
	for (int i = 0; i < count; i++)
		completion_take(session, &wc[i]);
	return count;
}

static void events_take(struct session *session, bool arrived)
{
	struct ibv_cq *cq;
	void *context;

	if (!arrived)
		return;
	CHECK(!ibv_get_cq_event(session->home.channel, &cq, &context), "ibv_get_cq_event: %s",
	      strerror(errno));
	ibv_ack_cq_events(cq, 1);
}

/* The side channel wakes as well. The limit is for the quiet time that lossy transports wait. */
static void sleep_for_more(struct session *session)
{
	struct pollfd fds[] = { { .fd = session->home.channel->fd, .events = POLLIN },
				{ .fd = session->channel, .events = POLLIN } };
	int err = ibv_req_notify_cq(session->home.cq, 0);

	CHECK(!err, "ibv_req_notify_cq: %s", strerror(err));
	if (completions_take(session))
		return;
	/* A word of the peer that was not read yet must not turn this into a busy loop. */
	poll(fds, session->peer_done ? 1 : 2, SLEEP_MS_MAX);
	events_take(session, fds[0].revents & POLLIN);
}

void session_pump(struct session *session)
{
	if (completions_take(session)) {
		session->idle = 0;
		return;
	}
	if (session->home.channel && ++session->idle > IDLE_MAX)
		sleep_for_more(session);
}
