/* SPDX-License-Identifier: BSD-2-Clause */
/* What two sides tell each other when they connect, and how connections end. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "party.h"

static void the_request_arrives_as_it_was_made(void **state)
{
	uint8_t data[56];
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = sizeof(data),
		.responder_resources = 5,
		.initiator_depth = 3,
		.flow_control = 1,
		.retry_count = 6,
		.rnr_retry_count = 4,
	};
	struct party party;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i + 1);
	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, &param), 0);
	party_request(&party);
	/* Turned round: what one side asks for is what the other must answer. */
	assert_int_equal(party.request.responder_resources, 3);
	assert_int_equal(party.request.initiator_depth, 5);
	assert_int_equal(party.request.flow_control, 1);
	assert_int_equal(party.request.retry_count, 6);
	assert_int_equal(party.request.rnr_retry_count, 4);
	assert_int_equal(party.request.qp_num, party.client->qp->qp_num);
	assert_int_equal(party.request.private_data_len, 56);
	assert_memory_equal(party.request_data, data, sizeof(data));
	assert_int_equal(rdma_get_dst_port(party.server), rdma_get_src_port(party.client));
	party_end(&party);
	(void)state;
}

/* ::ffff:127.0.0.1, as programs have it that use IPv6 for both. */
static void a_mapped_address_is_one_of_ipv4(void **state)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6 };
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	const struct sockaddr_in *peer;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	to.sin6_port = htons(party.port);
	inet_pton(AF_INET6, "::ffff:127.0.0.1", &to.sin6_addr);
	assert_int_equal(rdma_create_id(party.client_channel, &party.client, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(party.client, NULL, (struct sockaddr *)&to, 1000), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_resolve_route(party.client, 1000), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	party_create_qp(party.client);
	assert_int_equal(rdma_connect(party.client, &param), 0);
	party_request(&party);
	peer = (const struct sockaddr_in *)rdma_get_peer_addr(party.server);
	assert_int_equal(peer->sin_family, AF_INET);
	assert_int_equal(peer->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_int_equal(peer->sin_port, rdma_get_src_port(party.client));
	assert_int_equal(rdma_accept(party.server, NULL), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_event(party.server_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	party_end(&party);
	(void)state;
}

static void private_data_is_padded_to_its_field(void **state)
{
	struct rdma_conn_param param = { .private_data = "x", .private_data_len = 1 };
	uint8_t expected[196] = { 'y' };
	struct rdma_cm_event *event;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, &param), 0);
	party_request(&party);
	assert_int_equal(party.request.private_data_len, 56);
	assert_int_equal(party.request_data[0], 'x');
	assert_int_equal(party.request_data[1], 0);
	param.private_data = "y";
	assert_int_equal(rdma_accept(party.server, &param), 0);
	event = next_event(party.client_channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->param.conn.private_data_len, 196);
	assert_memory_equal(event->param.conn.private_data, expected, sizeof(expected));
	rdma_ack_cm_event(event);
	party_end(&party);
	(void)state;
}

static void longer_private_data_is_refused(void **state)
{
	uint8_t data[256] = { 0 };
	struct rdma_conn_param param = { .private_data = data, .private_data_len = 57 };
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, &param), -1);
	assert_int_equal(errno, EINVAL);
	param.private_data_len = 56;
	assert_int_equal(rdma_connect(party.client, &param), 0);
	party_request(&party);
	param.private_data_len = 197;
	assert_int_equal(rdma_accept(party.server, &param), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_reject(party.server, data, 149), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_reject(party.server, data, 148), 0);
	party_end(&party);
	(void)state;
}

static void a_rejection_says_why(void **state)
{
	struct rdma_cm_event *event;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, NULL), 0);
	party_request(&party);
	assert_int_equal(rdma_reject(party.server, "no", 3), 0);
	event = next_event(party.client_channel, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, 28);
	assert_int_equal(event->param.conn.private_data_len, 148);
	assert_string_equal(event->param.conn.private_data, "no");
	rdma_ack_cm_event(event);
	party_end(&party);
	(void)state;
}

static void nobody_listens(void **state)
{
	struct party party;

	party_begin_unheard(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, NULL), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_REJECTED), 8);
	party_end(&party);
	(void)state;
}

static enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static void both_sides_hear_of_the_end_once(void **state)
{
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_connect(&party);
	assert_int_equal(qp_state(party.client->qp), IBV_QPS_RTS);
	assert_int_equal(qp_state(party.server->qp), IBV_QPS_RTS);
	assert_int_equal(rdma_disconnect(party.client), 0);
	assert_int_equal(qp_state(party.client->qp), IBV_QPS_ERR);
	assert_int_equal(expect_event(party.server_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
	/* It is the server's application that answers. */
	expect_silence(party.client_channel, 0);
	assert_int_equal(rdma_disconnect(party.server), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
	party_end(&party);
	(void)state;
}

static void the_smaller_depths_are_used(void **state)
{
	struct rdma_conn_param param = { .responder_resources = 2, .initiator_depth = 1 };
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, &param), 0);
	party_request(&party);
	assert_int_equal(rdma_accept(party.server, NULL), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(ibv_query_qp(party.server->qp, &attr,
				      IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init),
			 0);
	assert_int_equal(attr.max_dest_rd_atomic, 1);
	assert_int_equal(attr.max_rd_atomic, 2);
	param.responder_resources = 254;
	assert_int_equal(rdma_accept(party.server, &param), -1);
	party_end(&party);
	(void)state;
}

static void calls_out_of_order_are_refused(void **state)
{
	struct rdma_cm_id *id;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	assert_int_equal(rdma_create_id(party.client_channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_route(id, 100), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(rdma_disconnect(id), -1);
	assert_int_equal(rdma_notify(id, IBV_EVENT_COMM_EST), -1);
	assert_int_equal(rdma_reject(id, NULL, 0), -1);
	assert_int_equal(rdma_destroy_id(id), 0);
	party_connect(&party);
	assert_int_equal(rdma_notify(party.server, IBV_EVENT_COMM_EST), -1);
	assert_int_equal(errno, EISCONN);
	assert_int_equal(rdma_establish(party.client), -1);
	party_end(&party);
	(void)state;
}

/* A request that nobody fetched is refused when its listener goes, and leaves nothing behind. */
static void a_listener_goes_with_its_requests(void **state)
{
	struct pollfd ready = { .events = POLLIN };
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, NULL), 0);
	ready.fd = party.server_channel->fd;
	assert_int_equal(poll(&ready, 1, 5000), 1);
	assert_int_equal(rdma_destroy_id(party.listener), 0);
	party.listener = NULL;
	expect_silence(party.server_channel, 0);
	assert_int_not_equal(expect_event(party.client_channel, RDMA_CM_EVENT_REJECTED), 0);
	party_end(&party);
	(void)state;
}

static int serve_and_die(int ready_fd, bool accept)
{
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	if (write(ready_fd, &party.port, sizeof(party.port)) != sizeof(party.port))
		return 1;
	party_request(&party);
	if (!accept) {
		/* Until the client was asked for time, which it does not tell. */
		poll(NULL, 0, 200);
		raise(SIGKILL);
	}
	if (rdma_accept(party.server, NULL))
		return 2;
	expect_event(party.server_channel, RDMA_CM_EVENT_ESTABLISHED);
	raise(SIGKILL);
	return 3;
}

static void connect_to_one_that_dies(bool accepts)
{
	int pipe_fds[2];
	struct party party;
	uint16_t port;
	pid_t child;

	assert_int_equal(pipe(pipe_fds), 0);
	child = fork();
	if (!child)
		_exit(serve_and_die(pipe_fds[1], accepts));
	assert_int_equal(read(pipe_fds[0], &port, sizeof(port)), sizeof(port));
	party_begin(&party, RDMA_PS_TCP);
	party.port = port;
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, NULL), 0);
	if (accepts) {
		assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
		expect_event(party.client_channel, RDMA_CM_EVENT_DISCONNECTED);
	} else {
		assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_REJECTED), 8);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	party_end(&party);
}

static void the_death_of_the_peer_is_an_event(void **state)
{
	SKIP_WITHOUT_FORK();
	connect_to_one_that_dies(true);
	(void)state;
}

static void the_peer_dies_while_it_thinks(void **state)
{
	SKIP_WITHOUT_FORK();
	connect_to_one_that_dies(false);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_request_arrives_as_it_was_made),
		cmocka_unit_test(a_mapped_address_is_one_of_ipv4),
		cmocka_unit_test(private_data_is_padded_to_its_field),
		cmocka_unit_test(longer_private_data_is_refused),
		cmocka_unit_test(a_rejection_says_why),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(both_sides_hear_of_the_end_once),
		cmocka_unit_test(the_smaller_depths_are_used),
		cmocka_unit_test(calls_out_of_order_are_refused),
		cmocka_unit_test(a_listener_goes_with_its_requests),
		cmocka_unit_test(the_death_of_the_peer_is_an_event),
		cmocka_unit_test(the_peer_dies_while_it_thinks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
