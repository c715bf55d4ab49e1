/* SPDX-License-Identifier: BSD-2-Clause */
/* librdmacm with addresses of Verbena's device and of a system's that is made up (fake.h). */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "abi/rdmacm.h"
#include "fake.h"

static struct fake_device *fake;
static struct ibv_device *ours;
static struct rdma_event_channel *channel;

static int begin(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0] || !list[1])
		return -1;
	ours = list[0];
	fake = (struct fake_device *)list[1];
	ibv_free_device_list(list);
	channel = rdma_create_event_channel();
	return !channel;
}

static int end(void **state)
{
	rdma_destroy_event_channel(channel);
	return 0;
}

static struct sockaddr *address(const char *host, uint16_t port)
{
	static struct sockaddr_in room[4];
	static unsigned next;
	struct sockaddr_in *sin = &room[next++ % 4];

	*sin = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	inet_pton(AF_INET, host, &sin->sin_addr);
	return (struct sockaddr *)sin;
}

static struct rdma_cm_id *make_id(struct rdma_event_channel *on, void *context)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(on, &id, context, RDMA_PS_TCP), 0);
	return id;
}

static struct rdma_cm_event *fetch(enum rdma_cm_event_type type, const struct rdma_cm_id *id)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->event, type);
	if (id)
		assert_ptr_equal(event->id, id);
	return event;
}

static void expect(enum rdma_cm_event_type type, const struct rdma_cm_id *id)
{
	assert_int_equal(rdma_ack_cm_event(fetch(type, id)), 0);
}

static void expect_nothing_left(void)
{
	assert_int_equal(fake->ids, 0);
	assert_int_equal(fake->cm_events, 0);
	assert_int_equal(fake->qps, 0);
}

/* --- whose an address is --- */

static void bound_address_decides(void **state)
{
	struct rdma_cm_id *there = make_id(channel, NULL), *here = make_id(channel, NULL);

	assert_int_equal(rdma_bind_addr(there, address(FAKE_ADDRESS, 0)), 0);
	assert_ptr_equal(there->verbs->device, fake);
	assert_int_equal(ntohs(rdma_get_src_port(there)), FAKE_INDEX);
	assert_int_equal(there->route.addr.src_sin.sin_addr.s_addr, inet_addr(FAKE_ADDRESS));
	assert_int_equal(rdma_bind_addr(here, address("127.0.0.1", 0)), 0);
	assert_null(here->verbs);
	assert_int_equal(fake->ids, 1);
	assert_int_equal(rdma_destroy_id(there), 0);
	assert_int_equal(rdma_destroy_id(here), 0);
	expect_nothing_left();
}

static void resolved_source_decides(void **state)
{
	struct rdma_cm_id *there = make_id(channel, NULL), *here = make_id(channel, NULL);

	assert_int_equal(
		rdma_resolve_addr(there, address(FAKE_ADDRESS, 0), address("192.0.2.2", 7), 1000),
		0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, there);
	assert_ptr_equal(there->verbs->device, fake);
	assert_int_equal(ntohs(rdma_get_dst_port(there)), 7);
	assert_int_equal(rdma_resolve_addr(here, NULL, address("127.0.0.1", 7), 1000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, here);
	assert_ptr_equal(here->verbs->device, ours);
	assert_int_equal(rdma_destroy_id(there), 0);
	assert_int_equal(rdma_destroy_id(here), 0);
	expect_nothing_left();
}

static void objects_of_such_ids_are_the_systems(void **state)
{
	struct rdma_cm_id *id = make_id(channel, NULL);
	struct ibv_context *context = ibv_open_device(ours);
	struct ibv_pd *own = ibv_alloc_pd(context), *pd;
	struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	assert_int_equal(rdma_bind_addr(id, address(FAKE_ADDRESS, 0)), 0);
	pd = ibv_alloc_pd(id->verbs);
	assert_int_equal(fake->pds, 1);
	errno = 0;
	assert_int_equal(rdma_create_qp(id, own, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_create_qp(id, pd, &attr), 0);
	assert_ptr_equal(id->qp->pd, pd);
	assert_int_equal(fake->qps, 1);
	rdma_destroy_qp(id);
	assert_null(id->qp);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(ibv_dealloc_pd(own), 0);
	assert_int_equal(ibv_close_device(context), 0);
	expect_nothing_left();
}

static void devices_of_both_are_listed(void **state)
{
	int count;
	struct ibv_context **list = rdma_get_devices(&count);

	assert_int_equal(count, 2);
	assert_ptr_equal(list[0]->device, ours);
	assert_ptr_equal(list[1]->device, fake);
	assert_null(list[2]);
	rdma_free_devices(list);
}

/* --- connections --- */

static struct rdma_cm_id *listen_on(const char *host, uint16_t port, void *context)
{
	struct rdma_cm_id *id = make_id(channel, context);

	assert_int_equal(rdma_bind_addr(id, address(host, port)), 0);
	assert_int_equal(rdma_listen(id, 4), 0);
	return id;
}

static struct rdma_cm_id *connect_to(const char *source, const char *host, __be16 port,
				     struct rdma_conn_param *param)
{
	struct rdma_cm_id *id = make_id(channel, NULL);

	assert_int_equal(rdma_resolve_addr(id, source ? address(source, 0) : NULL,
					   address(host, ntohs(port)), 1000),
			 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, id);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, id);
	assert_int_equal(rdma_connect(id, param), 0);
	return id;
}

static struct rdma_cm_id *accept_from(const struct rdma_cm_id *listener,
				      const struct ibv_device *device)
{
	struct rdma_cm_event *event = fetch(RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	struct rdma_cm_id *child = event->id;
	struct rdma_conn_param param = { 0 };

	assert_ptr_equal(event->listen_id, listener);
	assert_ptr_equal(child->context, listener->context);
	assert_ptr_equal(child->verbs->device, device);
	assert_memory_equal(event->param.conn.private_data, "hello", 5);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_accept(child, &param), 0);
	return child;
}

static void connections_of_the_system_come_and_go(void **state)
{
	struct rdma_conn_param param = { .private_data = "hello", .private_data_len = 5 };
	struct rdma_cm_id *listener = listen_on(FAKE_ADDRESS, 7, fake);
	struct rdma_cm_id *active = connect_to(FAKE_ADDRESS, FAKE_ADDRESS, htons(7), &param);
	struct rdma_cm_id *child = accept_from(listener, &fake->ibv);

	expect(RDMA_CM_EVENT_ESTABLISHED, child);
	expect(RDMA_CM_EVENT_ESTABLISHED, active);
	assert_int_equal(rdma_disconnect(active), 0);
	expect(RDMA_CM_EVENT_DISCONNECTED, active);
	expect(RDMA_CM_EVENT_DISCONNECTED, child);
	assert_int_equal(rdma_destroy_id(active), 0);
	assert_int_equal(rdma_destroy_id(child), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	expect_nothing_left();
}

/* Either of two ids has the event first: they are of one connection. */
static void expect_either(enum rdma_cm_event_type type, const struct rdma_cm_id *one,
			  const struct rdma_cm_id *other)
{
	struct rdma_cm_event *event = fetch(type, NULL);
	const struct rdma_cm_id *next = event->id == one ? other : one;

	assert_int_equal(rdma_ack_cm_event(event), 0);
	expect(type, next);
}

static void wildcard_listens_at_both(void **state)
{
	struct rdma_conn_param param = { .private_data = "hello", .private_data_len = 5 };
	struct rdma_cm_id *listener = listen_on("0.0.0.0", 0, NULL);
	const __be16 port = rdma_get_src_port(listener);
	struct rdma_cm_id *there, *child_there, *here, *child_here;
	struct rdma_cm_event *event;

	assert_int_not_equal(port, 0);
	there = connect_to(FAKE_ADDRESS, FAKE_ADDRESS, port, &param);
	child_there = accept_from(listener, &fake->ibv);
	expect_either(RDMA_CM_EVENT_ESTABLISHED, there, child_there);
	here = connect_to(NULL, "127.0.0.1", port, &param);
	event = fetch(RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	child_here = event->id;
	assert_ptr_equal(child_here->verbs->device, ours);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_reject(child_here, NULL, 0), 0);
	expect(RDMA_CM_EVENT_REJECTED, here);

	assert_int_equal(rdma_destroy_id(there), 0);
	assert_int_equal(rdma_destroy_id(child_there), 0);
	assert_int_equal(rdma_destroy_id(here), 0);
	assert_int_equal(rdma_destroy_id(child_here), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	expect_nothing_left();
}

/* --- descriptors and synchronous ids --- */

static int readable(void)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };

	return poll(&ready, 1, 0);
}

static void descriptor_tells_of_both(void **state)
{
	struct rdma_cm_id *there = make_id(channel, NULL), *here = make_id(channel, NULL);
	struct rdma_cm_event *event;

	assert_int_equal(readable(), 0);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	errno = 0;
	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(
		rdma_resolve_addr(there, address(FAKE_ADDRESS, 0), address("192.0.2.2", 7), 1000),
		0);
	assert_int_equal(readable(), 1);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, there);
	assert_int_equal(readable(), 0);
	assert_int_equal(rdma_resolve_addr(here, NULL, address("127.0.0.1", 7), 1000), 0);
	assert_int_equal(readable(), 1);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, here);
	assert_int_equal(readable(), 0);
	assert_int_equal(fcntl(channel->fd, F_SETFL, 0), 0);
	assert_int_equal(rdma_destroy_id(there), 0);
	assert_int_equal(rdma_destroy_id(here), 0);
	expect_nothing_left();
}

static void synchronous_calls_wait(void **state)
{
	const int channels = fake->cm_channels;
	struct rdma_cm_id *id = make_id(NULL, NULL);

	assert_int_equal(
		rdma_resolve_addr(id, address(FAKE_ADDRESS, 0), address("192.0.2.2", 7), 1000), 0);
	assert_non_null(id->event);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_ptr_equal(id->event->id, id);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(fake->cm_channels, channels);
	expect_nothing_left();
}

static void ids_move_between_channels(void **state)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_id *id = make_id(other, NULL);

	assert_int_equal(rdma_bind_addr(id, address(FAKE_ADDRESS, 0)), 0);
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	rdma_destroy_event_channel(other);
	assert_int_equal(rdma_resolve_addr(id, NULL, address("192.0.2.2", 7), 1000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, id);
	assert_int_equal(rdma_destroy_id(id), 0);
	expect_nothing_left();
}

/* --- errors --- */

static void errno_is_that_of_the_program(void **state)
{
	struct rdma_conn_param param = { 0 };
	struct rdma_cm_id *id = make_id(channel, NULL);

	assert_int_equal(rdma_bind_addr(id, address(FAKE_ADDRESS, 0)), 0);
	fake->cm_fails = 1;
	errno = 0;
	assert_int_equal(rdma_connect(id, &param), -1);
	assert_int_equal(errno, FAKE_ERRNO);
	fake->cm_fails = 0;
	errno = 0;
	assert_int_equal(rdma_establish(id), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(rdma_destroy_id(id), 0);
	expect_nothing_left();
}

/* A port that only the system's library knows to be in use. */
static void both_have_the_port_or_none(void **state)
{
	struct rdma_cm_id *id = make_id(channel, NULL);

	fake->refused_binds = 3;
	assert_int_equal(rdma_bind_addr(id, address("0.0.0.0", 0)), 0);
	assert_int_equal(fake->refused_binds, 0);
	assert_int_equal(rdma_destroy_id(id), 0);

	id = make_id(channel, NULL);
	fake->refused_binds = 1;
	errno = 0;
	assert_int_equal(rdma_bind_addr(id, address("0.0.0.0", 23456)), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(rdma_bind_addr(id, address("0.0.0.0", 23456)), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	expect_nothing_left();
}

/* Set before the address is known, after a wildcard, and on an id of the system's. */
static void options_reach_both(void **state)
{
	struct rdma_cm_id *early = make_id(channel, NULL), *late = make_id(channel, NULL);
	int yes = 1;
	uint8_t tos = 8;

	fake->cm_options = 0;
	assert_int_equal(
		rdma_set_option(early, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)),
		0);
	assert_int_equal(fake->cm_options, 0);
	assert_int_equal(rdma_bind_addr(early, address(FAKE_ADDRESS, 0)), 0);
	assert_int_equal(fake->cm_options, 1);
	assert_int_equal(
		rdma_set_option(early, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)), 0);
	assert_int_equal(fake->cm_options, 2);
	assert_int_equal(rdma_bind_addr(late, address("0.0.0.0", 0)), 0);
	assert_int_equal(
		rdma_set_option(late, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)), 0);
	assert_int_equal(fake->cm_options, 3);
	assert_int_equal(rdma_destroy_id(early), 0);
	assert_int_equal(rdma_destroy_id(late), 0);
	expect_nothing_left();
}

static int child(struct rdma_cm_id *inherited)
{
	struct rdma_event_channel *own = rdma_create_event_channel();
	struct rdma_cm_id *id;
	int bad = !own || !rdma_listen(inherited, 1) || errno != EINVAL;

	bad += rdma_create_id(own, &id, NULL, RDMA_PS_TCP);
	bad += rdma_bind_addr(id, address(FAKE_ADDRESS, 0));
	bad += id->verbs->device != &fake->ibv;
	bad += rdma_destroy_id(id);
	bad += rdma_destroy_id(inherited); /* the copy */
	rdma_destroy_event_channel(own);
	return bad;
}

static void children_begin_anew(void **state)
{
	struct rdma_cm_id *id = make_id(channel, NULL);
	int status;
	pid_t pid;

	assert_int_equal(rdma_bind_addr(id, address(FAKE_ADDRESS, 0)), 0);
	pid = fork();
	if (!pid)
		_exit(child(id));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	expect_nothing_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bound_address_decides),
		cmocka_unit_test(resolved_source_decides),
		cmocka_unit_test(objects_of_such_ids_are_the_systems),
		cmocka_unit_test(devices_of_both_are_listed),
		cmocka_unit_test(connections_of_the_system_come_and_go),
		cmocka_unit_test(wildcard_listens_at_both),
		cmocka_unit_test(descriptor_tells_of_both),
		cmocka_unit_test(synchronous_calls_wait),
		cmocka_unit_test(ids_move_between_channels),
		cmocka_unit_test(errno_is_that_of_the_program),
		cmocka_unit_test(both_have_the_port_or_none),
		cmocka_unit_test(options_reach_both),
		cmocka_unit_test(children_begin_anew),
	};

	return cmocka_run_group_tests_name("beside-cm", tests, begin, end);
}
