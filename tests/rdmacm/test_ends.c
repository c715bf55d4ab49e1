/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many clients of one server, and connections that end from either side at once:
 *
 *   - an identifier whose connection was established hears DISCONNECTED once, and no other does;
 *   - an identifier that asked for the end hears of it when its peer's has, unless that asked, too.
 *
 * One thread fetches the events of each side, a third one begins to end connections.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "party.h"

enum { CLIENTS = 60, ROUNDS = 2, EVENT_WAIT_MS = 20000 };

/* What becomes of a client. */
enum fate { REFUSED, ENDED_BY_CLIENT, ENDED_BY_SERVER, ENDED_BY_BOTH, FATES };

struct end {
	struct rdma_cm_id *id;
	struct end *peer;
	enum fate fate;
	bool passive;
	atomic_bool asked; /* rdma_disconnect came before DISCONNECTED: decided under lock */
	atomic_int established, disconnected, refused;
	bool too_early; /* DISCONNECTED came while the peer knew nothing of the end */
};

struct meeting {
	struct party party;
	struct end clients[CLIENTS], servers[CLIENTS];
	unsigned seed;
	pthread_mutex_t lock;                  /* of asked and disconnected, together */
	atomic_int established, over, refused; /* identifiers */
	atomic_bool broken;                    /* a thread has seen what must not be */
};

#define EXPECT(meeting, condition)                                                  \
	do {                                                                        \
		if (!(condition)) {                                                 \
			print_error("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			atomic_store(&(meeting)->broken, true);                     \
		}                                                                   \
	} while (0)

static enum fate fate_of(unsigned number)
{
	return (enum fate)(number * 2654435761u >> 16) % FATES;
}

/* --- events --- */

static void on_request(struct meeting *meeting, struct rdma_cm_id *id,
		       const struct rdma_conn_param *request)
{
	uint32_t number;
	struct end *end;

	memcpy(&number, request->private_data, sizeof(number));
	end = &meeting->servers[number];
	end->id = id;
	id->context = end;
	if (end->fate == REFUSED) {
		EXPECT(meeting, !rdma_reject(id, NULL, 0));
		return;
	}
	party_create_qp(id);
	EXPECT(meeting, !rdma_accept(id, NULL));
}

static void on_disconnected(struct meeting *meeting, struct end *end)
{
	bool asked;

	pthread_mutex_lock(&meeting->lock);
	asked = end->asked;
	if (asked && !end->peer->disconnected && !end->peer->asked)
		end->too_early = true;
	end->disconnected++;
	pthread_mutex_unlock(&meeting->lock);
	/* As programs do: whoever is told answers. */
	if (!asked)
		EXPECT(meeting, !rdma_disconnect(end->id));
}

static void on_event(struct meeting *meeting, struct rdma_cm_event *event)
{
	struct end *end = event->id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		on_request(meeting, event->id, &event->param.conn);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		end->established++;
		atomic_fetch_add(&meeting->established, 1);
		break;
	case RDMA_CM_EVENT_REJECTED:
		end->refused++;
		atomic_fetch_add(&meeting->refused, 1);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		on_disconnected(meeting, end);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		atomic_fetch_add(&meeting->over, 1);
		break;
	default:
		print_error("%s\n", rdma_event_str(event->event));
		atomic_store(&meeting->broken, true);
	}
}

static void serve_event(struct meeting *meeting, struct rdma_event_channel *channel, int wait_ms)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event, copy;
	uint8_t data[256];

	if (poll(&ready, 1, wait_ms) != 1)
		return;
	EXPECT(meeting, !rdma_get_cm_event(channel, &event));
	copy = *event;
	if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		memcpy(data, copy.param.conn.private_data, copy.param.conn.private_data_len);
		copy.param.conn.private_data = data;
	}
	rdma_ack_cm_event(event);
	on_event(meeting, &copy);
}

/* --- the two sides --- */

static atomic_bool stopping;

static void *serve(void *arg)
{
	struct meeting *meeting = arg;

	while (!atomic_load(&stopping))
		serve_event(meeting, meeting->party.server_channel, 20);
	return NULL;
}

static void *serve_clients(void *arg)
{
	struct meeting *meeting = arg;

	while (!atomic_load(&stopping))
		serve_event(meeting, meeting->party.client_channel, 20);
	return NULL;
}

/* Keeps a CPU busy. */
static void *disturb(void *arg)
{
	while (!atomic_load(&stopping))
		;
	return arg;
}

static void connect_client(struct meeting *meeting, uint32_t number)
{
	struct rdma_conn_param param = { .private_data = &number,
					 .private_data_len = sizeof(number) };
	struct end *client = &meeting->clients[number], *server = &meeting->servers[number];

	client->peer = server;
	server->peer = client;
	server->passive = true;
	client->fate = server->fate = fate_of(meeting->seed + number);
	party_resolve(&meeting->party);
	client->id = meeting->party.client;
	client->id->context = client;
	meeting->party.client = NULL;
	assert_int_equal(rdma_connect(client->id, &param), 0);
}

/* Nobody ends what its peer has ended. */
static void ask(struct meeting *meeting, struct end *end)
{
	bool late;

	pthread_mutex_lock(&meeting->lock);
	late = end->disconnected;
	end->asked = !late;
	pthread_mutex_unlock(&meeting->lock);
	if (!late)
		assert_int_equal(rdma_disconnect(end->id), 0);
}

static void end_connections(struct meeting *meeting)
{
	for (int i = 0; i < CLIENTS; i++) {
		const enum fate fate = meeting->clients[i].fate;

		if (fate == ENDED_BY_CLIENT || fate == ENDED_BY_BOTH)
			ask(meeting, &meeting->clients[i]);
		if (fate == ENDED_BY_SERVER || fate == ENDED_BY_BOTH)
			ask(meeting, &meeting->servers[i]);
	}
}

static void check_end(const struct end *end)
{
	const int connected = end->fate != REFUSED;

	assert_int_equal(end->established, connected);
	assert_int_equal(end->disconnected, connected);
	assert_int_equal(end->refused, end->fate == REFUSED && !end->passive);
	assert_false(end->too_early);
}

static void wait_for(struct meeting *meeting, atomic_int *count, int wanted)
{
	for (int waited_ms = 0; atomic_load(count) < wanted; waited_ms++) {
		assert_true(waited_ms < EVENT_WAIT_MS);
		assert_false(atomic_load(&meeting->broken));
		poll(NULL, 0, 1);
	}
}

static int identifiers_connected(const struct meeting *meeting)
{
	int count = 0;

	for (int i = 0; i < CLIENTS; i++)
		count += meeting->clients[i].fate == REFUSED ? 0 : 2;
	return count;
}

static void destroy(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void meet(unsigned seed, bool disturbed)
{
	static struct meeting meeting;
	pthread_t threads[4];
	int count = 0;

	meeting = (struct meeting){ .seed = seed, .lock = PTHREAD_MUTEX_INITIALIZER };
	party_begin(&meeting.party, RDMA_PS_TCP);
	for (uint32_t i = 0; i < CLIENTS; i++)
		connect_client(&meeting, i);
	atomic_store(&stopping, false);
	assert_int_equal(pthread_create(&threads[count++], NULL, serve, &meeting), 0);
	assert_int_equal(pthread_create(&threads[count++], NULL, serve_clients, &meeting), 0);
	while (disturbed && count < 4)
		assert_int_equal(pthread_create(&threads[count++], NULL, disturb, NULL), 0);
	wait_for(&meeting, &meeting.established, identifiers_connected(&meeting));
	end_connections(&meeting);
	/* Behind the last event nothing can come: a second DISCONNECTED would have been there. */
	wait_for(&meeting, &meeting.over, identifiers_connected(&meeting));
	wait_for(&meeting, &meeting.refused, CLIENTS - identifiers_connected(&meeting) / 2);
	atomic_store(&stopping, true);
	while (count)
		pthread_join(threads[--count], NULL);
	assert_false(atomic_load(&meeting.broken));
	for (int i = 0; i < CLIENTS; i++) {
		check_end(&meeting.clients[i]);
		check_end(&meeting.servers[i]);
		destroy(meeting.clients[i].id);
		destroy(meeting.servers[i].id);
	}
	party_end(&meeting.party);
}

static void each_end_is_heard_once_and_in_order(void **state)
{
	for (unsigned round = 0; round < ROUNDS; round++)
		meet(round * CLIENTS, false);
	(void)state;
}

static void so_it_is_when_cpus_are_busy(void **state)
{
	for (unsigned round = 0; round < ROUNDS; round++)
		meet((ROUNDS + round) * CLIENTS, true);
	(void)state;
}

/* An application that hears of the end and never answers. */
static void a_peer_that_does_not_answer_is_waited_for_no_longer_than_it_may_take(void **state)
{
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_connect(&party);
	assert_int_equal(rdma_disconnect(party.client), 0);
	assert_int_equal(expect_event(party.server_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
	for (int waits = 0; waits < 3; waits++) {
		struct pollfd ready = { .fd = party.client_channel->fd, .events = POLLIN };

		if (poll(&ready, 1, 5000))
			break;
	}
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
	party_end(&party);
	(void)state;
}

static void who_destroys_its_identifier_answers(void **state)
{
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_connect(&party);
	assert_int_equal(rdma_disconnect(party.client), 0);
	assert_int_equal(expect_event(party.server_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
	expect_silence(party.client_channel, 0);
	destroy(party.server);
	party.server = NULL;
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
	party_end(&party);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_end_is_heard_once_and_in_order),
		cmocka_unit_test(so_it_is_when_cpus_are_busy),
		cmocka_unit_test(
			a_peer_that_does_not_answer_is_waited_for_no_longer_than_it_may_take),
		cmocka_unit_test(who_destroys_its_identifier_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
