/* SPDX-License-Identifier: BSD-2-Clause */
/* The passive side: listeners, requests, REP until RTU. */
#include "rig.h"

static void req_is_turned_round(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);
	struct rig_event event;

	rig_listen(rig, RIG_SERVICE, 0);
	rig_give(rig, &req);
	event = rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED);
	assert_ptr_equal(event.event.listener, &rig->listener);
	assert_int_equal(event.event.peer.qpn, RIG_PEER_QPN);
	assert_int_equal(event.event.peer.ca_guid, RIG_PEER_GUID);
	assert_int_equal(event.event.peer.sq_psn, 0xabcdef);
	assert_int_equal(event.event.peer.responder_resources, 2);
	assert_int_equal(event.event.peer.initiator_depth, 4);
	assert_int_equal(event.event.peer.retry_count, 7);
	assert_int_equal(event.event.peer.rnr_retry_count, 6);
	assert_int_equal(event.event.peer.mtu, IBV_MTU_1024);
	assert_int_equal(event.event.peer.qp_type, IBV_QPT_RC);
	assert_true(event.event.has_ip);
	assert_memory_equal(&event.event.ip.src, &rig->peer, 16);
	assert_int_equal(event.event.ip.src_port, 40001);
	assert_int_equal(event.event.private_data_size, 56);
	assert_memory_equal(event.private_data, "hello\0", 6);
	rig_take_none(rig);
}

static void req_again_while_the_application_thinks_gets_an_mra(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN), mra;
	struct vb_cm_endpoint *endpoint = rig_request(rig);

	rig_give(rig, &req);
	mra = rig_take(rig, VB_CM_MRA);
	assert_int_equal(mra.mra.answers, VB_CM_ANSWERS_REQ);
	assert_int_equal(mra.mra.service_timeout, 24);
	assert_int_equal(mra.mra.local_comm_id, endpoint->local_id);
	assert_int_equal(mra.mra.remote_comm_id, RIG_PEER_ID);
	assert_int_equal(mra.transaction_id, req.transaction_id);
	rig_event_none(rig);
	assert_int_equal(rig->incoming_count, 1);
}

/* Copies of a request come by the name of the listener: without it they would be refused. */
static void a_listener_that_goes_asks_for_time(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_request(rig);
	struct vb_cm_accept_params params = rig_accept_params();
	struct vb_cm_message mra;

	vb_cm_destroy(&rig->listener, rig->now_ns);
	mra = rig_take(rig, VB_CM_MRA);
	assert_int_equal(mra.mra.answers, VB_CM_ANSWERS_REQ);
	assert_int_equal(mra.mra.local_comm_id, endpoint->local_id);
	assert_int_equal(mra.mra.remote_comm_id, RIG_PEER_ID);
	rig_take_none(rig);
	rig_event_none(rig);
	assert_int_equal(vb_cm_accept(endpoint, &params, rig->now_ns), 0);
	rig_take(rig, VB_CM_REP);
}

static void rep_says_what_linux_says(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_request(rig);
	struct vb_cm_accept_params params = rig_accept_params();
	struct vb_cm_message rep;

	assert_int_equal(vb_cm_accept(endpoint, &params, rig->now_ns), 0);
	rep = rig_take(rig, VB_CM_REP);
	assert_int_equal(rep.rep.local_comm_id, endpoint->local_id);
	assert_int_equal(rep.rep.remote_comm_id, RIG_PEER_ID);
	assert_int_equal(rep.rep.qpn, RIG_QPN);
	assert_int_equal(rep.rep.starting_psn, endpoint->rq_psn);
	assert_int_equal(rep.rep.responder_resources, 3);
	assert_int_equal(rep.rep.initiator_depth, 1);
	assert_int_equal(rep.rep.target_ack_delay, 15);
	assert_int_equal(rep.rep.rnr_retry_count, 5);
	assert_int_equal(rep.rep.failover, 0);
	assert_int_equal(rep.rep.ca_guid, RIG_GUID);
	assert_memory_equal(rep.rep.private_data, "welcome\0", 8);
}

static void req_again_after_rep_gets_the_rep_again(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);

	rig_accepted(rig);
	rig_give(rig, &req);
	rig_take(rig, VB_CM_REP);
	rig_take_none(rig);
	rig_event_none(rig);
}

static void rep_is_resent_and_given_up(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_accepted(rig);

	rig_wait(rig, 80000 * MS);
	for (int i = 0; i < 15; i++)
		rig_take(rig, VB_CM_REP);
	rig_take_rej(rig, VB_CM_REJ_TIMEOUT);
	assert_int_equal(rig_event(rig, endpoint, VB_CM_EVENT_UNREACHABLE).event.status,
			 -ETIMEDOUT);
	rig_event_none(rig);
}

/* The request of a peer that says how it wants its REP. */
static struct vb_cm_endpoint *accepted_from(struct rig *rig, uint8_t retries, uint8_t timeout)
{
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);
	struct vb_cm_accept_params params = rig_accept_params();
	struct vb_cm_endpoint *endpoint;

	req.req.max_cm_retries = retries;
	req.req.local_cm_timeout = timeout;
	rig_listen(rig, RIG_SERVICE, 0);
	rig_give(rig, &req);
	endpoint = rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED).endpoint;
	assert_int_equal(vb_cm_accept(endpoint, &params, rig->now_ns), 0);
	return endpoint;
}

static void a_peer_without_patience_gets_as_many_reps_as_it_asked_for(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = accepted_from(rig, 2, 0);

	rig_wait(rig, 75 * MS + 150 * MS + 300 * MS);
	for (int i = 0; i < 3; i++)
		rig_take(rig, VB_CM_REP);
	rig_take_rej(rig, VB_CM_REJ_TIMEOUT);
	rig_event(rig, endpoint, VB_CM_EVENT_UNREACHABLE);
}

/* It asks for one REP, and for 4 s to answer it. */
static void a_slow_peer_has_its_time_for_the_last_rep(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = accepted_from(rig, 0, 20);

	rig_wait(rig, 4000 * MS);
	rig_take(rig, VB_CM_REP);
	rig_take_none(rig);
	rig_event_none(rig);
	rig_wait(rig, 3000 * MS);
	rig_take_rej(rig, VB_CM_REJ_TIMEOUT);
	rig_event(rig, endpoint, VB_CM_EVENT_UNREACHABLE);
}

static void mra_for_a_rep_gives_the_peer_time(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_accepted(rig);
	struct vb_cm_message mra = rig_answer(endpoint, VB_CM_MRA);

	mra.mra.answers = VB_CM_ANSWERS_REP;
	mra.mra.service_timeout = 24;
	rig_give(rig, &mra);
	rig_wait(rig, 68000 * MS);
	rig_take_none(rig);
}

static void rtu_establishes_once(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_establish_passive(rig);
	struct vb_cm_message rtu = rig_answer(endpoint, VB_CM_RTU);

	rig_give(rig, &rtu);
	rig_wait(rig, 100000 * MS);
	rig_event_none(rig);
	rig_take_none(rig);
	assert_int_equal(rig->cm.counters.duplicates[VB_CM_RTU - VB_CM_REQ], 1);
}

static void data_counts_as_rtu(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_accepted(rig);
	struct vb_cm_message rtu = rig_answer(endpoint, VB_CM_RTU);

	vb_cm_data_arrived(&rig->cm, RIG_QPN + 1, rig->now_ns);
	rig_event_none(rig);
	vb_cm_data_arrived(&rig->cm, RIG_QPN, rig->now_ns);
	rig_event(rig, endpoint, VB_CM_EVENT_ESTABLISHED);
	vb_cm_data_arrived(&rig->cm, RIG_QPN, rig->now_ns);
	assert_int_equal(vb_cm_notify(endpoint, rig->now_ns), -EISCONN);
	rig_give(rig, &rtu);
	rig_wait(rig, 10000 * MS);
	rig_event_none(rig);
	rig_take_none(rig);
}

static void nobody_listens(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN), rej;

	rig_give(rig, &req);
	rej = rig_take(rig, VB_CM_REJ);
	assert_int_equal(rej.rej.reason, VB_CM_REJ_INVALID_SERVICE_ID);
	assert_int_equal(rej.rej.remote_comm_id, RIG_PEER_ID);
	assert_int_equal(rej.rej.local_comm_id, 0);
	assert_int_equal(rej.transaction_id, req.transaction_id);
	assert_int_equal(rig->cm.counters.drops[VB_CM_DROP_SERVICE], 1);
	assert_int_equal(rig->cm.endpoint_count, 0);
}

static bool gets_there(struct rig *rig, const struct vb_cm_message *req,
		       const struct vb_cm_route *route)
{
	unsigned before = rig->incoming_count;

	rig_give_from(rig, route, req);
	rig->events_head = rig->events_tail;
	rig->sent_head = rig->sent_tail;
	return rig->incoming_count > before;
}

static void addresses_of_listeners(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_listen_params params = { .service_id = RIG_SERVICE, .family = VB_CM_IPV4 };
	struct vb_cm_message req4 = rig_req(rig, 1, 0x11), req6 = rig_req(rig, 2, 0x22);
	struct vb_cm_ip ip6 = { .ipv6 = true,
				.src = { .raw = { 0xfd, [15] = 2 } },
				.dst = rig->own6 };
	struct vb_cm_route route6 = { .local = ip6.dst, .remote = ip6.src };

	req6.req.primary.local_gid = ip6.src;
	req6.req.primary.remote_gid = ip6.dst;
	vb_cm_ip_emit(&ip6, req6.req.private_data);
	assert_int_equal(vb_cm_listen(&rig->listener, &params), 0);
	assert_int_equal(vb_cm_listen(&rig->a, &params), -EADDRINUSE);
	assert_false(gets_there(rig, &req6, &route6));
	assert_true(gets_there(rig, &req4, &rig->route));
	vb_cm_destroy(&rig->listener, rig->now_ns);

	params.family = VB_CM_IPV6;
	assert_int_equal(vb_cm_listen(&rig->listener, &params), 0);
	req4.req.local_comm_id = 3;
	req4.req.qpn = 0x33;
	assert_false(gets_there(rig, &req4, &rig->route));
	assert_true(gets_there(rig, &req6, &route6));
	vb_cm_destroy(&rig->listener, rig->now_ns);

	params.family = VB_CM_IPV4;
	params.address = rig_gid4(10, 0, 0, 9);
	assert_int_equal(vb_cm_listen(&rig->listener, &params), 0);
	assert_false(gets_there(rig, &req4, &rig->route));
	vb_cm_destroy(&rig->listener, rig->now_ns);

	/* The own address comes before the wildcard: on_incoming wants rig->listener. */
	params.address = rig->own;
	assert_int_equal(vb_cm_listen(&rig->listener, &params), 0);
	params.address = (union ibv_gid){ 0 };
	assert_int_equal(vb_cm_listen(&rig->a, &params), 0);
	assert_true(gets_there(rig, &req4, &rig->route));
}

/* A full backlog drops silently, so that the peer tries again; what is taken makes room. */
static void backlog(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *first;
	struct vb_cm_message req;

	rig_listen(rig, RIG_SERVICE, 2);
	for (uint32_t i = 0; i < 3; i++) {
		req = rig_req(rig, 100 + i, 0x100 + i);
		rig_give(rig, &req);
	}
	first = rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED).endpoint;
	rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED);
	rig_event_none(rig);
	rig_take_none(rig);
	assert_int_equal(rig->cm.counters.drops[VB_CM_DROP_BACKLOG], 1);
	vb_cm_taken(first);
	vb_cm_taken(first);
	rig_give(rig, &req);
	rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED);
	/* The listener goes, its requests stay. */
	vb_cm_destroy(&rig->listener, rig->now_ns);
	for (int i = 0; i < 3; i++)
		rig_take(rig, VB_CM_MRA);
	assert_int_equal(vb_cm_reject(first, VB_CM_REJ_CONSUMER, NULL, 0, NULL, 0, rig->now_ns), 0);
	rig_take_rej(rig, VB_CM_REJ_CONSUMER);
}

static void no_memory_for_an_endpoint(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);

	rig_listen(rig, RIG_SERVICE, 0);
	rig->incoming_max = 0;
	rig_give(rig, &req);
	rig_take_none(rig);
	rig_event_none(rig);
	assert_int_equal(rig->cm.counters.drops[VB_CM_DROP_RESOURCES], 1);
	assert_int_equal(rig->listener.half_open, 0);
	rig->incoming_max = RIG_ENDPOINTS;
	rig_give(rig, &req);
	rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED);
}

static void the_peer_gives_up_and_says_so(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);
	struct vb_cm_endpoint *endpoint = rig_request(rig);
	struct vb_cm_accept_params params = rig_accept_params();
	struct vb_cm_message rej = { .attribute = VB_CM_REJ };

	rej.rej.local_comm_id = RIG_PEER_ID;
	rej.rej.answers = VB_CM_ANSWERS_OTHER;
	rej.rej.reason = VB_CM_REJ_TIMEOUT;
	rej.rej.info_length = 8;
	rej.transaction_id = req.transaction_id;
	rig_give(rig, &rej); /* another device's */
	rig_event_none(rig);
	for (int i = 0; i < 8; i++)
		rej.rej.info[i] = (uint8_t)(RIG_PEER_GUID >> (56 - 8 * i));
	rej.transaction_id++;
	rig_give(rig, &rej); /* somebody else's: ids and devices are no secrets */
	rig_event_none(rig);
	rej.transaction_id--;
	rig_give(rig, &rej);
	assert_int_equal(rig_event(rig, endpoint, VB_CM_EVENT_REJECTED).event.reason, 4);
	assert_int_equal(vb_cm_accept(endpoint, &params, rig->now_ns), -EINVAL);
	rig_take_none(rig);
	/* Copies of its REQ were slower than the REJ. */
	rig_give(rig, &req);
	rig_take_rej(rig, VB_CM_REJ_STALE);
	rig_wait(rig, 6000 * MS);
	rig_give(rig, &req);
	rig_take_rej(rig, VB_CM_REJ_STALE);
	rig_event_none(rig);
	rig_wait(rig, 8000 * MS);
	rig_event_none(rig);
	assert_int_equal(endpoint->state, VB_CM_IDLE);
}

static void destroying_says_goodbye(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rej;

	vb_cm_destroy(rig_request(rig), rig->now_ns);
	rej = rig_take(rig, VB_CM_REJ);
	assert_int_equal(rej.rej.reason, VB_CM_REJ_CONSUMER);
	assert_int_equal(rej.rej.answers, VB_CM_ANSWERS_REQ);
	rig_wait(rig, 8000 * MS);
	vb_cm_destroy(rig_accepted(rig), rig->now_ns);
	rej = rig_take(rig, VB_CM_REJ);
	assert_int_equal(rej.rej.reason, VB_CM_REJ_CONSUMER);
	/* Nobody acknowledges it, so it is repeated. */
	rig_wait(rig, 20000 * MS);
	for (int i = 0; i < 8; i++)
		rig_take(rig, VB_CM_REJ);
	rig_take_none(rig);
	rig_event_none(rig);
}

static void limits_are_enforced(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = rig_request(rig);
	struct vb_cm_accept_params params = rig_accept_params();
	uint8_t data[256] = { 0 };

	params.private_data = data;
	params.private_data_length = 197;
	assert_int_equal(vb_cm_accept(endpoint, &params, rig->now_ns), -EINVAL);
	rig_take_none(rig);
	params.private_data_length = 196;
	assert_int_equal(vb_cm_accept(endpoint, &params, rig->now_ns), 0);
	rig_take(rig, VB_CM_REP);
	assert_int_equal(vb_cm_accept(endpoint, &params, rig->now_ns), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		rig_test(req_is_turned_round),
		rig_test(req_again_while_the_application_thinks_gets_an_mra),
		rig_test(a_listener_that_goes_asks_for_time),
		rig_test(rep_says_what_linux_says),
		rig_test(req_again_after_rep_gets_the_rep_again),
		rig_test(rep_is_resent_and_given_up),
		rig_test(a_peer_without_patience_gets_as_many_reps_as_it_asked_for),
		rig_test(a_slow_peer_has_its_time_for_the_last_rep),
		rig_test(mra_for_a_rep_gives_the_peer_time),
		rig_test(rtu_establishes_once),
		rig_test(data_counts_as_rtu),
		rig_test(nobody_listens),
		rig_test(addresses_of_listeners),
		rig_test(backlog),
		rig_test(no_memory_for_an_endpoint),
		rig_test(the_peer_gives_up_and_says_so),
		rig_test(destroying_says_goodbye),
		rig_test(limits_are_enforced),
	};

	return rig_run(tests);
}
