/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels, events, ports and options. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../asleep.h"
#include "party.h"

static void an_empty_channel_says_EAGAIN(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;

	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
	rdma_destroy_event_channel(channel);
	(void)state;
}

static struct rdma_cm_id *resolving(struct rdma_event_channel *channel)
{
	struct sockaddr_in addr;
	struct rdma_cm_id *id;

	address4(&addr, "127.0.0.1", 1);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 100), 0);
	return id;
}

static void pending_events_move_with_their_id(void **state)
{
	struct rdma_event_channel *a = rdma_create_event_channel(),
				  *b = rdma_create_event_channel();
	struct rdma_cm_id *stays = resolving(a), *moves = resolving(a);
	struct rdma_cm_event *event;

	assert_int_equal(rdma_migrate_id(moves, b), 0);
	event = next_event(a, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_ptr_equal(event->id, stays);
	rdma_ack_cm_event(event);
	expect_silence(a, 0);
	event = next_event(b, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_ptr_equal(event->id, moves);
	assert_ptr_equal(moves->channel, b);
	rdma_ack_cm_event(event);
	rdma_destroy_id(stays);
	rdma_destroy_id(moves);
	rdma_destroy_event_channel(a);
	rdma_destroy_event_channel(b);
	(void)state;
}

static void wait_for_event(struct rdma_event_channel *channel)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };

	assert_int_equal(poll(&ready, 1, 5000), 1);
}

static void requests_move_with_their_listener(void **state)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_event_channel *old;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, &param), 0);
	old = party.server_channel;
	wait_for_event(old);
	party.server_channel = rdma_create_event_channel();
	assert_int_equal(rdma_migrate_id(party.listener, party.server_channel), 0);
	rdma_destroy_event_channel(old);
	party_request(&party);
	assert_ptr_equal(party.server->channel, party.server_channel);
	assert_int_equal(rdma_accept(party.server, NULL), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_event(party.server_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	party_end(&party);
	(void)state;
}

static void events_go_with_their_id(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	rdma_destroy_id(resolving(channel));
	expect_silence(channel, 0);
	rdma_destroy_event_channel(channel);
	(void)state;
}

/* Sleeping is not as exact. */
static void spin(long ns)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < ns);
}

struct fetcher {
	struct rdma_event_channel *channel;
	_Atomic pid_t thread_id; /* as soon as it has nothing to do but to fetch */
	bool failed;
};

static void *fetch_one(void *arg)
{
	struct fetcher *fetcher = arg;
	struct rdma_cm_event *event;

	fetcher->thread_id = gettid();
	fetcher->failed = rdma_get_cm_event(fetcher->channel, &event);
	if (!fetcher->failed)
		rdma_ack_cm_event(event);
	return NULL;
}

static pthread_t fetcher_start(struct fetcher *fetcher)
{
	pthread_t thread;

	fetcher->channel = rdma_create_event_channel();
	assert_int_equal(pthread_create(&thread, NULL, fetch_one, fetcher), 0);
	thread_await_sleep(&fetcher->thread_id);
	return thread;
}

/*
 * Programs leave the thread that fetches events where it is and destroy all around it, while the
 * last event comes. The thread gets that event, or sleeps for ever; an error would end the program.
 */
static void a_channel_goes_while_a_thread_waits(void **state)
{
	for (int i = 0; i < 500; i++) {
		struct fetcher fetcher = { 0 };
		pthread_t thread = fetcher_start(&fetcher);
		struct rdma_cm_id *id = resolving(fetcher.channel);

		spin(i % 100 *
		     500L); /* so that the thread is asleep, on its way, or has the event */
		rdma_destroy_id(id);
		rdma_destroy_event_channel(fetcher.channel);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
		assert_false(fetcher.failed);
	}
	(void)state;
}

/* Identifiers that are left over can be destroyed, and nothing else. */
static void a_channel_goes_before_its_ids(void **state)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct sockaddr_in addr, group;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, &param), 0);
	wait_for_event(party.server_channel);
	rdma_destroy_event_channel(party.server_channel); /* with a request that nobody fetched */
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_REJECTED), 28);
	party.server_channel = party.client_channel;
	rdma_destroy_qp(party.client);
	rdma_destroy_id(party.client);

	address4(&addr, "127.0.0.1", party.port);
	address4(&group, "239.1.2.3", 0);
	assert_int_equal(rdma_create_id(party.client_channel, &party.client, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_resolve_addr(party.client, NULL, (struct sockaddr *)&addr, 1000), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_join_multicast(party.client, (struct sockaddr *)&group, NULL), 0);
	rdma_destroy_event_channel(party.client_channel);
	assert_int_equal(rdma_resolve_route(party.client, 1000), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_join_multicast(party.client, (struct sockaddr *)&group, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_leave_multicast(party.client, (struct sockaddr *)&group), 0);
	assert_int_equal(rdma_connect(party.client, NULL), -1);
	assert_int_equal(rdma_disconnect(party.client), -1);
	assert_int_equal(rdma_listen(party.listener, 0), -1);
	rdma_destroy_id(party.client);
	rdma_destroy_id(party.listener);
	(void)state;
}

static _Atomic bool acked;
static _Atomic pid_t destroyer;

/* When the other thread waits for it: in the call, or because it was too early. */
static void *acknowledge(void *event)
{
	thread_await_sleep(&destroyer);
	acked = true;
	rdma_ack_cm_event(event);
	return NULL;
}

static void destroying_waits_for_acknowledgements(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = resolving(channel);
	pthread_t thread;

	acked = false;
	destroyer = 0;
	pthread_create(&thread, NULL, acknowledge,
		       next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
	destroyer = gettid();
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_true(acked);
	pthread_join(thread, NULL);
	rdma_destroy_event_channel(channel);
	(void)state;
}

static _Atomic int to_go;

/* Goes on with whatever identifier has an event, and destroys it in the end. */
static void *go_on(void *channel)
{
	struct rdma_cm_event *event;

	while (to_go > 0) {
		struct rdma_cm_id *id;
		bool resolved;

		if (rdma_get_cm_event(channel, &event))
			continue;
		id = event->id;
		resolved = event->event == RDMA_CM_EVENT_ROUTE_RESOLVED;
		rdma_ack_cm_event(event);
		if (!resolved) {
			rdma_resolve_route(id, 1000);
			continue;
		}
		rdma_destroy_id(id);
		to_go--;
	}
	return NULL;
}

/* The sanitizers look on. */
static void an_id_may_go_before_the_call_returns(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	pthread_t threads[3];

	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	to_go = 500;
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, go_on, channel);
	for (int i = 0; i < 500; i++)
		resolving(channel);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	rdma_destroy_event_channel(channel);
	(void)state;
}

/* --- ports --- */

static int bind_to(struct rdma_cm_id **id, const char *text, uint16_t port, bool reuse)
{
	struct sockaddr_in addr;
	int flag = reuse;

	address4(&addr, text, port);
	assert_int_equal(rdma_create_id(NULL, id, NULL, RDMA_PS_TCP), 0);
	if (reuse)
		assert_int_equal(rdma_set_option(*id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR,
						 &flag, sizeof(flag)),
				 0);
	return rdma_bind_addr(*id, (struct sockaddr *)&addr);
}

static void a_port_has_one_owner(void **state)
{
	struct rdma_cm_id *first, *second;
	uint16_t port;

	assert_int_equal(bind_to(&first, "127.0.0.1", 0, false), 0);
	port = ntohs(rdma_get_src_port(first));
	assert_true(port >= 1024);
	assert_int_equal(bind_to(&second, "127.0.0.1", port, false), -1);
	assert_int_equal(errno, EADDRINUSE);
	rdma_destroy_id(second);
	assert_int_equal(bind_to(&second, "0.0.0.0", port, false), -1);
	assert_int_equal(errno, EADDRINUSE);
	rdma_destroy_id(second);
	rdma_destroy_id(first);
	assert_int_equal(bind_to(&second, "0.0.0.0", port, false), 0);
	rdma_destroy_id(second);
	(void)state;
}

static void a_port_may_be_shared_until_one_listens(void **state)
{
	struct rdma_cm_id *first, *second;
	uint16_t port;

	assert_int_equal(bind_to(&first, "127.0.0.1", 0, true), 0);
	port = ntohs(rdma_get_src_port(first));
	assert_int_equal(bind_to(&second, "127.0.0.1", port, true), 0);
	rdma_destroy_id(second);
	assert_int_equal(rdma_listen(first, 1), 0);
	assert_int_equal(bind_to(&second, "127.0.0.1", port, true), -1);
	assert_int_equal(errno, EADDRINUSE);
	rdma_destroy_id(second);
	rdma_destroy_id(first);
	(void)state;
}

static int set_flag(struct rdma_cm_id *id, int option, int flag)
{
	return rdma_set_option(id, RDMA_OPTION_ID, option, &flag, sizeof(flag));
}

static void a_port_may_be_shared_later(void **state)
{
	struct rdma_cm_id *first, *second;
	uint16_t port;

	assert_int_equal(bind_to(&first, "127.0.0.1", 0, false), 0);
	port = ntohs(rdma_get_src_port(first));
	assert_int_equal(set_flag(first, RDMA_OPTION_ID_REUSEADDR, 1), 0);
	assert_int_equal(bind_to(&second, "127.0.0.1", port, true), 0);
	/* What others have cannot be taken back. */
	assert_int_equal(set_flag(first, RDMA_OPTION_ID_REUSEADDR, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_listen(first, 1), -1);
	assert_int_equal(errno, EADDRINUSE);
	rdma_destroy_id(second);
	assert_int_equal(rdma_listen(first, 1), 0);
	assert_int_equal(set_flag(first, RDMA_OPTION_ID_REUSEADDR, 1), -1);
	assert_int_equal(errno, EINVAL);
	rdma_destroy_id(first);
	(void)state;
}

static void the_other_family_is_given_back(void **state)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct rdma_cm_id *first, *second;
	uint16_t port;

	assert_int_equal(rdma_create_id(NULL, &first, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(first, (struct sockaddr *)&any), 0);
	port = ntohs(rdma_get_src_port(first));
	assert_int_equal(bind_to(&second, "0.0.0.0", port, false), -1);
	assert_int_equal(errno, EADDRINUSE);
	rdma_destroy_id(second);
	assert_int_equal(set_flag(first, RDMA_OPTION_ID_AFONLY, 1), 0);
	assert_int_equal(bind_to(&second, "0.0.0.0", port, false), 0);
	assert_int_equal(set_flag(first, RDMA_OPTION_ID_AFONLY, 0), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(rdma_listen(first, 1), 0);
	assert_int_equal(rdma_listen(second, 1), 0);
	rdma_destroy_id(second);
	rdma_destroy_id(first);
	(void)state;
}

static void an_address_must_be_ours(void **state)
{
	struct rdma_cm_id *id;

	assert_int_equal(bind_to(&id, "198.51.100.77", 0, false), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	rdma_destroy_id(id);
	(void)state;
}

/* Neither of a RoCE port, nor of an InfiniBand port of another subnet. */
static void a_gid_belongs_to_an_infiniband_port(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_FAMILY | RAI_NUMERICHOST,
				       .ai_family = AF_IB,
				       .ai_port_space = RDMA_PS_TCP },
			     *info;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	assert_int_equal(rdma_getaddrinfo("fec0::1", "7471", &hints, &info), 0);
	assert_int_equal(info->ai_family, AF_IB);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, info->ai_dst_addr), -1);
	assert_int_equal(errno, ENODEV);
	assert_int_equal(rdma_resolve_addr(id, NULL, info->ai_dst_addr, 100), -1);
	assert_int_equal(errno, ENODEV);
	expect_silence(channel, 0);
	rdma_freeaddrinfo(info);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	(void)state;
}

static int privileged_port(void)
{
	struct rdma_cm_id *id;

	if (!getuid() && setresuid(65534, 65534, 65534))
		return 1;
	return bind_to(&id, "127.0.0.1", 7, false) == -1 && errno == EACCES ? 0 : 2;
}

static void low_ports_need_a_privilege(void **state)
{
	pid_t child;
	int status;

	SKIP_WITHOUT_FORK();
	child = fork();
	if (!child)
		_exit(privileged_port());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	(void)state;
}

/* The child of a fork has nothing of its parent's, and takes nothing with it. */
static int in_child(struct party *party, struct rdma_cm_id *sync)
{
	const int fd = sync->channel->fd;
	struct rdma_cm_event *event;
	struct party own;

	if (rdma_get_cm_event(party->server_channel, &event) != -1 || errno != EINVAL)
		return 1;
	if (rdma_connect(party->client, NULL) != -1 || rdma_destroy_id(party->client))
		return 2;
	/* Its channel is nobody else's. */
	if (rdma_destroy_id(sync) || fcntl(fd, F_GETFD) != -1)
		return 3;
	party_begin(&own, RDMA_PS_TCP);
	party_connect(&own);
	party_end(&own);
	return 0;
}

static void a_child_leaves_the_parent_alone(void **state)
{
	struct rdma_cm_id *sync;
	struct party party;
	pid_t child;
	int status;

	SKIP_WITHOUT_FORK();
	party_begin(&party, RDMA_PS_TCP);
	party_connect(&party);
	assert_int_equal(bind_to(&sync, "127.0.0.1", 0, false), 0);
	child = fork();
	if (!child)
		_exit(in_child(&party, sync));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	expect_silence(party.client_channel, 0);
	assert_int_equal(rdma_disconnect(party.server), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(rdma_listen(sync, 0), 0);
	rdma_destroy_id(sync);
	party_end(&party);
	(void)state;
}

/* --- options --- */

static void the_ack_timeout_reaches_the_qp(void **state)
{
	uint8_t timeout = 11, tos = 0x68;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_set_option(party.client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					 &timeout, sizeof(timeout)),
			 0);
	assert_int_equal(rdma_set_option(party.client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 4),
			 -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_set_option(party.client, RDMA_OPTION_ID, 77, &tos, 1), -1);
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(rdma_connect(party.client, NULL), 0);
	party_request(&party);
	assert_int_equal(rdma_accept(party.server, NULL), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(ibv_query_qp(party.client->qp, &attr, IBV_QP_TIMEOUT, &init), 0);
	assert_int_equal(attr.timeout, timeout);
	party_end(&party);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_channel_says_EAGAIN),
		cmocka_unit_test(pending_events_move_with_their_id),
		cmocka_unit_test(requests_move_with_their_listener),
		cmocka_unit_test(events_go_with_their_id),
		cmocka_unit_test(a_channel_goes_while_a_thread_waits),
		cmocka_unit_test(a_channel_goes_before_its_ids),
		cmocka_unit_test(destroying_waits_for_acknowledgements),
		cmocka_unit_test(an_id_may_go_before_the_call_returns),
		cmocka_unit_test(a_port_has_one_owner),
		cmocka_unit_test(a_port_may_be_shared_until_one_listens),
		cmocka_unit_test(a_port_may_be_shared_later),
		cmocka_unit_test(the_other_family_is_given_back),
		cmocka_unit_test(an_address_must_be_ours),
		cmocka_unit_test(a_gid_belongs_to_an_infiniband_port),
		cmocka_unit_test(low_ports_need_a_privilege),
		cmocka_unit_test(a_child_leaves_the_parent_alone),
		cmocka_unit_test(the_ack_timeout_reaches_the_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
