/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams: what a program that knows TCP expects of them. */
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "pair.h"
#include "rsocket/proto.h"

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
		cmocka_unit_test(every_byte_arrives_with_any_sizes),
		cmocka_unit_test(many_small_messages_need_no_more_credits_than_there_are),
		cmocka_unit_test(peeking_takes_nothing),
		cmocka_unit_test(vectors_are_filled_one_after_the_other),
		cmocka_unit_test(without_blocking_a_full_stream_says_so),
		cmocka_unit_test(what_was_sent_before_close_can_be_read_after_it),
		cmocka_unit_test(one_direction_can_be_ended_alone),
		cmocka_unit_test(shutdown_wakes_who_waits),
		cmocka_unit_test(timeouts_are_kept),
		cmocka_unit_test(an_end_that_comes_after_its_event_is_regular),
	};

	return cmocka_run_group_tests_name("rsocket streams", tests, NULL, NULL);
}
