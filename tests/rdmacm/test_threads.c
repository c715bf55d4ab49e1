/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that end what other threads are about to use. Nothing is to be seen here but by the
 * sanitizers, and that everything comes to an end.
 */
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include "../asleep.h"
#include "fetch.h"

enum { ROUNDS = 300 };

/* From "not yet sent" to "long since fetched", also in the slow builds of the sanitizers. */
static void wait_a_little(int round)
{
	spin(round % 60 * 15000L);
}

/* --- a thread that answers requests in one way --- */

struct server {
	struct party *party;
	bool accepts, disconnects;
	struct rdma_cm_id *live[ROUNDS]; /* accepted */
	int count;
	pthread_t thread;
};

static void forget(struct server *server, struct rdma_cm_id *id)
{
	for (int i = 0; i < server->count; i++) {
		if (server->live[i] == id)
			server->live[i] = server->live[--server->count];
	}
	rdma_destroy_id(id);
}

static void answer(struct server *server, struct rdma_cm_id *id)
{
	/* The number of a QP that does not exist: nobody sends anything. */
	struct rdma_conn_param param = { .qp_num = 0x123456, .rnr_retry_count = 7 };

	if (!server->accepts)
		rdma_reject(id, NULL, 0);
	if (server->accepts && server->count < ROUNDS && !rdma_accept(id, &param))
		server->live[server->count++] = id;
	else
		rdma_destroy_id(id);
}

static void serve_event(struct server *server, struct rdma_cm_event *event)
{
	const enum rdma_cm_event_type type = event->event;
	struct rdma_cm_id *id = event->id;

	rdma_ack_cm_event(event);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		answer(server, id);
	else if (type == RDMA_CM_EVENT_ESTABLISHED && server->disconnects)
		rdma_disconnect(id);
	else if (type != RDMA_CM_EVENT_ESTABLISHED && type != RDMA_CM_EVENT_TIMEWAIT_EXIT)
		forget(server, id);
}

static void *serve(void *arg)
{
	struct server *server = arg;
	struct rdma_cm_event *event;

	while (!stop) {
		if (fetch_next(server->party->server_channel, &event))
			serve_event(server, event);
	}
	while (server->count)
		forget(server, server->live[0]);
	return NULL;
}

/* --- QPs that go while the answer to their request is fetched --- */

static void connect_and_destroy(struct server *server, bool disconnect)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct fetchers fetchers;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	server->party = &party;
	fetchers_start(&fetchers, party.client_channel);
	pthread_create(&server->thread, NULL, serve, server);
	for (int i = 0; i < ROUNDS; i++) {
		struct rdma_cm_id *id = fetchers_resolve(&fetchers, &party);

		party_create_qp(id);
		assert_int_equal(rdma_connect(id, &param), 0);
		wait_a_little(i);
		if (disconnect)
			assert_int_equal(rdma_disconnect(id), 0);
		rdma_destroy_qp(id);
		assert_null(id->qp);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	fetchers_stop(&fetchers);
	pthread_join(server->thread, NULL);
	party_end(&party);
}

static void a_qp_goes_while_its_rejection_is_fetched(void **state)
{
	struct server server = { 0 };

	connect_and_destroy(&server, false);
	(void)state;
}

static void a_qp_goes_while_its_connection_is_established(void **state)
{
	struct server server = { .accepts = true };

	connect_and_destroy(&server, false);
	(void)state;
}

static void both_ends_disconnect_and_go(void **state)
{
	struct server server = { .accepts = true, .disconnects = true };

	connect_and_destroy(&server, true);
	(void)state;
}

/* --- groups --- */

struct join {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct sockaddr_in group;
};

static void create_datagram_qp(struct join *join)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 },
		.qp_type = IBV_QPT_UD,
	};

	assert_int_equal(rdma_create_qp(join->id, join->pd, &attr), 0);
}

static void *leave(void *arg)
{
	struct join *join = arg;

	return rdma_leave_multicast(join->id, (struct sockaddr *)&join->group) ? join : NULL;
}

/* Three threads: one fetches the event, which attaches the QP, one leaves, one destroys the QP. */
static void a_qp_goes_while_its_group_is_joined_and_left(void **state)
{
	struct fetchers fetchers;
	struct party party;
	struct join join;

	party_begin(&party, RDMA_PS_UDP);
	fetchers_start(&fetchers, party.client_channel);
	join.id = fetchers_resolve(&fetchers, &party);
	join.pd = ibv_alloc_pd(join.id->verbs);
	assert_non_null(join.pd);
	address4(&join.group, "239.1.2.9", 0);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t thread;
		void *failed;

		create_datagram_qp(&join);
		assert_int_equal(rdma_join_multicast(join.id, (struct sockaddr *)&join.group, NULL),
				 0);
		spin(i % 60 * 2000L);
		pthread_create(&thread, NULL, leave, &join);
		rdma_destroy_qp(join.id);
		pthread_join(thread, &failed);
		assert_null(failed);
	}
	/* A QP that is still attached was not destroyed, and has the PD. */
	assert_int_equal(ibv_dealloc_pd(join.pd), 0);
	assert_int_equal(rdma_destroy_id(join.id), 0);
	fetchers_stop(&fetchers);
	party_end(&party);
	(void)state;
}

/* --- calls whose identifier goes before they return --- */

struct listening {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
};

/* A server for one connection. */
static void *end_with_the_first_request(void *arg)
{
	struct listening *listening = arg;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	while (!fetch_next(listening->channel, &event))
		;
	id = event->id;
	rdma_ack_cm_event(event);
	rdma_reject(id, NULL, 0);
	rdma_destroy_id(id);
	rdma_destroy_id(listening->listener);
	return NULL;
}

/* The request lies at the port, which has its name since it was bound. */
static void a_listener_goes_before_rdma_listen_returns(void **state)
{
	struct rdma_conn_param param = { .qp_num = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct fetchers fetchers;
	struct party party;

	party_begin_unheard(&party, RDMA_PS_TCP);
	fetchers_start(&fetchers, party.client_channel);
	for (int i = 0; i < ROUNDS / 10; i++) {
		struct listening listening = { .channel = party.server_channel };
		struct sockaddr_in addr;
		struct rdma_cm_id *id;
		pthread_t thread;

		address4(&addr, "127.0.0.1", 0);
		assert_int_equal(
			rdma_create_id(listening.channel, &listening.listener, NULL, RDMA_PS_TCP),
			0);
		assert_int_equal(rdma_bind_addr(listening.listener, (struct sockaddr *)&addr), 0);
		party.port = ntohs(rdma_get_src_port(listening.listener));
		id = fetchers_resolve(&fetchers, &party);
		assert_int_equal(rdma_connect(id, &param), 0);
		pthread_create(&thread, NULL, end_with_the_first_request, &listening);
		assert_int_equal(rdma_listen(listening.listener, 1), 0);
		pthread_join(thread, NULL);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	fetchers_stop(&fetchers);
	party_end(&party);
	(void)state;
}

/* --- several threads at one listener --- */

enum { REQUESTS = 150, TAKERS = 3 };

struct takers {
	struct rdma_cm_id *listener;
	atomic_int left;
	atomic_bool failed;
};

static void *take_requests(void *arg)
{
	struct takers *takers = arg;

	while (atomic_fetch_sub(&takers->left, 1) > 0) {
		struct rdma_cm_id *id;

		if (rdma_get_request(takers->listener, &id)) {
			takers->failed = true;
			return NULL;
		}
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
	}
	return NULL;
}

static void listen_synchronously(struct takers *takers, struct party *party)
{
	struct sockaddr_in addr;

	address4(&addr, "127.0.0.1", 0);
	assert_int_equal(rdma_create_id(NULL, &takers->listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(takers->listener, (struct sockaddr *)&addr), 0);
	assert_int_equal(rdma_listen(takers->listener, 0), 0);
	party->port = ntohs(rdma_get_src_port(takers->listener));
	takers->left = REQUESTS;
	takers->failed = false;
}

static void several_threads_take_the_requests_of_one_listener(void **state)
{
	struct rdma_conn_param param = { .qp_num = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *ids[REQUESTS];
	pthread_t threads[TAKERS];
	struct fetchers fetchers;
	struct takers takers;
	struct party party;

	party_begin_unheard(&party, RDMA_PS_TCP);
	fetchers_start(&fetchers, party.client_channel);
	listen_synchronously(&takers, &party);
	for (int i = 0; i < REQUESTS; i++) {
		ids[i] = fetchers_resolve(&fetchers, &party);
		assert_int_equal(rdma_connect(ids[i], &param), 0);
	}
	for (int i = 0; i < TAKERS; i++)
		pthread_create(&threads[i], NULL, take_requests, &takers);
	for (int i = 0; i < TAKERS; i++)
		pthread_join(threads[i], NULL);
	assert_false(takers.failed);
	/* Not before: a request that got lost is said again. */
	for (int i = 0; i < REQUESTS; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
	assert_int_equal(rdma_destroy_id(takers.listener), 0);
	fetchers_stop(&fetchers);
	party_end(&party);
	(void)state;
}

/* --- cancellation --- */

struct destroyer {
	struct rdma_cm_id *id;
	_Atomic pid_t thread_id;
};

static void *destroy(void *arg)
{
	struct destroyer *destroyer = arg;

	destroyer->thread_id = gettid();
	rdma_destroy_id(destroyer->id);
	return NULL;
}

/*
 * The library has one lock for all identifiers: a thread that takes it to the grave ends them all.
 */
static void a_thread_that_is_cancelled_keeps_no_lock(void **state)
{
	struct destroyer destroyer = { 0 };
	struct rdma_cm_event *event;
	struct sockaddr_in addr;
	struct party party;
	pthread_t thread;

	party_begin(&party, RDMA_PS_TCP);
	address4(&addr, "127.0.0.1", party.port);
	assert_int_equal(rdma_create_id(party.client_channel, &destroyer.id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(destroyer.id, NULL, (struct sockaddr *)&addr, 1000), 0);
	event = next_event(party.client_channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	pthread_create(&thread, NULL, destroy, &destroyer);
	thread_await_sleep(&destroyer.thread_id);
	pthread_cancel(thread);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	pthread_join(thread, NULL);
	party_resolve(&party);
	party_end(&party);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_qp_goes_while_its_rejection_is_fetched),
		cmocka_unit_test(a_qp_goes_while_its_connection_is_established),
		cmocka_unit_test(both_ends_disconnect_and_go),
		cmocka_unit_test(a_qp_goes_while_its_group_is_joined_and_left),
		cmocka_unit_test(a_listener_goes_before_rdma_listen_returns),
		cmocka_unit_test(several_threads_take_the_requests_of_one_listener),
		cmocka_unit_test(a_thread_that_is_cancelled_keeps_no_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
