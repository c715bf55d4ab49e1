/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rsockets that are closed while the service thread, or another thread, connects them. Most of it
 * only the sanitizers see.
 */
#include <rdma/rdma_cma.h>
#include <stdatomic.h>

#include "pair.h"
#include "rsocket/rsocket.h"

enum { ROUNDS = 400, HANG_MS = 60000 };

static atomic_bool stop;

static void spin(int us)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000L + (now.tv_nsec - start.tv_nsec) / 1000 < us);
}

/* From "not yet asked" to "long since answered", also in the slow builds of the sanitizers. */
static void wait_a_little(int round)
{
	spin(round % 80 * 25);
}

/* --- a server that refuses --- */

struct refuser {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct sockaddr_in addr;
	pthread_t thread;
};

static void *refuse(void *arg)
{
	struct refuser *refuser = arg;
	struct pollfd ready = { .fd = refuser->channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	while (!stop) {
		struct rdma_cm_id *id;
		bool request;

		if (poll(&ready, 1, 10) != 1 || rdma_get_cm_event(refuser->channel, &event))
			continue;
		id = event->id;
		request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		rdma_ack_cm_event(event);
		if (!request)
			continue;
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
	}
	return NULL;
}

static void refuser_start(struct refuser *refuser)
{
	stop = false;
	refuser->addr = (struct sockaddr_in){ .sin_family = AF_INET,
					      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	refuser->channel = rdma_create_event_channel();
	assert_non_null(refuser->channel);
	assert_int_equal(rdma_create_id(refuser->channel, &refuser->listener, NULL, RDMA_PS_TCP),
			 0);
	assert_int_equal(rdma_bind_addr(refuser->listener, (void *)&refuser->addr), 0);
	assert_int_equal(rdma_listen(refuser->listener, 0), 0);
	refuser->addr.sin_port = rdma_get_src_port(refuser->listener);
	pthread_create(&refuser->thread, NULL, refuse, refuser);
}

static void refuser_stop(struct refuser *refuser)
{
	stop = true;
	pthread_join(refuser->thread, NULL);
	assert_int_equal(rdma_destroy_id(refuser->listener), 0);
	rdma_destroy_event_channel(refuser->channel);
}

/* --- closing --- */

static int begin_connect(const struct sockaddr *addr, socklen_t size)
{
	int on = 1, fd = rsocket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	set_nonblock(fd, true);
	assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), 0);
	assert_errno(rconnect(fd, addr, size), EINPROGRESS);
	return fd;
}

static void an_rsocket_is_closed_while_it_is_refused(void **state)
{
	struct refuser refuser;

	refuser_start(&refuser);
	for (int i = 0; i < ROUNDS; i++) {
		int fd = begin_connect((void *)&refuser.addr, sizeof(refuser.addr));

		wait_a_little(i);
		assert_int_equal(rclose(fd), 0);
	}
	refuser_stop(&refuser);
	(void)state;
}

/* Takes what the listener accepted; each of them must end, as its other end is closed. */
static void *drain(void *arg)
{
	const struct pair *pair = arg;
	struct pollfd ready = { .fd = pair->listener, .events = POLLIN };
	void *lasting = NULL;

	while (!stop || rpoll(&ready, 1, 0) == 1) {
		struct pollfd ended = { .events = POLLIN };

		if (rpoll(&ready, 1, 10) != 1)
			continue;
		ended.fd = raccept(pair->listener, NULL, NULL);
		if (ended.fd < 0)
			continue;
		if (rpoll(&ended, 1, HANG_MS) != 1)
			lasting = arg;
		rclose(ended.fd);
	}
	return lasting;
}

static void an_rsocket_is_closed_while_it_is_accepted(void **state)
{
	struct pair pair;
	pthread_t thread;
	void *lasting;

	stop = false;
	make_listener(&pair, AF_INET, NULL);
	pthread_create(&thread, NULL, drain, &pair);
	for (int i = 0; i < ROUNDS; i++) {
		int fd = begin_connect((void *)&pair.addr, pair.addr_size);

		wait_a_little(i);
		assert_int_equal(rclose(fd), 0);
	}
	stop = true;
	pthread_join(thread, &lasting);
	assert_null(lasting);
	pair_close(&pair);
	(void)state;
}

static void a_listener_is_closed_while_it_accepts(void **state)
{
	for (int i = 0; i < ROUNDS / 4; i++) {
		struct pair pair;
		int fds[4];

		make_listener(&pair, AF_INET, NULL);
		for (int k = 0; k < 4; k++)
			fds[k] = begin_connect((void *)&pair.addr, pair.addr_size);
		wait_a_little(i);
		pair_close(&pair);
		for (int k = 0; k < 4; k++)
			assert_int_equal(rclose(fds[k]), 0);
	}
	(void)state;
}

/* --- connecting anew --- */

struct again {
	int fd;
	const struct sockaddr_in *addr;
	bool wrong;
};

/* What a connect to the refuser can say, also while another thread connects or closes. */
static void *connect_again(void *arg)
{
	struct again *again = arg;

	for (int i = 0; i < 8; i++) {
		if (!rconnect(again->fd, (void *)again->addr, sizeof(*again->addr)) ||
		    (errno != EINPROGRESS && errno != EALREADY && errno != ECONNREFUSED &&
		     errno != EBADF))
			again->wrong = true;
		spin(150);
	}
	return NULL;
}

static void an_rsocket_is_closed_while_others_connect_it_anew(void **state)
{
	struct refuser refuser;

	refuser_start(&refuser);
	for (int i = 0; i < ROUNDS / 4; i++) {
		struct again again = { .addr = &refuser.addr };
		pthread_t threads[2];

		again.fd = begin_connect((void *)&refuser.addr, sizeof(refuser.addr));
		for (int k = 0; k < 2; k++)
			pthread_create(&threads[k], NULL, connect_again, &again);
		wait_a_little(i);
		assert_int_equal(rclose(again.fd), 0);
		for (int k = 0; k < 2; k++)
			pthread_join(threads[k], NULL);
		assert_false(again.wrong);
	}
	refuser_stop(&refuser);
	(void)state;
}

/* --- events that come late --- */

static struct vb_rs *made(enum vb_rs_state rs_state)
{
	struct vb_rs *rs;

	assert_int_equal(vb_rs_open(AF_INET, SOCK_STREAM, 0, &rs), 0);
	rs->state = rs_state;
	return rs;
}

static void tell_removal(struct vb_rs *rs, struct rdma_cm_id *id)
{
	const struct rdma_cm_event event = { .id = id, .event = RDMA_CM_EVENT_DEVICE_REMOVAL };

	assert_false(vb_rs_connect_event(rs, &event));
}

static void events_of_a_former_id_are_not_heard(void **state)
{
	struct vb_rs *rs = made(VB_RS_RESOLVING);
	struct rdma_cm_id former;

	tell_removal(rs, &former);
	assert_int_equal(rs->state, VB_RS_RESOLVING);
	tell_removal(rs, rs->id);
	assert_int_equal(rs->state, VB_RS_FAILED);
	assert_int_equal(rs->error, ENETDOWN);
	vb_rs_put(rs);
	(void)state;
}

/*
 * Its buffers go when it is connected anew, and another thread may be reading what is left there.
 */
static void what_was_connected_is_not_connected_anew(void **state)
{
	const enum vb_rs_state ended[] = { VB_RS_DISCONNECTED, VB_RS_BROKEN };
	const struct sockaddr_in addr = { .sin_family = AF_INET };

	for (unsigned i = 0; i < 2; i++) {
		struct vb_rs *rs = made(ended[i]);

		tell_removal(rs, rs->id);
		assert_int_equal(rs->state, ended[i]);
		assert_int_equal(vb_rs_connect(rs, (void *)&addr, sizeof(addr)), -EISCONN);
		rs->state = VB_RS_INIT; /* it never was */
		vb_rs_put(rs);
	}
	(void)state;
}

static void a_listener_tells_that_its_device_is_gone(void **state)
{
	struct vb_rs *rs = made(VB_RS_INIT), *accepted;

	assert_int_equal(vb_rs_listen(rs, 1), 0);
	assert_int_equal(vb_rs_ready(rs, POLLIN), 0);
	tell_removal(rs, rs->id);
	assert_int_equal(vb_rs_ready(rs, POLLIN), POLLIN | POLLERR);
	assert_int_equal(vb_rs_accept(rs, &accepted), -ENETDOWN);
	/* It is closed as a listener: whoever it was about to accept goes with it. */
	assert_int_equal(vb_rs_close(rs), 0);
	assert_null(rs->id);
	vb_rs_put(rs);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_rsocket_is_closed_while_it_is_refused),
		cmocka_unit_test(an_rsocket_is_closed_while_it_is_accepted),
		cmocka_unit_test(a_listener_is_closed_while_it_accepts),
		cmocka_unit_test(an_rsocket_is_closed_while_others_connect_it_anew),
		cmocka_unit_test(events_of_a_former_id_are_not_heard),
		cmocka_unit_test(what_was_connected_is_not_connected_anew),
		cmocka_unit_test(a_listener_tells_that_its_device_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
