/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams: what a program that knows TCP expects of them. */
#include <dirent.h>
#include <dlfcn.h>
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>

#include "pair.h"
#include "rsocket/proto.h"

/* In place of the C library's: how often the name of the discard port is asked for. */
static atomic_uint asked;

static void look(const struct sockaddr *to, socklen_t size)
{
	static const char name[] = "verbena.cm.106.9.4";

	if (to && to->sa_family == AF_UNIX &&
	    size == offsetof(struct sockaddr_un, sun_path) + sizeof(name) &&
	    !memcmp(((const struct sockaddr_un *)to)->sun_path + 1, name, sizeof(name) - 1))
		asked++;
}

__attribute__((visibility("default"))) long syscall(long number, ...)
{
	static long (*_Atomic real)(long number, ...);
	long words[6];
	va_list args;

	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		words[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_sendto)
		look((const struct sockaddr *)words[4], (socklen_t)words[5]);
	return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

static void a_connection_comes_to_be_before_anybody_accepts(void **state)
{
	struct pair pair;
	uint8_t byte = 0;

	make_listener(&pair, AF_INET, NULL);
	pair.client = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rconnect(pair.client, (void *)&pair.addr, pair.addr_size), 0);
	assert_int_equal(rsend(pair.client, "x", 1, 0), 1);
	pair.server = raccept(pair.listener, NULL, NULL);
	assert_int_equal(rrecv(pair.server, &byte, 1, 0), 1);
	assert_int_equal(byte, 'x');
	pair_close(&pair);
}

static void both_ends_know_each_others_names(void **state)
{
	const int families[] = { AF_INET, AF_INET6 };

	for (int i = 0; i < 2; i++) {
		struct sockaddr_storage client, server, accepted;
		socklen_t size = sizeof(client);
		struct pair pair;

		make_listener(&pair, families[i], NULL);
		pair.client = rsocket(families[i], SOCK_STREAM, 0);
		assert_errno(rgetpeername(pair.client, (void *)&server, &size), ENOTCONN);
		assert_int_equal(rconnect(pair.client, (void *)&pair.addr, pair.addr_size), 0);
		size = sizeof(accepted);
		pair.server = raccept(pair.listener, (void *)&accepted, &size);
		assert_true(pair.server >= 0);
		size = sizeof(client);
		assert_int_equal(rgetsockname(pair.client, (void *)&client, &size), 0);
		assert_int_equal(size, pair.addr_size);
		assert_memory_equal(&client, &accepted, size);
		size = sizeof(server);
		assert_int_equal(rgetpeername(pair.client, (void *)&server, &size), 0);
		assert_int_equal(((struct sockaddr_in *)&server)->sin_port,
				 ((struct sockaddr_in *)&pair.addr)->sin_port);
		size = sizeof(client);
		assert_int_equal(rgetpeername(pair.server, (void *)&client, &size), 0);
		assert_memory_equal(&client, &accepted, size);
		pair_close(&pair);
	}
}

/* An IPv6 rsocket takes both, and calls both by IPv6 addresses. */
static void an_ipv6_listener_without_an_address_takes_both(void **state)
{
	struct sockaddr_in6 name, to6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	struct sockaddr_in to = { .sin_family = AF_INET };
	int listener = rsocket(AF_INET6, SOCK_STREAM, 0);
	socklen_t size = sizeof(name);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(rlisten(listener, 2), 0);
	assert_int_equal(rgetsockname(listener, (struct sockaddr *)&name, &size), 0);
	assert_int_equal(name.sin6_family, AF_INET6);
	to.sin_port = to6.sin6_port = name.sin6_port;
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		int client = rsocket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0), server;

		assert_int_equal(rconnect(client, ipv6 ? (void *)&to6 : (void *)&to,
					  ipv6 ? sizeof(to6) : sizeof(to)),
				 0);
		size = sizeof(name);
		server = raccept(listener, (struct sockaddr *)&name, &size);
		assert_true(server >= 0);
		assert_int_equal(size, sizeof(name));
		assert_int_equal(name.sin6_family, AF_INET6);
		assert_int_equal(!IN6_IS_ADDR_V4MAPPED(&name.sin6_addr), ipv6);
		size = sizeof(name);
		assert_int_equal(rgetsockname(server, (struct sockaddr *)&name, &size), 0);
		assert_int_equal(name.sin6_port, to6.sin6_port);
		assert_int_equal(!IN6_IS_ADDR_V4MAPPED(&name.sin6_addr), ipv6);
		rclose(server);
		rclose(client);
	}
	rclose(listener);
	(void)state;
}

/* A GID and a service id are a name like others; nobody finds datagram QPs by it. */
static void infiniband_ports_are_names(void **state)
{
	const struct sockaddr_ib any = { .sib_family = AF_IB };
	struct sockaddr_ib name;
	socklen_t size = sizeof(name);
	struct pair pair;

	pair.listener = rsocket(AF_IB, SOCK_STREAM, 0);
	assert_true(pair.listener >= 0);
	assert_int_equal(rbind(pair.listener, (const void *)&any, sizeof(any)), 0);
	assert_int_equal(rlisten(pair.listener, 8), 0);
	pair.addr_size = sizeof(pair.addr);
	assert_int_equal(rgetsockname(pair.listener, (void *)&pair.addr, &pair.addr_size), 0);
	assert_int_equal(pair.addr_size, sizeof(struct sockaddr_ib));
	connect_pair(&pair, NULL);
	send_all(pair.client, 1000);
	receive_all(pair.server, 1000);
	assert_int_equal(rgetpeername(pair.client, (void *)&name, &size), 0);
	assert_int_equal(name.sib_family, AF_IB);
	assert_int_equal(name.sib_addr.sib_raw[0], 0xfe); /* fe80::, that of the port */
	pair_close(&pair);
	assert_errno(rsocket(AF_IB, SOCK_DGRAM, 0), EAFNOSUPPORT);
	(void)state;
}

static void *receive_megabytes(void *fd)
{
	receive_all(*(int *)fd, 5000000);
	return NULL;
}

static void small_queue(int fd)
{
	const int queue = 16, size = 4096, none = 0;

	assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &queue, sizeof(queue)), 0);
	assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_RQSIZE, &queue, sizeof(queue)), 0);
	assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_INLINE, &none, sizeof(none)), 0);
	assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
}

static void every_byte_arrives_with_any_sizes(void **state)
{
	pair_prepare *prepares[] = { NULL, small_queue };

	for (int i = 0; i < 2; i++) {
		struct pair pair;
		pthread_t reader, writer_side_reader;

		pair_open(&pair, prepares[i]);
		/* Both directions at once: a reader and a writer on each rsocket. */
		pthread_create(&reader, NULL, receive_megabytes, &pair.server);
		send_all(pair.client, 5000000);
		pthread_join(reader, NULL);
		pthread_create(&reader, NULL, receive_megabytes, &pair.server);
		pthread_create(&writer_side_reader, NULL, receive_megabytes, &pair.client);
		send_all(pair.client, 5000000);
		send_all(pair.server, 5000000);
		pthread_join(reader, NULL);
		pthread_join(writer_side_reader, NULL);
		pair_close(&pair);
	}
}

static void many_small_messages_need_no_more_credits_than_there_are(void **state)
{
	struct pair pair;
	uint8_t byte;

	pair_open(&pair, small_queue);
	for (int i = 0; i < 70000; i++) { /* beyond 16 bits of message counts */
		byte = (uint8_t)i;
		assert_int_equal(rsend(pair.client, &byte, 1, 0), 1);
		byte = 0;
		assert_int_equal(rrecv(pair.server, &byte, 1, 0), 1);
		assert_int_equal(byte, (uint8_t)i);
	}
	pair_close(&pair);
}

static void peeking_takes_nothing(void **state)
{
	struct pair pair;
	uint8_t bytes[100];

	pair_open(&pair, NULL);
	send_all(pair.client, 100);
	for (int i = 0; i < 3; i++) {
		memset(bytes, 0, sizeof(bytes));
		assert_int_equal(rrecv(pair.server, bytes, 60, MSG_PEEK), 60);
		assert_pattern(bytes, 60, 0);
	}
	receive_all(pair.server, 100);
	assert_errno(rrecv(pair.server, bytes, 1, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
	pair_close(&pair);
}

static void vectors_are_filled_one_after_the_other(void **state)
{
	uint8_t in[100], out[100];
	struct iovec from[3] = { { in, 10 }, { in + 10, 0 }, { in + 10, 90 } };
	struct iovec to[3] = { { out, 33 }, { out + 33, 33 }, { out + 66, 34 } };
	struct msghdr message = { .msg_iov = to, .msg_iovlen = 3 };
	struct pair pair;

	pair_open(&pair, NULL);
	fill_pattern(in, sizeof(in), 0);
	assert_int_equal(rwritev(pair.client, from, 3), 100);
	assert_int_equal(rreadv(pair.server, to, 3), 100);
	assert_pattern(out, 100, 0);
	message.msg_iov = from;
	assert_int_equal(rsendmsg(pair.client, &message, 0), 100);
	memset(out, 0, sizeof(out));
	message.msg_iov = to;
	assert_int_equal(rrecvmsg(pair.server, &message, MSG_WAITALL), 100);
	assert_pattern(out, 100, 0);
	pair_close(&pair);
}

static void without_blocking_a_full_stream_says_so(void **state)
{
	struct pollfd ready = { .events = POLLIN | POLLOUT };
	struct pair pair;
	uint8_t bytes[10000];
	size_t sent = 0, received = 0;
	ssize_t now;

	pair_open(&pair, NULL);
	set_nonblock(pair.client, true);
	assert_int_equal(rfcntl(pair.client, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_errno(rrecv(pair.client, bytes, 1, 0), EAGAIN);
	for (;;) {
		fill_pattern(bytes, sizeof(bytes), sent);
		now = rsend(pair.client, bytes, sizeof(bytes), 0);
		if (now < 0)
			break;
		sent += (size_t)now;
	}
	assert_int_equal(errno, EAGAIN);
	assert_true(sent > 100000);
	ready.fd = pair.client;
	assert_int_equal(rpoll(&ready, 1, 0), 0);
	while (received < sent) {
		now = rrecv(pair.server, bytes, sizeof(bytes), 0);
		assert_true(now > 0);
		assert_pattern(bytes, (size_t)now, received);
		received += (size_t)now;
	}
	assert_int_equal(rpoll(&ready, 1, 1000), 1);
	assert_int_equal(ready.revents, POLLOUT);
	pair_close(&pair);
}

static void what_was_sent_before_close_can_be_read_after_it(void **state)
{
	struct pair pair;
	struct pollfd ready = { .events = POLLIN };
	uint8_t byte;

	pair_open(&pair, NULL);
	send_all(pair.client, 50000);
	assert_int_equal(rclose(pair.client), 0);
	pair.client = -1;
	receive_all(pair.server, 50000);
	ready.fd = pair.server;
	assert_int_equal(rpoll(&ready, 1, 1000), 1);
	assert_true(ready.revents & POLLIN);
	assert_int_equal(rrecv(pair.server, &byte, 1, 0), 0);
	assert_errno(rsend(pair.server, "x", 1, MSG_NOSIGNAL), ECONNRESET);
	pair_close(&pair);
}

static void one_direction_can_be_ended_alone(void **state)
{
	struct pair pair;
	uint8_t byte;

	pair_open(&pair, NULL);
	send_all(pair.client, 1000);
	assert_int_equal(rshutdown(pair.client, SHUT_WR), 0);
	assert_errno(rsend(pair.client, "x", 1, MSG_NOSIGNAL), EPIPE);
	receive_all(pair.server, 1000);
	assert_int_equal(rrecv(pair.server, &byte, 1, 0), 0);
	send_all(pair.server, 200000 / 2); /* the other direction goes on */
	receive_all(pair.client, 200000 / 2);
	assert_int_equal(rshutdown(pair.server, SHUT_WR), 0);
	assert_int_equal(rrecv(pair.client, &byte, 1, 0), 0);
	pair_close(&pair);
	pair_open(&pair, NULL);
	assert_int_equal(rshutdown(pair.client, SHUT_RD), 0);
	assert_int_equal(rrecv(pair.client, &byte, 1, 0), 0);
	assert_int_equal(rsend(pair.client, "x", 1, 0), 1);
	assert_int_equal(rrecv(pair.server, &byte, 1, 0), 1);
	assert_int_equal(rshutdown(pair.client, SHUT_RDWR), 0);
	assert_int_equal(rrecv(pair.server, &byte, 1, 0), 0);
	pair_close(&pair);
}

static void *shut_down_soon(void *fd)
{
	struct pollfd full = { .fd = *(int *)fd, .events = POLLOUT };

	while (rpoll(&full, 1, 0) > 0)
		sched_yield();
	assert_int_equal(rshutdown(*(int *)fd, SHUT_RDWR), 0);
	return NULL;
}

static void shutdown_wakes_who_waits(void **state)
{
	struct pair pair;
	pthread_t thread;
	uint8_t *bytes = calloc(1, 3000000);
	ssize_t sent;

	pair_open(&pair, NULL);
	pthread_create(&thread, NULL, shut_down_soon, &pair.client);
	sent = rsend(pair.client, bytes, 3000000, MSG_NOSIGNAL); /* nobody reads it */
	assert_true(sent > 0 && sent < 3000000);
	pthread_join(thread, NULL);
	free(bytes);
	pair_close(&pair);
}

static void errors_of_connecting_are_those_of_tcp(void **state)
{
	struct sockaddr_in nobody = { .sin_family = AF_INET,
				      .sin_port = htons(9),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct pollfd ready = { .events = POLLOUT };
	socklen_t size = sizeof(int);
	int error = 0;

	ready.fd = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_errno(rsend(ready.fd, "x", 1, 0), ENOTCONN);
	assert_errno(raccept(ready.fd, NULL, NULL), EINVAL);
	asked = 0;
	assert_errno(rconnect(ready.fd, (void *)&nobody, sizeof(nobody)), ECONNREFUSED);
	assert_int_equal(asked, 1); /* TCP does not ask again either */
	assert_int_equal(rclose(ready.fd), 0);
	ready.fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_errno(rconnect(ready.fd, (void *)&nobody, sizeof(nobody)), EINPROGRESS);
	assert_int_equal(rpoll(&ready, 1, 5000), 1);
	assert_true(ready.revents & POLLERR);
	assert_int_equal(rgetsockopt(ready.fd, SOL_SOCKET, SO_ERROR, &error, &size), 0);
	assert_int_equal(error, ECONNREFUSED);
	assert_int_equal(rclose(ready.fd), 0);
	assert_errno(rclose(ready.fd), EBADF);
	assert_errno(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	assert_errno(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
}

static void a_connect_can_be_repeated_after_it_failed(void **state)
{
	struct sockaddr_in nobody = { .sin_family = AF_INET,
				      .sin_port = htons(9),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct pair pair;

	make_listener(&pair, AF_INET, NULL);
	pair.client = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_errno(rconnect(pair.client, (void *)&nobody, sizeof(nobody)), ECONNREFUSED);
	assert_int_equal(rconnect(pair.client, (void *)&pair.addr, pair.addr_size), 0);
	assert_errno(rconnect(pair.client, (void *)&pair.addr, pair.addr_size), EISCONN);
	pair.server = raccept(pair.listener, NULL, NULL);
	send_all(pair.client, 100);
	receive_all(pair.server, 100);
	pair_close(&pair);
}

static void timeouts_are_kept(void **state)
{
	const struct timeval wait = { .tv_usec = 50000 };
	struct pair pair;
	uint64_t start_ms;
	uint8_t byte;

	pair_open(&pair, NULL);
	assert_int_equal(rsetsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	start_ms = now_ms();
	assert_errno(rrecv(pair.client, &byte, 1, 0), EAGAIN);
	assert_true(now_ms() - start_ms >= 45);
	pair_close(&pair);
}

static void a_port_is_taken_once_and_free_after_close(void **state)
{
	struct pair pair, again;
	int other = rsocket(AF_INET, SOCK_STREAM, 0);

	pair_open(&pair, NULL);
	assert_errno(rbind(other, (void *)&pair.addr, pair.addr_size), EADDRINUSE);
	assert_int_equal(rclose(pair.listener), 0);
	pair.listener = -1;
	/* The connection lives on; the port does not depend on it. */
	assert_int_equal(rbind(other, (void *)&pair.addr, pair.addr_size), 0);
	assert_int_equal(rlisten(other, 1), 0);
	again = pair;
	again.listener = other;
	connect_pair(&again, NULL);
	send_all(pair.client, 10);
	receive_all(pair.server, 10);
	pair_close(&pair);
	pair_close(&again);
}

static void a_waiting_listener_closes_its_queue(void **state)
{
	struct pair pair;
	int clients[4];
	uint8_t byte;

	make_listener(&pair, AF_INET, NULL);
	for (int i = 0; i < 4; i++) {
		clients[i] = rsocket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(rconnect(clients[i], (void *)&pair.addr, pair.addr_size), 0);
	}
	assert_int_equal(rclose(pair.listener), 0);
	/* A reset where the listener had not heard yet that the connection is there. */
	for (int i = 0; i < 4; i++) {
		ssize_t got = rrecv(clients[i], &byte, 1, 0);

		assert_true(!got || (got == -1 && errno == ECONNRESET));
		assert_int_equal(rclose(clients[i]), 0);
	}
}

static void *connect_one(void *arg)
{
	struct pair *pair = arg;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(rconnect(fd, (void *)&pair->addr, pair->addr_size), 0);
	assert_int_equal(rsend(fd, "x", 1, 0), 1);
	return (void *)(intptr_t)fd;
}

static void connects_beyond_the_backlog_wait_for_a_place(void **state)
{
	enum { COUNT = 12 };
	pthread_t threads[COUNT];
	struct pair pair;
	void *client;
	uint8_t byte;

	make_listener(&pair, AF_INET, NULL);
	assert_int_equal(rlisten(pair.listener, 2), 0);
	for (int i = 0; i < COUNT; i++)
		pthread_create(&threads[i], NULL, connect_one, &pair);
	for (int i = 0; i < COUNT; i++) {
		int fd = raccept(pair.listener, NULL, NULL);

		assert_true(fd >= 0);
		assert_int_equal(rrecv(fd, &byte, 1, 0), 1);
		assert_int_equal(rclose(fd), 0);
	}
	for (int i = 0; i < COUNT; i++) {
		pthread_join(threads[i], &client);
		assert_int_equal(rclose((int)(intptr_t)client), 0);
	}
	assert_int_equal(rclose(pair.listener), 0);
}

static int count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void connect_some(int count)
{
	struct pair pair;

	for (int i = 0; i < count; i++) {
		pair_open(&pair, NULL);
		assert_int_equal(rsend(pair.client, "x", 1, 0), 1);
		pair_close(&pair);
	}
}

static void connections_leave_no_descriptors_behind(void **state)
{
	uint64_t start_ms;
	int before;

	connect_some(50);
	before = count_descriptors();
	connect_some(100);
	/*
	 * The service thread may still be holding the last connections. The threads of the
	 * libraries open some descriptors once, a while after the first use.
	 */
	start_ms = now_ms();
	while (count_descriptors() >= before + 10) {
		assert_true(now_ms() - start_ms < 60000);
		sched_yield();
	}
}

/* --- a CQ whose completions come late, from the message that ends the stream on --- */

static struct {
	pthread_mutex_t lock;
	int (*poll)(struct ibv_cq *cq, int count, struct ibv_wc *wc); /* the real one */
	struct ibv_cq *cq;
	struct ibv_wc wc; /* the message that hides */
	bool hides;
	atomic_uint polls; /* in vain */
} late = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool ends_stream(const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_SUCCESS && wc->wc_flags & IBV_WC_WITH_IMM &&
	       ntohl(wc->imm_data) == vb_rs_message(VB_RS_CONTROL, VB_RS_DISCONNECT);
}

/* Up to `count`, like the real one. Nothing is taken that is behind the message that hides. */
static int poll_late(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	int got = 0, one = 1;

	pthread_mutex_lock(&late.lock);
	if (count && late.cq == cq && !late.hides) {
		wc[got++] = late.wc;
		late.cq = NULL;
	}
	while (got < count && late.cq != cq && one > 0) {
		one = late.poll(cq, 1, &wc[got]);
		if (one > 0 && late.hides && !late.cq && ends_stream(&wc[got])) {
			late.cq = cq;
			late.wc = wc[got];
		} else if (one > 0) {
			got++;
		}
	}
	if (late.cq == cq)
		late.polls++;
	pthread_mutex_unlock(&late.lock);
	return got;
}

static void replace_poll(struct ibv_context **devices,
			 int (*poll)(struct ibv_cq *cq, int count, struct ibv_wc *wc))
{
	for (int i = 0; devices[i]; i++)
		devices[i]->ops.poll_cq = poll;
}

/* The event of the connection manager overtakes the last message. */
static void an_end_that_comes_after_its_event_is_regular(void **state)
{
	struct ibv_context **devices = rdma_get_devices(NULL);
	struct pair pair;
	char byte;

	pair_open(&pair, NULL);
	late.poll = devices[0]->ops.poll_cq;
	late.hides = true;
	replace_poll(devices, poll_late);
	assert_int_equal(rsend(pair.client, "x", 1, 0), 1);
	assert_int_equal(rclose(pair.client), 0);
	while (!late.polls) /* by the service thread, which has got the event */
		sched_yield();
	pthread_mutex_lock(&late.lock);
	late.hides = false;
	pthread_mutex_unlock(&late.lock);
	assert_int_equal(rrecv(pair.server, &byte, 1, 0), 1);
	assert_int_equal(rrecv(pair.server, &byte, 1, 0), 0);
	replace_poll(devices, late.poll);
	rdma_free_devices(devices);
	assert_int_equal(rclose(pair.server), 0);
	assert_int_equal(rclose(pair.listener), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_comes_to_be_before_anybody_accepts),
		cmocka_unit_test(both_ends_know_each_others_names),
		cmocka_unit_test(an_ipv6_listener_without_an_address_takes_both),
		cmocka_unit_test(infiniband_ports_are_names),
		cmocka_unit_test(every_byte_arrives_with_any_sizes),
		cmocka_unit_test(many_small_messages_need_no_more_credits_than_there_are),
		cmocka_unit_test(peeking_takes_nothing),
		cmocka_unit_test(vectors_are_filled_one_after_the_other),
		cmocka_unit_test(without_blocking_a_full_stream_says_so),
		cmocka_unit_test(what_was_sent_before_close_can_be_read_after_it),
		cmocka_unit_test(one_direction_can_be_ended_alone),
		cmocka_unit_test(shutdown_wakes_who_waits),
		cmocka_unit_test(errors_of_connecting_are_those_of_tcp),
		cmocka_unit_test(a_connect_can_be_repeated_after_it_failed),
		cmocka_unit_test(timeouts_are_kept),
		cmocka_unit_test(a_port_is_taken_once_and_free_after_close),
		cmocka_unit_test(a_waiting_listener_closes_its_queue),
		cmocka_unit_test(connects_beyond_the_backlog_wait_for_a_place),
		cmocka_unit_test(connections_leave_no_descriptors_behind),
		cmocka_unit_test(an_end_that_comes_after_its_event_is_regular),
	};

	return cmocka_run_group_tests_name("rsocket streams", tests, NULL, NULL);
}
