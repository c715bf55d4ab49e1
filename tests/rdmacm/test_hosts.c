/* SPDX-License-Identifier: BSD-2-Clause */
/* What the network does to identifiers: neighbours, addresses and devices that come and go. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "hosts.h"

enum { PORT = 7471 };

static void idle(int other)
{
	await(other);
}

static struct rdma_cm_id *listen_at(struct rdma_event_channel *channel, const char *address,
				    uint16_t port)
{
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_storage at;

	set_address(&at, address, port);
	CHECK(!rdma_bind_addr(id, (void *)&at));
	CHECK(!rdma_listen(id, 0));
	return id;
}

static bool is_quiet(struct rdma_event_channel *channel)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };

	return !poll(&ready, 1, 0);
}

static struct rdma_cm_id *accept_one(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	CHECK(!take_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, &id));
	new_qp(id);
	CHECK(!rdma_accept(id, NULL));
	return id;
}

static struct rdma_cm_id *serve(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = accept_one(channel);

	CHECK(!take_event(channel, RDMA_CM_EVENT_ESTABLISHED, NULL));
	return id;
}

static struct rdma_cm_id *connect_to(struct rdma_event_channel *channel, const char *address)
{
	struct rdma_cm_id *id = resolve_to(channel, address, PORT);

	CHECK(!rdma_connect(id, NULL));
	CHECK(!take_event(channel, RDMA_CM_EVENT_ESTABLISHED, NULL));
	return id;
}

/* --- neighbours --- */

static void resolve_in_vain(struct rdma_event_channel *channel, struct rdma_cm_id *id,
			    const char *nobody)
{
	struct sockaddr_storage to;

	set_address(&to, nobody, PORT);
	CHECK(!rdma_resolve_addr(id, NULL, (void *)&to, 100));
	CHECK(take_event(channel, RDMA_CM_EVENT_ADDR_ERROR, NULL) == -ETIMEDOUT);
}

static void try_nobody_then(const char *nobody, const char *somebody)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_storage to;

	resolve_in_vain(channel, id, nobody);
	set_address(&to, somebody, PORT);
	CHECK(!rdma_resolve_addr(id, NULL, (void *)&to, 10000));
	CHECK(!take_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL));
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
}

static void nobody_has_the_address(int other)
{
	try_nobody_then(NOBODY, HOST_B);
	try_nobody_then(NOBODY6, HOST_B6);
	tell(other);
}

static void a_synchronous_call_says_so(int other)
{
	struct rdma_cm_id *id = new_id(NULL);
	struct sockaddr_storage to;

	set_address(&to, NOBODY, PORT);
	CHECK(rdma_resolve_addr(id, NULL, (void *)&to, 100) == -1);
	CHECK(errno == ETIMEDOUT);
	CHECK(!rdma_destroy_id(id));
	tell(other);
}

/* A stream cannot be; a datagram is sent, and lost, as with UDP. */
static void rsockets_to_nobody(int other)
{
	int stream = rsocket(AF_INET, SOCK_STREAM, 0), datagram = rsocket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_storage to;

	set_address(&to, NOBODY, PORT);
	CHECK(stream >= 0 && datagram >= 0);
	CHECK(rconnect(stream, (void *)&to, sizeof(struct sockaddr_in)) == -1);
	CHECK(errno == ETIMEDOUT);
	CHECK(rsendto(datagram, "x", 1, 0, (void *)&to, sizeof(struct sockaddr_in)) == 1);
	CHECK(!rclose(stream) && !rclose(datagram));
	tell(other);
}

/* An identifier that still waits, and one behind it, may go. */
static void destroyed_while_it_waits(int other)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *first = new_id(channel), *second = new_id(channel);
	struct sockaddr_storage to;

	set_address(&to, NOBODY, PORT);
	CHECK(!rdma_resolve_addr(first, NULL, (void *)&to, 60000));
	CHECK(!rdma_resolve_addr(second, NULL, (void *)&to, 100));
	CHECK(rdma_resolve_route(first, 100) == -1 && errno == EINVAL);
	CHECK(!rdma_destroy_id(first));
	CHECK(take_event(channel, RDMA_CM_EVENT_ADDR_ERROR, NULL) == -ETIMEDOUT);
	CHECK(is_quiet(channel));
	rdma_destroy_id(second);
	rdma_destroy_event_channel(channel);
	tell(other);
}

/* --- addresses --- */

static void the_address_goes(int other)
{
	struct rdma_event_channel *at_address = rdma_create_event_channel(),
				  *anywhere = rdma_create_event_channel();
	struct rdma_cm_id *listener = listen_at(at_address, HOST_A, PORT),
			  *wildcard = listen_at(anywhere, "0.0.0.0", PORT + 1), *id, *told[2];

	tell(other);
	id = serve(at_address);
	shell("ip addr del " HOST_A "/24 dev vb0");
	CHECK(!take_event(at_address, RDMA_CM_EVENT_ADDR_CHANGE, &told[0]));
	CHECK(!take_event(at_address, RDMA_CM_EVENT_ADDR_CHANGE, &told[1]));
	CHECK((told[0] == listener && told[1] == id) || (told[0] == id && told[1] == listener));
	/* Once, and only to those that had that address. */
	shell("ip addr add 192.0.2.3/24 dev vb0");
	shell("ip addr del 192.0.2.3/24 dev vb0");
	CHECK(is_quiet(at_address) && is_quiet(anywhere));
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(listener) && !rdma_destroy_id(wildcard));
	tell(other);
}

static void connect_and_stay(int other)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	await(other);
	connect_to(channel, HOST_A);
	await(other);
}

static void post_one(struct rdma_cm_id *id)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE }, *bad;

	CHECK(!ibv_post_send(id->qp, &wr, &bad));
}

static void write_one(struct rdma_cm_id *id)
{
	struct ibv_wc wc;
	int count;

	post_one(id);
	do
		count = ibv_poll_cq(id->qp->send_cq, 1, &wc);
	while (!count);
	CHECK(count == 1 && wc.status == IBV_WC_SUCCESS);
}

/* Who listens to all addresses does so to those that come later. */
static void an_address_comes(int other)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = listen_at(channel, "0.0.0.0", PORT), *id;

	shell("ip addr add 192.0.2.11/24 dev vb0");
	tell(other);
	id = serve(channel);
	await(other);
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

static void connect_to_the_new_one(int other)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	await(other);
	id = connect_to(channel, "192.0.2.11");
	write_one(id);
	tell(other);
	await_end(other);
}

/* --- processes that are killed --- */

/* Two connections, so that what is found out about one is found out about the other. */
static void killed_over_there(int other)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = listen_at(channel, HOST_A, PORT), *ids[2], *ended[2];

	tell(other);
	ids[0] = serve(channel);
	ids[1] = serve(channel);
	tell(other);
	CHECK(!take_event(channel, RDMA_CM_EVENT_DISCONNECTED, &ended[0]));
	CHECK(!take_event(channel, RDMA_CM_EVENT_DISCONNECTED, &ended[1]));
	CHECK((ended[0] == ids[0] && ended[1] == ids[1]) ||
	      (ended[0] == ids[1] && ended[1] == ids[0]));
	rdma_destroy_qp(ids[0]);
	rdma_destroy_qp(ids[1]);
	CHECK(!rdma_destroy_id(ids[0]) && !rdma_destroy_id(ids[1]) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

static void connect_and_be_killed(int other)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	await(other);
	connect_to(channel, HOST_A);
	connect_to(channel, HOST_A);
	await(other);
	raise(SIGKILL);
}

/* Another process of the host is still there, and answers for it. */
static void be_killed_beside_another(int other)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child)
		connect_and_be_killed(other);
	listen_at(rdma_create_event_channel(), HOST_B, PORT);
	CHECK(waitpid(child, NULL, 0) == child);
	await_end(other);
}

/* Killed with a request that it has not answered. */
static void killed_while_it_thinks(int other)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *id;

	await(other);
	id = resolve_to(channel, HOST_B, PORT);
	CHECK(!rdma_connect(id, &param));
	CHECK(take_event(channel, RDMA_CM_EVENT_REJECTED, NULL) == 8);
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

static void think_and_be_killed(int other)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	listen_at(channel, HOST_B, PORT);
	tell(other);
	CHECK(!take_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, &id));
	usleep(200000); /* until the other side was asked for time, which it does not tell */
	raise(SIGKILL);
}

static void think_beside_another(int other)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child)
		think_and_be_killed(other);
	listen_at(rdma_create_event_channel(), HOST_B, PORT + 1);
	CHECK(waitpid(child, NULL, 0) == child);
	await_end(other);
}

/* --- the device --- */

/* To it and from it; the device `lo` reaches this host by its own addresses alone. */
static void an_own_address_without_a_device(int other)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct sockaddr_storage to, from;

	setenv("VERBENA_DEVICES", "lo", 1);
	channel = rdma_create_event_channel();
	id = new_id(channel);
	set_address(&to, HOST_A, PORT);
	CHECK(rdma_resolve_addr(id, NULL, (void *)&to, 1000) == -1 && errno == ENODEV);
	CHECK(is_quiet(channel));
	/* Nothing is left of it: another address can be resolved. */
	set_address(&to, "127.0.0.1", PORT);
	CHECK(!rdma_resolve_addr(id, NULL, (void *)&to, 1000));
	CHECK(!take_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL));
	CHECK(!rdma_destroy_id(id));
	id = new_id(channel);
	set_address(&from, HOST_A, 0);
	CHECK(rdma_resolve_addr(id, (void *)&from, (void *)&to, 1000) == -1 && errno == ENODEV);
	CHECK(is_quiet(channel) && !rdma_destroy_id(id));
	/* To another host it is an event: there is a route, and no device on it. */
	id = new_id(channel);
	set_address(&to, HOST_B, PORT);
	CHECK(!rdma_resolve_addr(id, NULL, (void *)&to, 1000));
	CHECK(take_event(channel, RDMA_CM_EVENT_ADDR_ERROR, NULL) == -ENODEV);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	tell(other);
}

static void check_removed(struct rdma_cm_id *id)
{
	struct sockaddr_storage to;

	set_address(&to, "127.0.0.1", PORT);
	CHECK(rdma_listen(id, 0) == -1);
	CHECK(rdma_connect(id, NULL) == -1);
	CHECK(rdma_resolve_addr(id, NULL, (void *)&to, 100) == -1);
}

/* Both ends are in this process: each identifier on the device hears of it once. */
static void the_device_fails(int other)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *passive;
	struct rdma_cm_id *listener, *client, *server, *ids[2];

	(void)other;
	setenv("VERBENA_FAULTS", "fatal device", 1);
	passive = rdma_create_event_channel();
	listener = listen_at(passive, "127.0.0.1", 0);
	client = resolve_to(channel, "127.0.0.1", ntohs(rdma_get_src_port(listener)));
	CHECK(!rdma_connect(client, NULL));
	server = accept_one(passive);
	CHECK(!take_event(channel, RDMA_CM_EVENT_ESTABLISHED, NULL));
	CHECK(!take_event(passive, RDMA_CM_EVENT_ESTABLISHED, NULL));
	post_one(client);
	CHECK(!take_event(channel, RDMA_CM_EVENT_DEVICE_REMOVAL, &ids[0]));
	CHECK(!take_event(passive, RDMA_CM_EVENT_DEVICE_REMOVAL, &ids[1]));
	CHECK(ids[0] == client && ids[1] == server);
	check_removed(client);
	check_removed(server);
	CHECK(is_quiet(channel) && is_quiet(passive));
	/* Bound to no device: it goes on. */
	CHECK(!listener->verbs);
	rdma_destroy_qp(client);
	rdma_destroy_qp(server);
	CHECK(!rdma_destroy_id(client) && !rdma_destroy_id(server) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(passive);
}

int main(void)
{
	run_hosts("an address that nobody has is not resolved", nobody_has_the_address, idle);
	run_hosts("a synchronous call says that nobody has it", a_synchronous_call_says_so, idle);
	run_hosts("rsockets to an address that nobody has", rsockets_to_nobody, idle);
	run_hosts("an identifier may go while it resolves", destroyed_while_it_waits, idle);
	run_hosts("who was bound to an address hears that it is gone", the_address_goes,
		  connect_and_stay);
	run_hosts("an address comes to who listens to all of them", an_address_comes,
		  connect_to_the_new_one);
	run_hosts("the last process of a host is killed", killed_over_there, connect_and_be_killed);
	run_hosts("one process of a host is killed", killed_over_there, be_killed_beside_another);
	run_hosts("one is killed while it thinks about a request", killed_while_it_thinks,
		  think_beside_another);
	run_hosts("an own address without a device is no address", an_own_address_without_a_device,
		  idle);
	run_here("a device that fails is removed from its identifiers", the_device_fails);
	return report_cases() != 0;
}
