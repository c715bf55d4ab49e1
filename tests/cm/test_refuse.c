/* SPDX-License-Identifier: BSD-2-Clause */
/* What the passive side refuses: stale requests, and those that are given up or cannot be. */
#include "rig.h"

static void reject_is_said_again(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN), rej;
	struct vb_cm_endpoint *endpoint = rig_request(rig);
	uint8_t data[149] = "sorry";

	assert_int_equal(
		vb_cm_reject(endpoint, VB_CM_REJ_CONSUMER, NULL, 0, data, 149, rig->now_ns),
		-EINVAL);
	assert_int_equal(vb_cm_reject(endpoint, VB_CM_REJ_CONSUMER, data, 73, NULL, 0, rig->now_ns),
			 -EINVAL);
	assert_int_equal(
		vb_cm_reject(endpoint, VB_CM_REJ_CONSUMER, NULL, 0, data, 148, rig->now_ns), 0);
	rej = rig_take(rig, VB_CM_REJ);
	assert_int_equal(rej.rej.reason, 28);
	assert_int_equal(rej.rej.answers, VB_CM_ANSWERS_REQ);
	assert_string_equal((char *)rej.rej.private_data, "sorry");
	vb_cm_destroy(endpoint, rig->now_ns);
	rig_give(rig, &req);
	rej = rig_take(rig, VB_CM_REJ);
	assert_string_equal((char *)rej.rej.private_data, "sorry");
	rig_event_none(rig);
	/* Some day it is forgotten. */
	rig_wait(rig, 8000 * MS);
	assert_int_equal(rig->cm.orphan_count, 0);
}

/* Whatever pause a peer makes between its tries, Linux or ours, and whatever gets lost. */
static void a_refused_request_stays_refused_while_it_is_asked_for(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);
	struct vb_cm_endpoint *endpoint = rig_request(rig);

	vb_cm_reject(endpoint, VB_CM_REJ_CONSUMER, NULL, 0, NULL, 0, rig->now_ns);
	rig_take_rej(rig, VB_CM_REJ_CONSUMER);
	vb_cm_destroy(endpoint, rig->now_ns);
	for (int i = 0; i < 5; i++) {
		rig_wait(rig, 6443 * MS);
		rig_give(rig, &req);
		rig_take_rej(rig, VB_CM_REJ_CONSUMER);
		rig_event_none(rig);
	}
}

/* A peer that was told to wait does not ask for what got lost. */
static void a_rej_after_an_mra_is_repeated(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);
	struct vb_cm_endpoint *endpoint = rig_request(rig);

	rig_give(rig, &req);
	rig_take(rig, VB_CM_MRA);
	vb_cm_reject(endpoint, VB_CM_REJ_CONSUMER, NULL, 0, NULL, 0, rig->now_ns);
	rig_take_rej(rig, VB_CM_REJ_CONSUMER);
	vb_cm_destroy(endpoint, rig->now_ns);
	rig_wait(rig, 3000 * MS);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rig_take(rig, VB_CM_REJ).rej.reason, VB_CM_REJ_CONSUMER);
	rig_take_none(rig);
	rig_wait(rig, 8000 * MS);
	assert_int_equal(rig->cm.orphan_count, 0);
}

/* Same QP, another id: the peer does not know the old connection any more. */
static void a_stale_connection_is_disconnected(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *old = rig_establish_passive(rig);
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID + 1, RIG_PEER_QPN), rej, dreq, drep;

	rig_give(rig, &req);
	rej = rig_take(rig, VB_CM_REJ);
	assert_int_equal(rej.rej.reason, VB_CM_REJ_STALE);
	assert_int_equal(rej.rej.remote_comm_id, RIG_PEER_ID + 1);
	dreq = rig_take(rig, VB_CM_DREQ);
	assert_int_equal(dreq.dreq.remote_comm_id, RIG_PEER_ID);
	assert_true(vb_cm_stray(&dreq, &drep));
	rig_give(rig, &drep);
	rig_event(rig, old, VB_CM_EVENT_DISCONNECTED);
	/* Then it is welcome. */
	req.req.local_comm_id++;
	rig_give(rig, &req);
	rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED);
}

/* Numbers of QPs can be guessed. */
static void another_user_ends_no_connection(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID + 1, RIG_PEER_QPN);
	struct vb_cm_route forged = rig->route;
	struct vb_cm_endpoint *old = rig_establish_passive(rig);

	forged.user = 1 + 1000;
	rig_give_from(rig, &forged, &req);
	rig_take_none(rig);
	rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED); /* something new */
	rig_event_none(rig);
	assert_int_equal(old->state, VB_CM_ESTABLISHED);
}

/* A copy of a request that was refused as stale comes when all of the next attempt is over. */
static void a_stale_request_stays_refused(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *old = rig_establish_passive(rig), *next;
	struct vb_cm_message stale = rig_req(rig, RIG_PEER_ID + 1, RIG_PEER_QPN), fresh, drep;
	struct vb_cm_accept_params accept = rig_accept_params();

	rig_give(rig, &stale);
	assert_int_equal(rig_take(rig, VB_CM_REJ).rej.reason, VB_CM_REJ_STALE);
	fresh = rig_take(rig, VB_CM_DREQ);
	assert_true(vb_cm_stray(&fresh, &drep));
	rig_give(rig, &drep);
	rig_event(rig, old, VB_CM_EVENT_DISCONNECTED);
	fresh = rig_req(rig, RIG_PEER_ID + 2, RIG_PEER_QPN);
	rig_give(rig, &fresh);
	next = rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED).endpoint;
	assert_int_equal(vb_cm_accept(next, &accept, rig->now_ns), 0);
	rig_take(rig, VB_CM_REP);
	fresh = rig_answer(next, VB_CM_RTU);
	fresh.rtu.local_comm_id = next->remote_id;
	rig_give(rig, &fresh);
	rig_event(rig, next, VB_CM_EVENT_ESTABLISHED);
	/* It does the new connection no harm, and is none when that is over. */
	rig_give(rig, &stale);
	rig_take_rej(rig, VB_CM_REJ_STALE);
	fresh = rig_dreq(next);
	fresh.dreq.local_comm_id = next->remote_id;
	rig_give(rig, &fresh);
	rig_event(rig, next, VB_CM_EVENT_DISCONNECTED);
	vb_cm_disconnect(next, rig->now_ns);
	rig_take(rig, VB_CM_DREP);
	rig_give(rig, &stale);
	rig_take_rej(rig, VB_CM_REJ_STALE);
	rig_take_none(rig);
	rig_event_none(rig);
	/* One day it is forgotten. */
	vb_cm_destroy(old, rig->now_ns);
	vb_cm_destroy(next, rig->now_ns);
	rig_wait(rig, 10000 * MS);
	assert_int_equal(rig->cm.orphan_count, 0);
	assert_int_equal(rig->cm.by_remote_id.count, 0);
}

static void an_id_that_comes_back_with_another_qp_is_stale(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN + 1);

	rig_establish_passive(rig);
	rig_give(rig, &req);
	assert_int_equal(rig_take(rig, VB_CM_REJ).rej.reason, VB_CM_REJ_STALE);
	rig_take(rig, VB_CM_DREQ);
}

/* The peer has given up one attempt without a word, and tries again with the same QP. */
static void a_request_that_was_given_up_makes_room(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *old = rig_request(rig);
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID + 1, RIG_PEER_QPN);

	rig_give(rig, &req);
	rig_take_rej(rig, VB_CM_REJ_STALE);
	assert_int_equal(rig_event(rig, old, VB_CM_EVENT_REJECTED).event.reason, 10);
	req.req.local_comm_id++;
	rig_give(rig, &req);
	rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED);
}

/* Or so it seems: if the request that says so is older, the peer is content with the REP. */
static void an_accepted_request_that_is_given_up_is_taken_back(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *old = rig_accepted(rig);
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID + 1, RIG_PEER_QPN), rej;
	struct vb_cm_message rtu = rig_answer(old, VB_CM_RTU);

	rig_give(rig, &req);
	assert_int_equal(rig_take(rig, VB_CM_REJ).rej.remote_comm_id, RIG_PEER_ID + 1);
	rej = rig_take(rig, VB_CM_REJ);
	assert_int_equal(rej.rej.reason, VB_CM_REJ_STALE);
	assert_int_equal(rej.rej.local_comm_id, old->local_id);
	assert_int_equal(rej.rej.remote_comm_id, RIG_PEER_ID);
	assert_int_equal(rig_event(rig, old, VB_CM_EVENT_REJECTED).event.reason, 10);
	rig_give(rig, &rtu);
	rig_take_rej(rig, VB_CM_REJ_STALE);
	rig_event_none(rig);
}

static void refuse(struct rig *rig, const struct vb_cm_message *req, unsigned reason)
{
	rig_give(rig, req);
	rig_take_rej(rig, reason);
	rig_event_none(rig);
	assert_int_equal(rig->incoming_count, 0);
}

static void what_cannot_be_is_refused(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message good = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN), bad;

	rig_listen(rig, RIG_SERVICE, 0);
	bad = good;
	bad.req.primary.remote_gid = rig_gid4(10, 0, 0, 3);
	rig_give(rig, &bad);
	bad = rig_take(rig, VB_CM_REJ);
	assert_int_equal(bad.rej.reason, VB_CM_REJ_INVALID_GID);
	assert_int_equal(bad.rej.info_length, 16);
	assert_memory_equal(bad.rej.info, &rig->own, 16);
	bad = good;
	bad.req.pkey = 0x8001;
	refuse(rig, &bad, VB_CM_REJ_INVALID_GID);
	bad = good;
	bad.req.transport = VB_CM_TRANSPORT_RD;
	refuse(rig, &bad, VB_CM_REJ_INVALID_TRANSPORT);
	bad = good;
	bad.req.mtu = 0;
	refuse(rig, &bad, VB_CM_REJ_INVALID_MTU);
	bad = good;
	bad.req.mtu = 6;
	refuse(rig, &bad, VB_CM_REJ_INVALID_MTU);
	/* A limited member of the default partition is one, too. */
	good.req.pkey = 0x7fff;
	rig_give(rig, &good);
	rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		rig_test(reject_is_said_again),
		rig_test(a_refused_request_stays_refused_while_it_is_asked_for),
		rig_test(a_rej_after_an_mra_is_repeated),
		rig_test(a_stale_connection_is_disconnected),
		rig_test(another_user_ends_no_connection),
		rig_test(a_stale_request_stays_refused),
		rig_test(an_id_that_comes_back_with_another_qp_is_stale),
		rig_test(a_request_that_was_given_up_makes_room),
		rig_test(an_accepted_request_that_is_given_up_is_taken_back),
		rig_test(what_cannot_be_is_refused),
	};

	return rig_run(tests);
}
