/* SPDX-License-Identifier: BSD-2-Clause */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"

enum { QUIET_US = 200000, QUIET_LOOKS = 1000, QUIET_SLEEPS = 4 };

/* The client's terms hold; the MTU is the smaller one unless it was asked for. */
static void terms_agree(struct session *session)
{
	uint32_t other_mtu;

	if (session->is_client)
		channel_send(session->channel, &session->terms, sizeof(session->terms));
	else
		channel_receive(session->channel, &session->terms, sizeof(session->terms));
	CHECK(terms_valid(&session->terms), "the peer is not a transfer of this version");
	channel_send(session->channel, &session->home.mtu_bytes, sizeof(other_mtu));
	channel_receive(session->channel, &other_mtu, sizeof(other_mtu));
	if (other_mtu > session->home.mtu_bytes)
		other_mtu = session->home.mtu_bytes;
	if (!session->terms.mtu_bytes || session->terms.qp_type == IBV_QPT_UD)
		session->terms.mtu_bytes = other_mtu;
}

static void lanes_connect(struct session *session)
{
	uint32_t count = session->terms.lanes;

	/* A few at a time: neither side may block with full buffers. */
	for (uint32_t i = 0; i < count; i++) {
		channel_send(session->channel, &session->lanes[i].self, sizeof(struct lane_info));
		channel_receive(session->channel, &session->lanes[i].peer,
				sizeof(struct lane_info));
		session->lanes[i].peer_first = session->lanes[0].peer;
		lane_connect(&session->lanes[i], &session->home);
	}
}

void session_open(struct session *session, const struct options *options, int channel,
		  bool is_client)
{
	*session = (struct session){ .options = options,
				     .terms = options->terms,
				     .channel = channel,
				     .is_client = is_client };
	home_open(&session->home, options->device, options->gid_index);
	terms_agree(session);
	home_prepare(&session->home, &session->terms, options->events);
	session->lanes = calloc(session->terms.lanes, sizeof(*session->lanes));
	CHECK(session->lanes, "out of memory");
	for (uint32_t i = 0; i < session->terms.lanes; i++)
		lane_open(&session->lanes[i], &session->home, &session->terms, i, is_client);
	lanes_connect(session);
}

/* ---- one round ------------------------------------------------------------------------------- */

/* Another one than the target's: a READ that brings one of those too many must show. */
static uint8_t canary_local(const struct session *session)
{
	return (uint8_t)~session->canary;
}

static bool round_prepare(struct session *session)
{
	bool more = false;

	rig_round(++session->round);
	session->canary = canary_of(&session->terms, session->round);
	session->peer_done = false;
	for (uint32_t i = 0; i < session->terms.lanes; i++) {
		struct lane *lane = &session->lanes[i];

		if (lane->out && plan_round(lane->out))
			more = true;
		if (lane->in && plan_round(lane->in))
			more = true;
		if (lane->out)
			initiator_prepare(lane, canary_local(session));
		if (lane->in)
			target_prepare(lane, session->canary);
	}
	return more;
}

/* Both have prepared: their receives are posted, their memory is ready. */
static void round_meet(struct session *session)
{
	char word = 'R';

	channel_send(session->channel, &word, 1);
	channel_receive(session->channel, &word, 1);
	CHECK(word == 'R', "the peer is not in step: it says %c", word);
}

static bool all_initiated(const struct session *session)
{
	for (uint32_t i = 0; i < session->terms.lanes; i++)
		if (!initiator_done(&session->lanes[i]))
			return false;
	return true;
}

static bool all_received(const struct session *session)
{
	for (uint32_t i = 0; i < session->terms.lanes; i++)
		if (!target_done(&session->lanes[i]))
			return false;
	return true;
}

static void peer_look(struct session *session)
{
	char word;

	if (session->peer_done || !channel_look(session->channel, &word))
		return;
	CHECK(word == 'D', "the peer is not in step: it says %c", word);
	session->peer_done = true;
	session->arrival_us = clock_us();
}

/* A process that did not run for a while has to look first at what came meanwhile. */
static bool is_quiet(struct session *session)
{
	if (clock_us() - session->arrival_us <= QUIET_US) {
		session->quiet_looks = 0;
		return false;
	}
	return ++session->quiet_looks > (session->home.channel ? QUIET_SLEEPS : QUIET_LOOKS);
}

/* Unreliable transports end when all is there, or when nothing came for a while. */
static bool is_over(struct session *session)
{
	if (all_received(session))
		return true;
	return session->terms.qp_type != IBV_QPT_RC && is_quiet(session);
}

static void round_run(struct session *session)
{
	for (uint32_t i = 0; i < session->terms.lanes; i++)
		if (session->lanes[i].out)
			initiator_post(&session->lanes[i]);
	while (!all_initiated(session)) {
		session_pump(session);
		peer_look(session);
	}
	channel_send(session->channel, "D", 1);
	while (!session->peer_done || !is_over(session)) {
		session_pump(session);
		peer_look(session);
	}
}

static void round_count(struct session *session, const struct plan *plan)
{
	for (uint32_t i = 0; plan && i < plan->count; i++) {
		session->ops++;
		session->bytes += plan->op[i].length;
	}
}

static void round_check(struct session *session)
{
	for (uint32_t i = 0; i < session->terms.lanes; i++) {
		struct lane *lane = &session->lanes[i];

		if (lane->out)
			initiator_check(lane, canary_local(session));
		if (lane->in)
			target_check(lane, session->canary);
		round_count(session, lane->out);
		round_count(session, lane->in);
	}
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void words_check(const struct session *session)
{
	uint64_t shared = 0;

	for (uint32_t i = 0; i < session->terms.lanes; i++) {
		const struct lane *lane = &session->lanes[i];

		if (!lane->in)
			return;
		target_words_check(lane);
		shared += lane->in->shared_sum;
	}
	CHECK(session->lanes[0].words[WORD_SHARED] == shared,
	      "the word that all QPs add to holds %llu, the sum is %llu",
	      (unsigned long long)session->lanes[0].words[WORD_SHARED], (unsigned long long)shared);
}

/* Nothing may come when everything has been done. */
static void rest_check(const struct session *session)
{
	struct ibv_wc wc;
	int count = ibv_poll_cq(session->home.cq, 1, &wc);

	CHECK(!count, "a completion too many: QP %#x, work request id %#llx, %s", wc.qp_num,
	      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
}

void session_run(struct session *session)
{
	while (round_prepare(session)) {
		round_meet(session);
		round_run(session);
		round_check(session);
	}
	round_meet(session);
	words_check(session);
	rest_check(session);
}

struct tally session_tally(const struct session *session)
{
	struct tally sum = { 0 };

	for (uint32_t i = 0; i < session->terms.lanes; i++) {
		const struct tally *tally = &session->lanes[i].tally;

		sum.sent += tally->sent;
		sum.arrived += tally->arrived;
		sum.missing += tally->missing;
		sum.repeated += tally->repeated;
		sum.overtaken += tally->overtaken;
		sum.writes_partial += tally->writes_partial;
		sum.writes_missing += tally->writes_missing;
	}
	return sum;
}

void session_print(const struct session *session)
{
	uint32_t shown = 0;

	fprintf(stderr, "# round %u, peer %s\n", session->round,
		session->peer_done ? "done" : "not done");
	for (uint32_t i = 0; i < session->terms.lanes && shown < 8; i++) {
		const struct lane *lane = &session->lanes[i];

		if (!lane->qp || (initiator_done(lane) && target_done(lane)))
			continue;
		shown++;
		fprintf(stderr, "# QP %u (%#x): posted %u completed %u of %u, received %u of %u\n",
			i, lane->qp->qp_num, lane->posted, lane->completed,
			lane->out ? lane->out->count : 0, lane->received, lane->messages);
	}
}

void session_close(struct session *session)
{
	/* A peer that destroys its QPs early would look like a dead one. */
	round_meet(session);
	for (uint32_t i = 0; i < session->terms.lanes; i++)
		lane_close(&session->lanes[i]);
	home_close(&session->home);
	free(session->lanes);
}
