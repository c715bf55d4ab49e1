/* SPDX-License-Identifier: BSD-2-Clause */
#include "party.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>

void address4(struct sockaddr_in *addr, const char *text, uint16_t port)
{
	memset(addr, 0, sizeof(*addr));
	addr->sin_family = AF_INET;
	addr->sin_port = htons(port);
	assert_int_equal(inet_pton(AF_INET, text, &addr->sin_addr), 1);
}

void party_begin(struct party *party, enum rdma_port_space ps)
{
	struct sockaddr_in addr;

	memset(party, 0, sizeof(*party));
	party->ps = ps;
	party->server_channel = rdma_create_event_channel();
	party->client_channel = rdma_create_event_channel();
	assert_non_null(party->server_channel);
	assert_non_null(party->client_channel);
	assert_int_equal(rdma_create_id(party->server_channel, &party->listener, party, ps), 0);
	address4(&addr, "127.0.0.1", 0);
	assert_int_equal(rdma_bind_addr(party->listener, (struct sockaddr *)&addr), 0);
	assert_int_equal(rdma_listen(party->listener, 0), 0);
	party->port = ntohs(rdma_get_src_port(party->listener));
	assert_int_not_equal(party->port, 0);
}

void party_begin_unheard(struct party *party, enum rdma_port_space ps)
{
	party_begin(party, ps);
	rdma_destroy_id(party->listener);
	party->listener = NULL;
}

static void destroy(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

void party_end(struct party *party)
{
	destroy(party->client);
	destroy(party->server);
	destroy(party->listener);
	rdma_destroy_event_channel(party->client_channel);
	rdma_destroy_event_channel(party->server_channel);
}

void party_create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 4,
			 .max_recv_sge = 4 },
		.qp_type = id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

void party_resolve(struct party *party)
{
	struct sockaddr_in addr;

	address4(&addr, "127.0.0.1", party->port);
	assert_int_equal(rdma_create_id(party->client_channel, &party->client, NULL, party->ps), 0);
	assert_int_equal(rdma_resolve_addr(party->client, NULL, (struct sockaddr *)&addr, 1000), 0);
	assert_int_equal(expect_event(party->client_channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_non_null(party->client->verbs);
	assert_int_equal(party->client->port_num, 1);
	assert_int_equal(rdma_resolve_route(party->client, 1000), 0);
	assert_int_equal(expect_event(party->client_channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	assert_int_equal(party->client->route.num_paths, 1);
	party_create_qp(party->client);
}

void party_request(struct party *party)
{
	struct rdma_cm_event *event =
		next_event(party->server_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	const void *data;

	assert_ptr_equal(event->listen_id, party->listener);
	assert_ptr_equal(event->id->context, party);
	party->server = event->id;
	party->request = event->param.conn;
	data = event->param.conn.private_data;
	if (data)
		memcpy(party->request_data, data, event->param.conn.private_data_len);
	rdma_ack_cm_event(event);
	party_create_qp(party->server);
}

void party_connect(struct party *party)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	party_resolve(party);
	assert_int_equal(rdma_connect(party->client, &param), 0);
	party_request(party);
	assert_int_equal(rdma_accept(party->server, NULL), 0);
	assert_int_equal(expect_event(party->client_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_event(party->server_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
}

/* A message of the connection manager that is lost is sent again after 4.3 s. */
enum { PATIENCE_MS = 20000 };

struct rdma_cm_event *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	return event;
}

int expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = next_event(channel, type);
	int status = event->status;

	assert_int_equal(rdma_ack_cm_event(event), 0);
	return status;
}

void expect_silence(struct rdma_event_channel *channel, int for_ms)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };

	assert_int_equal(poll(&ready, 1, for_ms), 0);
}
