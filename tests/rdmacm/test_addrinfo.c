/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_resolve_addrinfo, rdma_query_addrinfo, rdma_write_cm_event. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../asleep.h"
#include "abi/rdmacm.h"
#include "party.h"

#define assert_errno(call, expected)               \
	do {                                       \
		errno = 0;                         \
		assert_int_equal(call, -1);        \
		assert_int_equal(errno, expected); \
	} while (0)

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static int setup(void **state)
{
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	return rdma_create_id(channel, &id, NULL, RDMA_PS_TCP);
}

static int teardown(void **state)
{
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return 0;
}

/* To a device: the loopback addresses are those of any. */
static bool bind_to_device(void)
{
	struct ifaddrs *list;

	assert_int_equal(getifaddrs(&list), 0);
	for (const struct ifaddrs *at = list; at && !id->verbs; at = at->ifa_next)
		if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
		    !(at->ifa_flags & IFF_LOOPBACK))
			(void)rdma_bind_addr(id, at->ifa_addr);
	freeifaddrs(list);
	return id->verbs;
}

/* The result is that of rdma_getaddrinfo, and belongs to the caller. */
static void take_result(const char *address, uint16_t port)
{
	struct rdma_addrinfo *info = NULL;
	struct sockaddr_in wanted;

	address4(&wanted, address, port);
	assert_int_equal(rdma_query_addrinfo(id, &info), 0);
	assert_int_equal(info->ai_family, AF_INET);
	assert_int_equal(info->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(info->ai_dst_len, sizeof(wanted));
	assert_memory_equal(info->ai_dst_addr, &wanted, sizeof(wanted));
	rdma_freeaddrinfo(info);
}

static void an_address_is_resolved_by_an_event(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_DNS, .ai_port_space = RDMA_PS_TCP };
	struct rdma_cm_event *event;

	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), 0);
	event = next_event(channel, RDMA_CM_EVENT_ADDRINFO_RESOLVED);
	assert_ptr_equal(event->id, id);
	assert_int_equal(event->status, 0);
	rdma_ack_cm_event(event);
	take_result("127.0.0.1", 7471);
	expect_silence(channel, 0);
}

/* Without hints the resolver's first answer counts. */
static void the_hints_may_be_missing(void **state)
{
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.2", "80", NULL), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDRINFO_RESOLVED), 0);
	take_result("127.0.0.2", 80);
}

static void the_result_leads_to_a_connection(void **state)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;
	struct party party;
	char port[8];

	party_begin(&party, RDMA_PS_TCP);
	snprintf(port, sizeof(port), "%u", party.port);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", port, &hints), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDRINFO_RESOLVED), 0);
	assert_int_equal(rdma_query_addrinfo(id, &info), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, info->ai_dst_addr, 1000), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	party_create_qp(id);
	assert_int_equal(rdma_connect(id, &param), 0);
	party_request(&party);
	rdma_destroy_qp(id);
	party_end(&party);
}

/* One question at a time: until the result is taken. */
static void a_second_question_is_EBUSY(void **state)
{
	struct rdma_addrinfo *info;

	assert_errno(rdma_query_addrinfo(id, &info), ENOENT);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "1", NULL), 0);
	assert_errno(rdma_resolve_addrinfo(id, "127.0.0.1", "2", NULL), EBUSY);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDRINFO_RESOLVED), 0);
	assert_errno(rdma_resolve_addrinfo(id, "127.0.0.1", "2", NULL), EBUSY);
	take_result("127.0.0.1", 1);
	assert_errno(rdma_query_addrinfo(id, &info), ENOENT);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "2", NULL), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDRINFO_RESOLVED), 0);
	take_result("127.0.0.1", 2);
	expect_silence(channel, 0);
}

/* An address that is none, so that no name server is asked. */
static void a_failed_lookup_is_an_event(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST }, *info;

	assert_int_equal(rdma_resolve_addrinfo(id, "nobody", "1", &hints), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDRINFO_ERROR), -ENOENT);
	assert_errno(rdma_query_addrinfo(id, &info), ENOENT);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "1", &hints), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDRINFO_RESOLVED), 0);
	take_result("127.0.0.1", 1);
}

static void bad_questions_are_refused(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_SA | RAI_DNS }, *info;

	assert_errno(rdma_resolve_addrinfo(NULL, "127.0.0.1", "1", NULL), EINVAL);
	assert_errno(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	assert_errno(rdma_resolve_addrinfo(id, NULL, "1", &hints), EOPNOTSUPP);
	assert_errno(rdma_getaddrinfo(NULL, "1", &hints, &info), EOPNOTSUPP);
	hints.ai_flags = RAI_SA;
	assert_errno(rdma_resolve_addrinfo(id, "127.0.0.1", "1", &hints), EOPNOTSUPP);
	assert_errno(rdma_resolve_addrinfo(id, NULL, NULL, &hints), EINVAL);
	assert_errno(rdma_resolve_addrinfo(id, NULL, "1", &hints), EINVAL); /* not bound */
	assert_errno(rdma_getaddrinfo("127.0.0.1", "1", &hints, &info), EOPNOTSUPP);
	assert_errno(rdma_getaddrinfo(NULL, NULL, &hints, &info), EINVAL);
	assert_errno(rdma_getaddrinfo(NULL, "1", &hints, &info), ENOENT);
	assert_errno(rdma_query_addrinfo(NULL, &info), EINVAL);
	assert_errno(rdma_query_addrinfo(id, NULL), EINVAL);
	expect_silence(channel, 0);
}

/* A RoCE port has nobody to ask. test_infiniband.c has services that are there. */
static void services_are_asked_for_on_infiniband(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_SA };
	struct ibv_port_attr port;

	if (!bind_to_device())
		skip();
	assert_int_equal(ibv_query_port(id->verbs, 1, &port), 0);
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		assert_errno(rdma_resolve_addrinfo(id, NULL, "a service", &hints), EOPNOTSUPP);
		expect_silence(channel, 0);
		return;
	}
	assert_int_equal(rdma_resolve_addrinfo(id, NULL, "a service", &hints), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDRINFO_ERROR), -ENOENT);
	assert_int_equal(rdma_resolve_addrinfo(id, NULL, "0x1234", &hints), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDRINFO_ERROR), -ENOENT);
}

static void a_synchronous_id_waits_for_the_answer(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST }, *info;
	struct rdma_cm_id *sync;

	assert_int_equal(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP), 0);
	assert_errno(rdma_resolve_addrinfo(sync, "nobody", "1", &hints), ENOENT);
	assert_int_equal(sync->event->event, RDMA_CM_EVENT_ADDRINFO_ERROR);
	assert_int_equal(rdma_resolve_addrinfo(sync, "127.0.0.1", "1", NULL), 0);
	assert_int_equal(sync->event->event, RDMA_CM_EVENT_ADDRINFO_RESOLVED);
	assert_int_equal(rdma_query_addrinfo(sync, &info), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_destroy_id(sync), 0);
}

/* --- a resolver that takes its time --- */

static sem_t asked, answer;

/* In front of the C library's. */
__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
						       const struct addrinfo *hints,
						       struct addrinfo **result)
{
	__typeof__(getaddrinfo) *next = dlsym(RTLD_NEXT, "getaddrinfo");

	if (node && !strcmp(node, "slow")) {
		sem_post(&asked);
		sem_wait(&answer);
		node = "127.0.0.1";
	}
	return next(node, service, hints, result);
}

static void *resolve_slowly(void *slow)
{
	return (void *)(intptr_t)(rdma_resolve_addrinfo(slow, "slow", "1", NULL) ? errno : 0);
}

static _Atomic pid_t destroyer;

static void *destroy_it(void *slow)
{
	destroyer = gettid();
	return (void *)(intptr_t)rdma_destroy_id(slow);
}

/* The identifier stays until the lookup is over, and no event comes. */
static void an_id_may_go_during_a_lookup(void **state)
{
	pthread_t resolves, destroys;
	struct rdma_cm_id *gone;
	void *result;

	sem_init(&asked, 0, 0);
	sem_init(&answer, 0, 0);
	destroyer = 0;
	assert_int_equal(rdma_create_id(channel, &gone, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(pthread_create(&resolves, NULL, resolve_slowly, gone), 0);
	sem_wait(&asked);
	assert_errno(rdma_resolve_addrinfo(gone, "127.0.0.1", "1", NULL), EBUSY);
	assert_int_equal(pthread_create(&destroys, NULL, destroy_it, gone), 0);
	thread_await_sleep(&destroyer);
	sem_post(&answer);
	assert_int_equal(pthread_join(resolves, &result), 0);
	assert_int_equal((intptr_t)result, ECANCELED);
	assert_int_equal(pthread_join(destroys, &result), 0);
	assert_int_equal((intptr_t)result, 0);
	expect_silence(channel, 0);
}

/* With the event unfetched, and the result untaken; leaks are for the sanitizer to find. */
static void an_id_may_go_before_its_answer_is_taken(void **state)
{
	struct rdma_cm_id *gone;

	for (int fetched = 0; fetched < 2; fetched++) {
		assert_int_equal(rdma_create_id(channel, &gone, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_resolve_addrinfo(gone, "127.0.0.1", "1", NULL), 0);
		if (fetched)
			expect_event(channel, RDMA_CM_EVENT_ADDRINFO_RESOLVED);
		assert_int_equal(rdma_destroy_id(gone), 0);
		expect_silence(channel, 0);
	}
}

/* --- events of the application --- */

static void an_event_of_the_application_brings_its_argument(void **state)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, -7, 0x1122334455667788), 0);
	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 8, UINT64_MAX), 0);
	event = next_event(channel, RDMA_CM_EVENT_USER);
	assert_ptr_equal(event->id, id);
	assert_int_equal(event->status, -7);
	assert_int_equal(*vb_abi_event_arg(event), 0x1122334455667788);
	rdma_ack_cm_event(event);
	event = next_event(channel, RDMA_CM_EVENT_USER);
	assert_int_equal(event->status, 8);
	assert_int_equal(*vb_abi_event_arg(event), UINT64_MAX);
	rdma_ack_cm_event(event);
	expect_silence(channel, 0);
}

static void other_events_cannot_be_written(void **state)
{
	for (int type = -1; type <= (int)RDMA_CM_EVENT_INTERNAL + 1; type++)
		if (type != RDMA_CM_EVENT_USER)
			assert_errno(rdma_write_cm_event(id, (enum rdma_cm_event_type)type, 0, 0),
				     EINVAL);
	assert_errno(rdma_write_cm_event(NULL, RDMA_CM_EVENT_USER, 0, 0), EINVAL);
	expect_silence(channel, 0);
}

static _Atomic pid_t sleeper;

static void *fetch_one(void *arg)
{
	struct rdma_cm_event *event;
	uint64_t argument;

	sleeper = gettid();
	if (rdma_get_cm_event(channel, &event))
		return NULL;
	argument = *vb_abi_event_arg(event);
	rdma_ack_cm_event(event);
	return (void *)(uintptr_t)argument;
}

static void an_event_of_the_application_wakes_a_thread(void **state)
{
	pthread_t thread;
	void *argument;

	sleeper = 0;
	assert_int_equal(pthread_create(&thread, NULL, fetch_one, NULL), 0);
	thread_await_sleep(&sleeper);
	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 4711), 0);
	assert_int_equal(pthread_join(thread, &argument), 0);
	assert_int_equal((uintptr_t)argument, 4711);
}

static void unfetched_events_go_with_their_id(void **state)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_id *gone;

	assert_int_equal(rdma_create_id(channel, &gone, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_write_cm_event(gone, RDMA_CM_EVENT_USER, 0, 1), 0);
	assert_int_equal(rdma_migrate_id(gone, other), 0);
	expect_silence(channel, 0);
	expect_event(other, RDMA_CM_EVENT_USER);
	assert_int_equal(rdma_write_cm_event(gone, RDMA_CM_EVENT_USER, 0, 2), 0);
	assert_int_equal(rdma_destroy_id(gone), 0);
	expect_silence(other, 0);
	rdma_destroy_event_channel(other);
}

/* Threads write, resolve and take, while another thread fetches; then the identifier goes. */
static void *write_events(void *arg)
{
	for (int i = 0; i < 200; i++)
		assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 1), 0);
	return NULL;
}

static void threads_write_to_one_channel(void **state)
{
	enum { WRITERS = 3, EVENTS = WRITERS * 200 };
	pthread_t threads[WRITERS];

	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_events, NULL), 0);
	for (int i = 0; i < EVENTS; i++)
		expect_event(channel, RDMA_CM_EVENT_USER);
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	expect_silence(channel, 0);
}

/* The identifier is the parent's. */
static void a_child_of_fork_is_refused(void **state)
{
	struct rdma_addrinfo *info;
	int status;
	pid_t child;

	SKIP_WITHOUT_FORK();
	child = fork();
	if (!child) {
		bool right =
			rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 1) == -1 && errno == EINVAL;

		right &= rdma_resolve_addrinfo(id, "127.0.0.1", "1", NULL) == -1 && errno == EINVAL;
		right &= rdma_query_addrinfo(id, &info) == -1 && errno == EINVAL;
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	expect_silence(channel, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_address_is_resolved_by_an_event),
		TEST(the_hints_may_be_missing),
		TEST(the_result_leads_to_a_connection),
		TEST(a_second_question_is_EBUSY),
		TEST(a_failed_lookup_is_an_event),
		TEST(bad_questions_are_refused),
		TEST(services_are_asked_for_on_infiniband),
		TEST(a_synchronous_id_waits_for_the_answer),
		TEST(an_id_may_go_during_a_lookup),
		TEST(an_id_may_go_before_its_answer_is_taken),
		TEST(an_event_of_the_application_brings_its_argument),
		TEST(other_events_cannot_be_written),
		TEST(an_event_of_the_application_wakes_a_thread),
		TEST(unfetched_events_go_with_their_id),
		TEST(threads_write_to_one_channel),
		TEST(a_child_of_fork_is_refused),
	};

	return cmocka_run_group_tests_name("rdmacm-addrinfo", tests, NULL, NULL);
}
