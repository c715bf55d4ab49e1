/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of connections. */
#include "rig.h"

static void disconnect_and_timewait(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message dreq, drep;

	rig_establish_active(rig, &rig->a);
	assert_int_equal(vb_cm_disconnect(&rig->a, rig->now_ns), 0);
	dreq = rig_take(rig, VB_CM_DREQ);
	assert_int_equal(dreq.dreq.local_comm_id, rig->a.local_id);
	assert_int_equal(dreq.dreq.remote_comm_id, RIG_PEER_ID);
	assert_int_equal(dreq.dreq.remote_qpn, RIG_PEER_QPN);
	rig_event_none(rig);
	assert_int_equal(vb_cm_disconnect(&rig->a, rig->now_ns), 0);
	rig_take_none(rig);
	drep = rig_answer(&rig->a, VB_CM_DREP);
	rig_give(rig, &drep);
	rig_event(rig, &rig->a, VB_CM_EVENT_DISCONNECTED);
	rig_give(rig, &drep);
	assert_int_equal(vb_cm_disconnect(&rig->a, rig->now_ns), 0);
	rig_event_none(rig);
	rig_wait(rig, 499 * MS);
	rig_event_none(rig);
	rig_wait(rig, 1 * MS);
	rig_event(rig, &rig->a, VB_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(rig->a.state, VB_CM_IDLE);
	rig_take_none(rig);
}

static void a_lost_dreq_is_resent_and_keeps_its_transaction(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message first, again;

	rig_establish_active(rig, &rig->a);
	vb_cm_disconnect(&rig->a, rig->now_ns);
	first = rig_take(rig, VB_CM_DREQ);
	assert_int_not_equal(first.transaction_id, rig->a.transaction_id);
	rig_wait(rig, 80000 * MS);
	for (int i = 0; i < 15; i++) {
		again = rig_take(rig, VB_CM_DREQ);
		assert_memory_equal(&again, &first, sizeof(first));
	}
	rig_take_none(rig);
	rig_event(rig, &rig->a, VB_CM_EVENT_DISCONNECTED);
	rig_event(rig, &rig->a, VB_CM_EVENT_TIMEWAIT_EXIT);
	rig_event_none(rig);
}

static void the_peer_disconnects(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_establish_passive(rig);
	struct vb_cm_message dreq = rig_dreq(endpoint), drep;

	rig_give(rig, &dreq);
	rig_event(rig, endpoint, VB_CM_EVENT_DISCONNECTED);
	/* The peer asks again, while the application has not answered. */
	rig_give(rig, &dreq);
	rig_take_none(rig);
	rig_event_none(rig);
	assert_int_equal(vb_cm_disconnect(endpoint, rig->now_ns), 0);
	drep = rig_take(rig, VB_CM_DREP);
	assert_int_equal(drep.drep.remote_comm_id, RIG_PEER_ID);
	assert_int_equal(drep.transaction_id, dreq.transaction_id);
	rig_event_none(rig);
	/* The DREP got lost. */
	rig_give(rig, &dreq);
	rig_take(rig, VB_CM_DREP);
	rig_event_none(rig);
	rig_wait(rig, 500 * MS);
	rig_event(rig, endpoint, VB_CM_EVENT_TIMEWAIT_EXIT);
	/* And once more, to nobody. */
	rig_give(rig, &dreq);
	rig_take(rig, VB_CM_DREP);
	rig_event_none(rig);
}

static void who_lets_go_of_a_connection_that_the_peer_ended_answers(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_establish_passive(rig);
	struct vb_cm_message dreq = rig_dreq(endpoint), drep;

	rig_give(rig, &dreq);
	rig_event(rig, endpoint, VB_CM_EVENT_DISCONNECTED);
	rig_take_none(rig);
	vb_cm_destroy(endpoint, rig->now_ns);
	drep = rig_take(rig, VB_CM_DREP);
	assert_int_equal(drep.transaction_id, dreq.transaction_id);
	rig_give(rig, &dreq);
	rig_take(rig, VB_CM_DREP);
	rig_wait(rig, 500 * MS);
	assert_int_equal(rig->cm.orphan_count, 0);
	rig_take_none(rig);
	rig_event_none(rig);
}

static void an_application_that_does_not_answer_is_not_waited_for_ever(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_establish_passive(rig);
	struct vb_cm_message dreq = rig_dreq(endpoint);

	rig_give(rig, &dreq);
	rig_event(rig, endpoint, VB_CM_EVENT_DISCONNECTED);
	rig_wait(rig, 4290 * MS);
	rig_take_none(rig);
	rig_wait(rig, 10 * MS);
	rig_take(rig, VB_CM_DREP);
	rig_event_none(rig);
	assert_int_equal(vb_cm_disconnect(endpoint, rig->now_ns), 0);
	rig_take_none(rig);
	rig_wait(rig, 500 * MS);
	rig_event(rig, endpoint, VB_CM_EVENT_TIMEWAIT_EXIT);
}

/* A probe, too, finds the connection until the application has answered. */
static void a_probe_is_ignored_by_who_has_not_answered(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_establish_passive(rig);
	struct vb_cm_message dreq = rig_dreq(endpoint);

	rig_give(rig, &dreq);
	rig_event(rig, endpoint, VB_CM_EVENT_DISCONNECTED);
	dreq.dreq.remote_qpn = 1;
	rig_give(rig, &dreq);
	rig_take_none(rig);
	assert_int_equal(endpoint->state, VB_CM_DREQ_RECEIVED);
}

/* Each has decided on its own: no application is waited for. */
static void two_that_disconnect_at_once_are_both_told(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_establish_passive(rig);
	struct vb_cm_message dreq = rig_dreq(endpoint);

	assert_int_equal(vb_cm_disconnect(endpoint, rig->now_ns), 0);
	rig_take(rig, VB_CM_DREQ);
	rig_give(rig, &dreq);
	assert_int_equal(rig_take(rig, VB_CM_DREP).transaction_id, dreq.transaction_id);
	rig_event(rig, endpoint, VB_CM_EVENT_DISCONNECTED);
	rig_give(rig, &dreq);
	rig_take(rig, VB_CM_DREP);
	rig_event_none(rig);
}

/* --- is the peer still there? --- */

static void a_probe_ends_what_the_peer_has_lost(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message probe, answer;

	rig_establish_active(rig, &rig->a);
	assert_true(vb_cm_probe(&rig->a, &probe));
	assert_int_equal(probe.attribute, VB_CM_DREQ);
	assert_int_equal(probe.dreq.remote_qpn, 1); /* 0 is the QPN of who names none */
	assert_true(vb_cm_stray(&probe, &answer));
	/* Somebody's who saw no probe. */
	answer.transaction_id ^= 1ull << 40;
	rig_give(rig, &answer);
	rig_event_none(rig);
	assert_int_equal(rig->a.state, VB_CM_ESTABLISHED);
	answer.transaction_id ^= 1ull << 40;
	rig_give(rig, &answer);
	rig_event(rig, &rig->a, VB_CM_EVENT_DISCONNECTED);
	assert_false(vb_cm_probe(&rig->a, &probe));
	rig_take_none(rig);
}

static void a_drep_that_nobody_asked_for_ends_nothing(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message drep;

	rig_establish_active(rig, &rig->a);
	drep = rig_answer(&rig->a, VB_CM_DREP);
	drep.transaction_id = 0;
	rig_give(rig, &drep);
	rig_event_none(rig);
	assert_int_equal(rig->a.state, VB_CM_ESTABLISHED);
}

static void a_probe_finds_who_asked_for_time_and_is_gone(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message mra, probe, answer;

	rig_request_sent(rig, &rig->a);
	assert_true(vb_cm_probe(&rig->a, &probe));
	assert_int_equal(probe.attribute, VB_CM_REQ); /* before that the request is the question */
	mra = rig_answer(&rig->a, VB_CM_MRA);
	mra.mra.answers = VB_CM_ANSWERS_REQ;
	mra.mra.local_comm_id = RIG_PEER_ID;
	mra.mra.service_timeout = 24;
	rig_give(rig, &mra);
	assert_true(vb_cm_probe(&rig->a, &probe));
	assert_int_equal(probe.dreq.remote_comm_id, RIG_PEER_ID);
	assert_true(vb_cm_stray(&probe, &answer));
	answer.transaction_id += 2;
	rig_give(rig, &answer);
	rig_wait(rig, MS);
	rig_take_none(rig);
	answer.transaction_id -= 2;
	rig_give(rig, &answer);
	rig_wait(rig, MS);
	rig_take(rig, VB_CM_REQ);
	rig_event_none(rig);
	rig_give(rig, &answer); /* once more */
	vb_cm_destroy(&rig->a, rig->now_ns);
	rig_take(rig, VB_CM_REJ);
}

static void a_host_that_died_answers_nothing_more(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *accepted = rig_accepted(rig);
	struct vb_cm_message mra;

	rig_connect(rig, &rig->a);
	rig_take(rig, VB_CM_REQ);
	rig_connect(rig, &rig->b);
	rig_take(rig, VB_CM_REQ);
	mra = rig_answer(&rig->b, VB_CM_MRA);
	mra.mra.answers = VB_CM_ANSWERS_REQ;
	mra.mra.local_comm_id = RIG_PEER_ID + 1;
	rig_give(rig, &mra);
	vb_cm_host_died(&rig->cm, &rig->own, rig->now_ns);
	rig_event_none(rig);
	vb_cm_host_died(&rig->cm, &rig->peer, rig->now_ns);
	for (int i = 0; i < 3; i++) {
		struct rig_event event = rig_event(rig, NULL, VB_CM_EVENT_UNREACHABLE);

		assert_int_equal(event.event.status, -ETIMEDOUT);
		assert_int_equal(rig_take(rig, VB_CM_REJ).rej.reason, VB_CM_REJ_TIMEOUT);
	}
	assert_int_equal(accepted->state, VB_CM_IDLE);
	assert_int_equal(rig->a.state, VB_CM_IDLE);
	assert_int_equal(rig->b.state, VB_CM_IDLE);
	rig_event_none(rig);
}

/* While the application thinks. */
static void a_probe_is_ignored_by_who_has_the_request(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_request(rig);
	struct vb_cm_message probe = rig_dreq(endpoint);

	probe.dreq.remote_qpn = 0;
	rig_give(rig, &probe);
	rig_take_none(rig);
	rig_event_none(rig);
	assert_int_equal(endpoint->state, VB_CM_REQ_RECEIVED);
}

static void a_probe_is_ignored_by_who_has_the_connection(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_establish_passive(rig);
	struct vb_cm_message probe = rig_dreq(endpoint);

	probe.dreq.remote_qpn = 0;
	rig_give(rig, &probe);
	rig_take_none(rig);
	rig_event_none(rig);
	assert_int_equal(endpoint->state, VB_CM_ESTABLISHED);
}

static void a_host_dies_with_all_its_connections(void **state)
{
	struct rig *rig = *state;

	rig_establish_active(rig, &rig->a);
	vb_cm_host_died(&rig->cm, &rig->own6, rig->now_ns);
	rig_event_none(rig);
	vb_cm_host_died(&rig->cm, &rig->peer, rig->now_ns);
	rig_event(rig, &rig->a, VB_CM_EVENT_DISCONNECTED);
	vb_cm_host_died(&rig->cm, &rig->peer, rig->now_ns);
	rig_event_none(rig);
}

/* The DREP got lost, and who had said it has ended. */
static void a_host_that_died_has_no_connection_to_end(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message dreq, probe;

	rig_establish_active(rig, &rig->a);
	vb_cm_disconnect(&rig->a, rig->now_ns);
	dreq = rig_take(rig, VB_CM_DREQ);
	assert_true(vb_cm_probe(&rig->a, &probe));
	assert_int_equal(probe.attribute, VB_CM_DREQ);
	assert_true(probe.transaction_id == dreq.transaction_id);
	assert_int_equal(probe.dreq.remote_qpn, dreq.dreq.remote_qpn);
	vb_cm_host_died(&rig->cm, &rig->peer, rig->now_ns);
	rig_event(rig, &rig->a, VB_CM_EVENT_DISCONNECTED);
	vb_cm_host_died(&rig->cm, &rig->peer, rig->now_ns);
	rig_event_none(rig);
	rig_take_none(rig);
}

static void both_disconnect_at_once(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message dreq;

	rig_establish_active(rig, &rig->a);
	dreq = rig_dreq(&rig->a);
	vb_cm_disconnect(&rig->a, rig->now_ns);
	rig_take(rig, VB_CM_DREQ);
	rig_give(rig, &dreq);
	rig_take(rig, VB_CM_DREP);
	rig_event(rig, &rig->a, VB_CM_EVENT_DISCONNECTED);
	rig_wait(rig, 400 * MS);
	rig_take_none(rig);
	rig_event_none(rig);
}

static void a_dreq_for_another_qp_changes_nothing(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_establish_passive(rig);
	struct vb_cm_message dreq = rig_dreq(endpoint);

	dreq.dreq.remote_qpn++;
	rig_give(rig, &dreq);
	rig_take_none(rig);
	rig_event_none(rig);
	assert_int_equal(endpoint->state, VB_CM_ESTABLISHED);
	assert_int_equal(rig->cm.counters.drops[VB_CM_DROP_QPN], 1);
}

/* Only the RTU got lost. */
static void a_dreq_before_the_rtu(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_accepted(rig);
	struct vb_cm_message dreq = rig_dreq(endpoint);

	rig_give(rig, &dreq);
	rig_take_none(rig);
	rig_event(rig, endpoint, VB_CM_EVENT_ESTABLISHED);
	rig_event(rig, endpoint, VB_CM_EVENT_DISCONNECTED);
	assert_int_equal(vb_cm_disconnect(endpoint, rig->now_ns), 0);
	rig_take(rig, VB_CM_DREP);
	rig_wait(rig, 5000 * MS);
	rig_take_none(rig);
	rig_event(rig, endpoint, VB_CM_EVENT_TIMEWAIT_EXIT);
}

static void a_dreq_before_the_rtu_meets_one_who_has_decided(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_accepted(rig);
	struct vb_cm_message dreq = rig_dreq(endpoint);

	assert_int_equal(vb_cm_disconnect(endpoint, rig->now_ns), 0);
	rig_take_none(rig);
	rig_give(rig, &dreq);
	rig_take(rig, VB_CM_DREP);
	rig_event(rig, endpoint, VB_CM_EVENT_ESTABLISHED);
	rig_event(rig, endpoint, VB_CM_EVENT_DISCONNECTED);
	rig_take_none(rig);
}

static void disconnect_before_the_rtu_waits_for_it(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_accepted(rig);
	struct vb_cm_message rtu = rig_answer(endpoint, VB_CM_RTU);

	assert_int_equal(vb_cm_disconnect(endpoint, rig->now_ns), 0);
	rig_take_none(rig);
	rig_give(rig, &rtu);
	rig_event(rig, endpoint, VB_CM_EVENT_ESTABLISHED);
	rig_take(rig, VB_CM_DREQ);
}

static void a_rej_ends_a_connection_as_one(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rej;
	struct rig_event event;

	rig_establish_active(rig, &rig->a);
	rej = rig_answer(&rig->a, VB_CM_REJ);
	rej.rej.answers = VB_CM_ANSWERS_OTHER;
	rej.rej.reason = VB_CM_REJ_CONSUMER;
	rig_give(rig, &rej);
	event = rig_event(rig, &rig->a, VB_CM_EVENT_DISCONNECTED);
	assert_int_equal(event.event.reason, VB_CM_REJ_CONSUMER);
	rig_give(rig, &rej);
	rig_event_none(rig);
}

/* The application is gone, its DREQ is not. */
static void destroyed_when_established(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message drep;

	rig_establish_active(rig, &rig->a);
	drep = rig_answer(&rig->a, VB_CM_DREP);
	vb_cm_destroy(&rig->a, rig->now_ns);
	memset(&rig->a, 0xee, sizeof(rig->a));
	rig_take(rig, VB_CM_DREQ);
	rig_wait(rig, 230 * MS);
	rig_take(rig, VB_CM_DREQ);
	rig_take(rig, VB_CM_DREQ);
	assert_int_equal(rig->cm.orphan_count, 1);
	rig_give(rig, &drep);
	rig_wait(rig, 500 * MS);
	rig_take_none(rig);
	rig_event_none(rig);
	assert_int_equal(rig->cm.orphan_count, 0);
	vb_cm_endpoint_init(&rig->cm, &rig->a);
}

static void forgotten_without_a_word(void **state)
{
	struct rig *rig = *state;

	rig_establish_active(rig, &rig->a);
	vb_cm_forget(&rig->a);
	rig_take_none(rig);
	assert_int_equal(rig->cm.endpoint_count, 0);
	assert_int_equal(vb_cm_next_ns(&rig->cm), VB_NEVER_NS);
}

static void alternate_paths_are_refused(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message lap;

	rig_establish_active(rig, &rig->a);
	lap = rig_answer(&rig->a, VB_CM_LAP);
	rig_give(rig, &lap);
	assert_int_equal(rig_take(rig, VB_CM_APR).apr.status, VB_CM_APR_UNSUPPORTED);
	rig_event_none(rig);
}

/* A process of this host dies: those it was connected to hear of it at once. */
static void a_slot_dies(void **state)
{
	struct rig *rig = *state;

	rig->route.remote = rig->peer = rig->own; /* the peer is on this host */
	rig_establish_active(rig, &rig->a);
	rig_connect(rig, &rig->b);
	rig_take(rig, VB_CM_REQ);
	vb_cm_slot_died(&rig->cm, (RIG_PEER_ID >> 20) + 1, rig->now_ns);
	rig_event_none(rig);
	vb_cm_slot_died(&rig->cm, RIG_PEER_ID >> 20, rig->now_ns);
	rig_event(rig, &rig->a, VB_CM_EVENT_DISCONNECTED);
	rig_event_none(rig);
	rig_take_none(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		rig_test(disconnect_and_timewait),
		rig_test(a_lost_dreq_is_resent_and_keeps_its_transaction),
		rig_test(the_peer_disconnects),
		rig_test(who_lets_go_of_a_connection_that_the_peer_ended_answers),
		rig_test(an_application_that_does_not_answer_is_not_waited_for_ever),
		rig_test(a_probe_is_ignored_by_who_has_not_answered),
		rig_test(two_that_disconnect_at_once_are_both_told),
		rig_test(a_probe_ends_what_the_peer_has_lost),
		rig_test(a_drep_that_nobody_asked_for_ends_nothing),
		rig_test(a_probe_is_ignored_by_who_has_the_connection),
		rig_test(a_probe_finds_who_asked_for_time_and_is_gone),
		rig_test(a_host_that_died_answers_nothing_more),
		rig_test(a_probe_is_ignored_by_who_has_the_request),
		rig_test(a_host_dies_with_all_its_connections),
		rig_test(a_host_that_died_has_no_connection_to_end),
		rig_test(both_disconnect_at_once),
		rig_test(a_dreq_for_another_qp_changes_nothing),
		rig_test(a_dreq_before_the_rtu),
		rig_test(a_dreq_before_the_rtu_meets_one_who_has_decided),
		rig_test(disconnect_before_the_rtu_waits_for_it),
		rig_test(a_rej_ends_a_connection_as_one),
		rig_test(destroyed_when_established),
		rig_test(forgotten_without_a_word),
		rig_test(alternate_paths_are_refused),
		rig_test(a_slot_dies),
	};

	return rig_run(tests);
}
