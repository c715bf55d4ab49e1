/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that are not what they seem change nothing but counters. */
#include "rig.h"

static void expect_drop(struct rig *rig, enum vb_cm_drop drop)
{
	rig_event_none(rig);
	rig_take_none(rig);
	assert_int_equal(rig->incoming_count, 0);
	assert_int_equal(rig->cm.counters.drops[drop], 1);
	rig->cm.counters.drops[drop] = 0;
}

static void a_req_must_be_from_where_it_says(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message good = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN), bad = good;
	struct vb_cm_ip ip;

	rig_listen(rig, RIG_SERVICE, 0);
	bad.req.primary.local_gid = rig_gid4(10, 0, 0, 3);
	rig_give(rig, &bad);
	expect_drop(rig, VB_CM_DROP_ADDRESS);
	bad = good;
	assert_int_equal(vb_cm_ip_parse(bad.req.private_data, &ip), 0);
	ip.src = rig_gid4(10, 0, 0, 3);
	vb_cm_ip_emit(&ip, bad.req.private_data);
	rig_give(rig, &bad);
	expect_drop(rig, VB_CM_DROP_ADDRESS);
	bad = good;
	bad.req.private_data[0] = 0x10; /* another version of the header */
	rig_give(rig, &bad);
	expect_drop(rig, VB_CM_DROP_MALFORMED);
}

/* What listens on 127.0.0.1 is not for others. */
static void loopback_is_not_reached_from_outside(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);
	struct vb_cm_ip ip = { .src = rig->peer, .dst = rig_gid4(127, 0, 0, 1) };
	struct vb_cm_route within = { .local = rig->own, .remote = rig->own };

	rig_listen(rig, RIG_SERVICE, 0);
	vb_cm_ip_emit(&ip, req.req.private_data);
	rig_give(rig, &req);
	expect_drop(rig, VB_CM_DROP_ADDRESS);
	ip.src = rig_gid4(127, 0, 0, 1);
	ip.dst = rig->own;
	vb_cm_ip_emit(&ip, req.req.private_data);
	rig_give(rig, &req);
	expect_drop(rig, VB_CM_DROP_ADDRESS);
	/* Within this host it is one of many names. */
	ip.dst = ip.src;
	vb_cm_ip_emit(&ip, req.req.private_data);
	req.req.primary.local_gid = req.req.primary.remote_gid = ip.dst;
	rig_give_from(rig, &within, &req);
	rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED);
}

/* Right ids from a wrong address. */
static void only_the_peer_is_heard(void **state)
{
	struct rig *rig = *state;
	static const enum vb_cm_attribute all[] = { VB_CM_MRA,  VB_CM_REJ,  VB_CM_REP, VB_CM_RTU,
						    VB_CM_DREQ, VB_CM_DREP, VB_CM_LAP, VB_CM_APR };
	struct vb_cm_route stranger = { .local = rig->own, .remote = rig_gid4(10, 0, 0, 66) };

	rig_establish_active(rig, &rig->a);
	rig_connect(rig, &rig->b);
	rig_take(rig, VB_CM_REQ);
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct vb_cm_message message = rig_answer(&rig->a, all[i]);

		if (all[i] == VB_CM_DREQ)
			message = rig_dreq(&rig->a);
		rig_give_from(rig, &stranger, &message);
		expect_drop(rig, VB_CM_DROP_ADDRESS);
		message = all[i] == VB_CM_REP ? rig_rep(&rig->b) : rig_answer(&rig->b, all[i]);
		rig_give_from(rig, &stranger, &message);
		expect_drop(rig, VB_CM_DROP_ADDRESS);
	}
	assert_int_equal(rig->a.state, VB_CM_ESTABLISHED);
	assert_int_equal(rig->b.state, VB_CM_REQ_SENT);
}

/* The right address and our id, but not the peer's: somebody else on that host. */
static void the_peer_must_know_itself(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rej, dreq;

	rig_establish_active(rig, &rig->a);
	rej = rig_answer(&rig->a, VB_CM_REJ);
	rej.rej.local_comm_id++;
	rig_give(rig, &rej);
	expect_drop(rig, VB_CM_DROP_NO_ENDPOINT);
	dreq = rig_dreq(&rig->a);
	dreq.dreq.local_comm_id++;
	rig_give(rig, &dreq);
	rig_take(rig, VB_CM_DREP);
	rig_event_none(rig);
	assert_int_equal(rig->a.state, VB_CM_ESTABLISHED);
}

/* Our id is one of a million: who tries all of them still has to know the transaction. */
static void an_answer_knows_its_request(void **state)
{
	struct rig *rig = *state;
	static const enum vb_cm_attribute all[] = { VB_CM_MRA, VB_CM_REJ, VB_CM_REP };
	struct vb_cm_message rep;

	rig_request_sent(rig, &rig->a);
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct vb_cm_message message = rig_rep(&rig->a);

		if (all[i] != VB_CM_REP)
			message = rig_answer(&rig->a, all[i]);
		message.transaction_id ^= 1ull << 63;
		rig_give(rig, &message);
		rig->sent_head = rig->sent_tail; /* as to a stray */
		expect_drop(rig, VB_CM_DROP_NO_ENDPOINT);
		assert_int_equal(rig->a.state, VB_CM_REQ_SENT);
	}
	rep = rig_rep(&rig->a);
	rig_give(rig, &rep);
	rig_event(rig, &rig->a, VB_CM_EVENT_REP_RECEIVED);
}

/* A peer that we ask for a connection names a QP of somebody that we have one with. */
static void a_rep_ends_no_connection_of_another_user(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_route friend = { .local = rig->own, .remote = rig->own, .user = 1 + 1000 };
	struct vb_cm_route foe = { .local = rig->own, .remote = rig->own, .user = 1 + 1001 };
	struct vb_cm_message rep;

	rig->route = friend;
	rig->route.user = 0; /* as who asks knows it */
	rig_connect(rig, &rig->a);
	rig_take(rig, VB_CM_REQ);
	rep = rig_rep(&rig->a);
	rig_give_from(rig, &friend, &rep);
	rig_event(rig, &rig->a, VB_CM_EVENT_REP_RECEIVED);
	assert_int_equal(vb_cm_establish(&rig->a, rig->now_ns), 0);
	rig_take(rig, VB_CM_RTU);

	rig_connect(rig, &rig->b);
	rig_take(rig, VB_CM_REQ);
	rep = rig_rep(&rig->b);
	rep.rep.local_comm_id++;
	rig_give_from(rig, &foe, &rep);
	rig_event(rig, &rig->b, VB_CM_EVENT_REP_RECEIVED);
	rig_take_none(rig);
	assert_int_equal(rig->a.state, VB_CM_ESTABLISHED);
}

static void out_of_place(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message message;

	rig_request_sent(rig, &rig->a);
	message = rig_answer(&rig->a, VB_CM_RTU);
	rig_give(rig, &message);
	expect_drop(rig, VB_CM_DROP_STATE);
	message = rig_answer(&rig->a, VB_CM_DREP);
	rig_give(rig, &message);
	expect_drop(rig, VB_CM_DROP_STATE);
	message = rig_answer(&rig->a, VB_CM_MRA);
	message.mra.answers = VB_CM_ANSWERS_REP;
	rig_give(rig, &message);
	expect_drop(rig, VB_CM_DROP_STATE);
	message = (struct vb_cm_message){ .attribute = VB_CM_APR + 1 };
	vb_cm_input(&rig->cm, &rig->route, &message, rig->now_ns);
	expect_drop(rig, VB_CM_DROP_MALFORMED);
}

/* Thousands of requests: memory is bounded by the backlog, and time by hash tables. */
static void a_flood_is_bounded(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req;

	rig_listen(rig, RIG_SERVICE, 8);
	for (uint32_t i = 0; i < 100000; i++) {
		req = rig_req(rig, i, i);
		rig_give(rig, &req);
	}
	rig_take_none(rig);
	assert_int_equal(rig->incoming_count, 8);
	assert_int_equal(rig->cm.counters.drops[VB_CM_DROP_BACKLOG], 100000 - 8);
	rig->events_head = rig->events_tail;
}

static void many_orphans_are_bounded(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req;

	rig_listen(rig, RIG_SERVICE, 8);
	for (uint32_t i = 0; i < VB_CM_ORPHANS_MAX + 100; i++) {
		req = rig_req(rig, i, i);
		rig->incoming_count = 0;
		rig_give(rig, &req);
		vb_cm_destroy(rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED).endpoint, rig->now_ns);
		rig_take(rig, VB_CM_REJ);
	}
	assert_int_equal(rig->cm.orphan_count, VB_CM_ORPHANS_MAX);
	assert_int_equal(rig->cm.endpoint_count, VB_CM_ORPHANS_MAX);
}

/* Requests of one QP, each of which makes the one before stale; no application rejects them. */
static void refusals_leave_room_for_goodbyes(void **state)
{
	struct rig *rig = *state;

	rig_listen(rig, RIG_SERVICE, 0);
	for (uint32_t i = 0; i < 2 * VB_CM_ORPHANS_MAX; i++) {
		struct vb_cm_message req = rig_req(rig, i + 1, RIG_PEER_QPN);

		rig->incoming_count = 0;
		rig_give(rig, &req);
		if (i % 2)
			rig_take_rej(rig, VB_CM_REJ_STALE);
		else
			vb_cm_taken(rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED).endpoint);
		if (i % 2)
			vb_cm_forget(rig_event(rig, NULL, VB_CM_EVENT_REJECTED).endpoint);
	}
	assert_int_equal(rig->cm.orphan_count, VB_CM_ORPHANS_MAX / 2);
}

/* Whatever bits arrive. */
static void noise(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_establish_passive(rig);
	uint64_t x = 1;

	for (int i = 0; i < 200000; i++) {
		struct vb_cm_message message = { .attribute = VB_CM_REQ };
		uint8_t *bytes = (uint8_t *)&message.req;

		x = x * 6364136223846793005ull + 1442695040888963407ull;
		message.attribute = VB_CM_REQ + (x >> 33) % VB_CM_ATTRIBUTES;
		for (int k = 0; k < 64; k++)
			bytes[x >> (k % 13) & 0xff] = (uint8_t)(x >> k % 56);
		/* Half of them know an id of ours. */
		if (x >> 63)
			message.rtu.remote_comm_id = endpoint->local_id;
		message.rej.info_length = 0;
		vb_cm_input(&rig->cm, &rig->route, &message, rig->now_ns);
		rig->sent_head = rig->sent_tail;
		rig->incoming_count = 1;
	}
	rig_event_none(rig);
	assert_int_equal(endpoint->state, VB_CM_ESTABLISHED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		rig_test(a_req_must_be_from_where_it_says),
		rig_test(loopback_is_not_reached_from_outside),
		rig_test(only_the_peer_is_heard),
		rig_test(the_peer_must_know_itself),
		rig_test(an_answer_knows_its_request),
		rig_test(a_rep_ends_no_connection_of_another_user),
		rig_test(out_of_place),
		rig_test(a_flood_is_bounded),
		rig_test(many_orphans_are_bounded),
		rig_test(refusals_leave_room_for_goodbyes),
		rig_test(noise),
	};

	return rig_run(tests);
}
